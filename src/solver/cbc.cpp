#include "solver/cbc.h"

#include <cmath>
#include <memory>
#include <mutex>
#include <string>

#include "support/dynamic_library.h"

namespace weft {

namespace {

/// What is called of Cbc_C_Interface.h (CBC 2.10).
struct CbcFunctions {
  void* (*create)() = nullptr;
  void (*destroy)(void*) = nullptr;
  void (*set_log_level)(void*, int) = nullptr;
  void (*set_parameter)(void*, const char* name, const char* value) = nullptr;
  void (*set_sense)(void*, double sense) = nullptr;
  void (*add_column)(void*, const char* name, double least, double most, double gain, char integer,
                     int rows, int*, double*) = nullptr;
  void (*add_row)(void*, const char* name, int count, const int* columns, const double* factors,
                  char sense, double bound) = nullptr;
  int (*solve)(void*) = nullptr;
  const double* (*solution)(void*) = nullptr;
  double (*gain)(void*) = nullptr;
  double (*bound)(void*) = nullptr;
  int (*is_optimal)(void*) = nullptr;
};

struct Cbc {
  CbcFunctions call;
  std::string missing;  ///< why it cannot be called
};

const Cbc& cbc() {
  static const Cbc loaded = [] {
    Cbc out;
    DynamicLibrary library =
        DynamicLibrary::open_first({"libCbcSolver.so.3", "libCbcSolver.so"}, &out.missing);
    if (!library.is_open()) return out;
    const auto bind = [&](auto& function, const char* symbol) {
      std::remove_pointer_t<std::remove_reference_t<decltype(function)>>* found = nullptr;
      library.bind(found, symbol);
      function = found;
    };
    CbcFunctions& f = out.call;
    bind(f.create, "Cbc_newModel");
    bind(f.destroy, "Cbc_deleteModel");
    bind(f.set_log_level, "Cbc_setLogLevel");
    bind(f.set_parameter, "Cbc_setParameter");
    bind(f.set_sense, "Cbc_setObjSense");
    bind(f.add_column, "Cbc_addCol");
    bind(f.add_row, "Cbc_addRow");
    bind(f.solve, "Cbc_solve");
    bind(f.solution, "Cbc_getColSolution");
    bind(f.gain, "Cbc_getObjValue");
    bind(f.bound, "Cbc_getBestPossibleObjValue");
    bind(f.is_optimal, "Cbc_isProvenOptimal");
    out.missing = library.lacking().empty() ? "" : library.file() + " lacks " + library.lacking();
    return out;
  }();
  return loaded;
}

constexpr double kMaximise = -1;

}  // namespace

Result<IntegerSolution> solve_by_cbc(const IntegerProgram& program, int64_t most_nodes) {
  IntegerSolution out;
  out.chosen.resize(program.gains.size(), false);
  out.optimal = true;
  if (!cbc().missing.empty()) {
    return Error{ErrorCode::kMissingDevice, "the integer program solver CBC cannot be loaded: " +
                                                cbc().missing + " (Debian: coinor-libcbc3)"};
  }
  // Its parameters are global.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const CbcFunctions& f = cbc().call;
  const std::unique_ptr<void, void (*)(void*)> model(f.create(), f.destroy);
  f.set_log_level(model.get(), 0);
  f.set_parameter(model.get(), "log", "0");
  f.set_parameter(model.get(), "maxN", std::to_string(most_nodes).c_str());
  // Programs so small take longer to prepare than to solve, and CBC 2.10 may abort of it.
  f.set_parameter(model.get(), "preprocess", "off");
  f.set_sense(model.get(), kMaximise);
  for (const double gain : program.gains)
    f.add_column(model.get(), "", 0, 1, gain, 1, 0, nullptr, nullptr);
  for (const IntegerProgram::Row& row : program.rows) {
    const std::vector<double> ones(row.columns.size(), 1);
    f.add_row(model.get(), "", static_cast<int>(row.columns.size()), row.columns.data(),
              ones.data(), 'L', row.most);
  }
  f.solve(model.get());
  const double* values = f.solution(model.get());
  for (size_t c = 0; values != nullptr && c < program.gains.size(); ++c) {
    out.chosen[c] = values[c] > 0.5;
    if (out.chosen[c]) out.gain += program.gains[c];
  }
  out.optimal = f.is_optimal(model.get()) != 0;
  out.bound = out.optimal ? out.gain : std::max(out.gain, f.bound(model.get()));
  return out;
}

}  // namespace weft
