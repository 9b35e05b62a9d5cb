#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>

namespace weft {

/// A prepared statement of SQLite, finalised at the end of its life.
class Statement {
 public:
  /// Where the text cannot be prepared, step() gives the code.
  Statement(sqlite3* db, const std::string& sql) {
    code_ = sqlite3_prepare_v2(db, sql.c_str(), static_cast<int>(sql.size()), &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Parameters count from 1, columns from 0.
  void bind(int parameter, const std::string& text) {
    sqlite3_bind_text64(statement_, parameter, text.data(), text.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
  }
  void bind_bytes(int parameter, const std::string& bytes) {
    sqlite3_bind_blob64(statement_, parameter, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  }
  /// SQLITE_ROW, SQLITE_DONE or an error.
  int step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  /// Text or bytes.
  std::string text(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
};

}  // namespace weft
