#include "library/performance_library.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "library/statement.h"
#include "support/file_descriptor.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

/// "weft", in a file's header.
constexpr int64_t kApplication = 0x77656674;
constexpr int64_t kVersion = 1;
/// For others that write: what SQLite waits within a statement, and how often a transaction that
/// found no turn is tried again.
constexpr int kBusyMilliseconds = 1000;
constexpr int kTries = 30;

constexpr const char* kTable =
    "CREATE TABLE candidates (group_key TEXT NOT NULL, target TEXT NOT NULL, composition TEXT NOT "
    "NULL, compiler TEXT NOT NULL, samples BLOB NOT NULL, PRIMARY KEY (group_key, target, "
    "composition, compiler)) WITHOUT ROWID";

bool is_busy(int code) { return (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED; }
bool is_damage(int code) {
  return (code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT;
}

std::optional<Hash128> parse_key(const std::string& digits) {
  if (digits.size() != 32) return std::nullopt;
  const auto high = parse_hex64(std::string_view(digits).substr(0, 16));
  const auto low = parse_hex64(std::string_view(digits).substr(16));
  if (!high || !low) return std::nullopt;
  return Hash128{*high, *low};
}

std::string bytes_of(const std::vector<double>& samples) {
  std::string bytes;
  for (const double sample : samples) {
    const auto bits = std::bit_cast<uint64_t>(sample);
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
  }
  return bytes;
}

std::vector<double> samples_from(std::string_view bytes) {
  std::vector<double> samples;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; ++i)
      bits |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    samples.push_back(std::bit_cast<double>(bits));
  }
  return samples;
}

/// Of `more` what `samples` lacks, behind them.
std::vector<double> joined(std::vector<double> samples, const std::vector<double>& more) {
  std::map<double, int64_t> surplus;
  for (const double sample : samples) ++surplus[sample];
  for (const double sample : more) {
    if (--surplus[sample] < 0) samples.push_back(sample);
  }
  return samples;
}

/// The first free name for what was set aside.
std::string aside(const std::string& path) {
  std::error_code failed;
  for (int n = 1;; ++n) {
    std::string name = fmt::format("{}.aside-{}", path, n);
    if (!fs::exists(name, failed)) return name;
  }
}

Status set_aside(const std::string& path, const std::string& why,
                 const PerformanceLibrary::Warn& warn) {
  const std::string kept = aside(path);
  std::error_code failed;
  fs::rename(path, kept, failed);
  if (failed && failed != std::errc::no_such_file_or_directory)
    return invalid_input("the performance library '" + path + "' " + why +
                         ", and cannot be renamed: " + failed.message());
  for (const char* ending : {"-wal", "-shm", "-journal"}) {
    if (fs::exists(path + ending, failed)) fs::rename(path + ending, kept + ending, failed);
  }
  warn("the performance library '" + path + "' " + why + "; it is now '" + kept + "'");
  return {};
}

void bind_key(Statement& s, const MeasuredRow& row) {
  s.bind(1, to_hex(row.group));
  s.bind(2, to_hex(row.target));
  s.bind(3, row.composition);
  s.bind(4, row.compiler);
}

}  // namespace

double MeasuredRow::median() const {
  std::vector<double> sorted = microseconds;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string MeasuredRow::name() const {
  Hasher hasher;
  hasher.add_text(to_hex(group));
  hasher.add_text(to_hex(target));
  hasher.add_text(composition);
  hasher.add_text(compiler);
  return to_hex(hasher.digest64());
}

void PerformanceLibrary::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

PerformanceLibrary::Locking PerformanceLibrary::locking_of(const std::string& path) {
  std::string folder = fs::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  struct statfs info = {};
  if (::statfs(folder.c_str(), &info) == 0) {
    // nfs, smb, cifs, smb2, 9p, afs, ceph, fuse: locks are those of a server, or of nobody.
    constexpr uint64_t kRemote[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                    0x01021997, 0x5346414f, 0x00c36400, 0x65735546};
    const auto kind = static_cast<uint64_t>(info.f_type) & 0xffffffff;
    if (std::ranges::find(kRemote, kind) != std::end(kRemote)) return Locking::kLockFile;
  }
  const FileDescriptor probe(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (probe.get() < 0) return Locking::kFileSystem;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return ::fcntl(probe.get(), F_SETLK, &lock) == 0 ? Locking::kFileSystem : Locking::kLockFile;
}

Error PerformanceLibrary::error_of(const std::string& what) const {
  const int code = sqlite3_errcode(db_.get());
  std::string message = fmt::format("the performance library '{}' cannot {}: {}", path_, what,
                                    sqlite3_errmsg(db_.get()));
  if (is_busy(code))
    message += "; another process keeps it (if none does, delete '" + path_ + ".lock')";
  return invalid_input(message);
}

Status PerformanceLibrary::execute(const std::string& sql) const {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return error_of("be written");
}

Result<int64_t> PerformanceLibrary::number(const std::string& sql) const {
  Statement s(db_.get(), sql);
  if (s.step() != SQLITE_ROW) return error_of("be read");
  return s.integer(0);
}

Result<PerformanceLibrary::Handle> PerformanceLibrary::connect(const std::string& path,
                                                               Locking locking) {
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags,
                                   locking == Locking::kLockFile ? "unix-dotfile" : nullptr);
  Handle handle(db);
  if (code != SQLITE_OK)
    return invalid_input(fmt::format("cannot open the performance library '{}': {}", path,
                                     db != nullptr ? sqlite3_errmsg(db) : "no memory"));
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  return handle;
}

/// False: it is damaged, or another program's. Files without any table are new.
Result<bool> PerformanceLibrary::is_sound() const {
  const auto tables = number("SELECT count(*) FROM sqlite_schema");
  if (!tables.ok())
    return is_damage(sqlite3_errcode(db_.get())) ? Result<bool>(false) : tables.error();
  if (*tables == 0) return true;
  WEFT_ASSIGN_OR_RETURN(const int64_t application, number("PRAGMA application_id"));
  if (application != kApplication) return false;
  Statement check(db_.get(), "PRAGMA quick_check(1)");
  const int code = check.step();
  if (code == SQLITE_ROW) return check.text(0) == "ok";
  return is_damage(code) ? Result<bool>(false) : error_of("be read");
}

Status PerformanceLibrary::check_version() const {
  WEFT_ASSIGN_OR_RETURN(const int64_t version, number("PRAGMA user_version"));
  if (version <= kVersion) return {};
  return invalid_input(fmt::format(
      "the performance library '{}' has version {} of the format, and this weft knows {}", path_,
      version, kVersion));
}

/// Requires: a sound file.
Status PerformanceLibrary::set_up(Locking locking) {
  // Without locks there is no memory to share either, and the one that writes keeps the file.
  const char* const mode = locking == Locking::kFileSystem ? "PRAGMA journal_mode = WAL"
                                                           : "PRAGMA locking_mode = EXCLUSIVE";
  // Where another process is about to change the mode, SQLite does not wait for it by itself.
  constexpr int kWaitMilliseconds = 10;
  int code = sqlite3_exec(db_.get(), mode, nullptr, nullptr, nullptr);
  for (int waited = 0; is_busy(code) && waited < kBusyMilliseconds; waited += kWaitMilliseconds) {
    sqlite3_sleep(kWaitMilliseconds);
    code = sqlite3_exec(db_.get(), mode, nullptr, nullptr, nullptr);
  }
  if (code != SQLITE_OK) return error_of("be written");
  WEFT_RETURN_IF_ERROR(check_version());
  return in_transaction([&]() -> Status {
    WEFT_ASSIGN_OR_RETURN(const int64_t tables, number("SELECT count(*) FROM sqlite_schema"));
    if (tables > 0) return {};
    WEFT_RETURN_IF_ERROR(execute(fmt::format("PRAGMA application_id = {}", kApplication)));
    WEFT_RETURN_IF_ERROR(execute(fmt::format("PRAGMA user_version = {}", kVersion)));
    return execute(kTable);
  });
}

Result<PerformanceLibrary> PerformanceLibrary::open(const std::string& path, const Warn& warn) {
  std::error_code failed;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, failed);
  return open(path, warn, locking_of(path));
}

Result<PerformanceLibrary> PerformanceLibrary::open(const std::string& path, const Warn& warn,
                                                    Locking locking) {
  {
    WEFT_ASSIGN_OR_RETURN(Handle db, connect(path, locking));
    PerformanceLibrary library(path, std::move(db));
    WEFT_ASSIGN_OR_RETURN(const bool sound, library.is_sound());
    if (sound) {
      WEFT_RETURN_IF_ERROR(library.set_up(locking));
      return library;
    }
  }
  WEFT_RETURN_IF_ERROR(set_aside(path, "is damaged or another program's", warn));
  WEFT_ASSIGN_OR_RETURN(Handle db, connect(path, locking));
  PerformanceLibrary library(path, std::move(db));
  WEFT_RETURN_IF_ERROR(library.set_up(locking));
  return library;
}

Result<std::vector<MeasuredRow>> PerformanceLibrary::read(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed))
    return invalid_input("there is no performance library '" + path + "'");
  WEFT_ASSIGN_OR_RETURN(Handle db, connect(path, locking_of(path)));
  const PerformanceLibrary library(path, std::move(db));
  WEFT_ASSIGN_OR_RETURN(const bool sound, library.is_sound());
  if (!sound) return invalid_input("'" + path + "' is damaged or no performance library");
  WEFT_RETURN_IF_ERROR(library.check_version());
  WEFT_ASSIGN_OR_RETURN(const int64_t tables, library.number("SELECT count(*) FROM sqlite_schema"));
  return tables == 0 ? Result<std::vector<MeasuredRow>>(std::vector<MeasuredRow>())
                     : library.rows();
}

Result<std::vector<MeasuredRow>> PerformanceLibrary::rows() const {
  Statement s(db_.get(),
              "SELECT group_key, target, composition, compiler, samples FROM candidates ORDER BY "
              "group_key, target, composition, compiler");
  std::vector<MeasuredRow> rows;
  int code = s.step();
  for (; code == SQLITE_ROW; code = s.step()) {
    const auto group = parse_key(s.text(0)), target = parse_key(s.text(1));
    std::vector<double> samples = samples_from(s.text(4));
    if (!group || !target || samples.empty()) continue;
    rows.push_back({*group, *target, s.text(2), s.text(3), std::move(samples)});
  }
  if (code != SQLITE_DONE) return error_of("be read");
  return rows;
}

/// The job as one transaction. Another process's turn is waited for.
Status PerformanceLibrary::in_transaction(const std::function<Status()>& job) {
  int code = SQLITE_BUSY;
  for (int tries = 0; tries < kTries && is_busy(code); ++tries)
    code = sqlite3_exec(db_.get(), "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of("be written");
  Status done = job();
  if (done.ok()) done = execute("COMMIT");
  if (!done.ok()) sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  return done;
}

Result<std::vector<double>> PerformanceLibrary::samples_of(const MeasuredRow& row) const {
  Statement s(db_.get(),
              "SELECT samples FROM candidates WHERE group_key = ? AND target = ? AND composition = "
              "? AND compiler = ?");
  bind_key(s, row);
  const int code = s.step();
  if (code == SQLITE_ROW) return samples_from(s.text(0));
  return code == SQLITE_DONE ? Result<std::vector<double>>(std::vector<double>())
                             : error_of("be read");
}

Status PerformanceLibrary::put(const MeasuredRow& row, const std::vector<double>& samples) {
  Statement s(db_.get(), "INSERT OR REPLACE INTO candidates VALUES (?, ?, ?, ?, ?)");
  bind_key(s, row);
  s.bind_bytes(5, bytes_of(samples));
  return s.step() == SQLITE_DONE ? Status() : Status(error_of("be written"));
}

Status PerformanceLibrary::add(const MeasuredRow& row) {
  return in_transaction([&]() -> Status {
    WEFT_ASSIGN_OR_RETURN(std::vector<double> samples, samples_of(row));
    samples.insert(samples.end(), row.microseconds.begin(), row.microseconds.end());
    return put(row, samples);
  });
}

Result<int64_t> PerformanceLibrary::merge(const std::vector<MeasuredRow>& rows) {
  int64_t changed = 0;
  const auto take = [&]() -> Status {
    for (const MeasuredRow& row : rows) {
      WEFT_ASSIGN_OR_RETURN(const std::vector<double> samples, samples_of(row));
      const std::vector<double> both = joined(samples, row.microseconds);
      if (both.size() == samples.size()) continue;
      WEFT_RETURN_IF_ERROR(put(row, both));
      ++changed;
    }
    return {};
  };
  WEFT_RETURN_IF_ERROR(in_transaction(take));
  return changed;
}

Result<int64_t> PerformanceLibrary::drop_others(const std::string& compiler) {
  int64_t dropped = 0;
  const auto drop = [&]() -> Status {
    Statement s(db_.get(), "DELETE FROM candidates WHERE compiler <> ?");
    s.bind(1, compiler);
    if (s.step() != SQLITE_DONE) return error_of("be written");
    dropped = sqlite3_changes(db_.get());
    return {};
  };
  WEFT_RETURN_IF_ERROR(in_transaction(drop));
  return dropped;
}

Status export_rows(const std::string& path, const std::vector<MeasuredRow>& rows) {
  const std::string unfinished = fmt::format("{}.unfinished-{}", path, ::getpid());
  const auto write = [&]() -> Status {
    WEFT_ASSIGN_OR_RETURN(PerformanceLibrary file,
                          PerformanceLibrary::open(unfinished, [](const std::string&) {}));
    return file.merge(rows).ok() ? Status() : Status(invalid_input("cannot write '" + path + "'"));
  };
  Status written = write();
  std::error_code failed;
  if (written.ok()) {
    fs::rename(unfinished, path, failed);  // SQLite put all into the one file when it was closed
    if (failed) written = invalid_input("cannot write '" + path + "': " + failed.message());
  }
  if (!written.ok()) fs::remove(unfinished, failed);
  return written;
}

}  // namespace weft
