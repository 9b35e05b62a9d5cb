#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/hash.h"
#include "support/result.h"

struct sqlite3;

namespace weft {

/// What was measured of one way to compose a group: a row of the library.
struct MeasuredRow {
  Hash128 group;                     ///< GroupKey::hash
  Hash128 target;                    ///< of the target's description
  std::string composition;           ///< as the plan's text has it
  std::string compiler;              ///< the state of the compiler that made the code
  std::vector<double> microseconds;  ///< samples of one launch, in the order of measuring

  /// Requires: a sample.
  double median() const;
  /// What a plan calls the row: 16 hexadecimal digits of all that tells it from others.
  std::string name() const;
};

/// Measurements of candidates in an SQLite file, one row a candidate, which any number of processes
/// may read and write. Each addition is a transaction of its own: what an interrupt leaves is
/// whole. Rows do not know of each other, so that adding one leaves the others valid.
class PerformanceLibrary {
 public:
  /// How processes keep out of each other's way: by locks of the file system or, where these do not
  /// work, by a file `.lock` beside it, which lets a single process in.
  enum class Locking : uint8_t { kFileSystem, kLockFile };
  /// What the folder of a file has: network file systems and what refuses a lock have no locks to
  /// rely on.
  static Locking locking_of(const std::string& path);

  using Warn = std::function<void(const std::string&)>;
  /// To read and write; made when missing. A file that is damaged or none of weft's is renamed,
  /// which `warn` is told. kInvalidInput: it cannot be made, another process keeps it, or a newer
  /// weft made it.
  static Result<PerformanceLibrary> open(const std::string& path, const Warn& warn);
  static Result<PerformanceLibrary> open(const std::string& path, const Warn& warn,
                                         Locking locking);
  /// The rows of a file that is there, which stays as it is. kInvalidInput where it is damaged or
  /// none of weft's, too.
  static Result<std::vector<MeasuredRow>> read(const std::string& path);

  /// By group, target, composition and compiler.
  Result<std::vector<MeasuredRow>> rows() const;
  /// Appends samples to the row, which is made when missing.
  Status add(const MeasuredRow& row);
  /// Takes what the rows have and the library lacks: of a row that both have, each sample as often
  /// as the one has it that has it more often, so that merging twice changes nothing. Returns how
  /// many rows are new or longer.
  Result<int64_t> merge(const std::vector<MeasuredRow>& rows);
  /// Drops rows of other states of the compiler; returns how many.
  Result<int64_t> drop_others(const std::string& compiler);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;
  PerformanceLibrary(std::string path, Handle db) : path_(std::move(path)), db_(std::move(db)) {}

  static Result<Handle> connect(const std::string& path, Locking locking);
  Result<bool> is_sound() const;
  Status set_up(Locking locking);
  Status check_version() const;
  Status execute(const std::string& sql) const;
  Result<int64_t> number(const std::string& sql) const;
  Result<std::vector<double>> samples_of(const MeasuredRow& row) const;
  Status put(const MeasuredRow& row, const std::vector<double>& samples);
  Status in_transaction(const std::function<Status()>& job);
  Error error_of(const std::string& what) const;

  std::string path_;
  Handle db_;
};

/// A file with these rows, complete or not at all; it takes the place of one that is there.
Status export_rows(const std::string& path, const std::vector<MeasuredRow>& rows);

}  // namespace weft
