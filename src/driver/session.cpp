#include "driver/session.h"

namespace weft {

Result<std::unique_ptr<Session>> Session::create(Program program, int threads) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                        Executable::create(std::move(program)));
  return create(std::move(executable), threads);
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Executable> executable,
                                                 int threads) {
  std::shared_ptr<ThreadPool> pool;
  if (threads == 0) threads = available_cores();
  if (threads > 1 && executable->is_parallel()) {
    ThreadPool::Options options;
    options.threads = threads;
    WEFT_ASSIGN_OR_RETURN(pool, ThreadPool::create(options));
  }
  return create(std::move(executable), std::move(pool));
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Executable> executable,
                                                 std::shared_ptr<ThreadPool> pool) {
  auto session = std::make_unique<Session>();
  session->executable_ = std::move(executable);
  ContextOptions options;
  options.pool = std::move(pool);
  WEFT_ASSIGN_OR_RETURN(session->context_, ExecutionContext::create(session->executable_, options));
  return session;
}

Result<std::unique_ptr<Session>> Session::create(Program program,
                                                 std::shared_ptr<KernelLauncher> launcher) {
  auto session = std::make_unique<Session>();
  std::vector<std::vector<KernelEntry>> entries;
  for (const KernelImage& image : program.kernels) {
    entries.emplace_back(image.phase_entries.size(), nullptr);
  }
  WEFT_ASSIGN_OR_RETURN(
      session->executable_,
      Executable::create(std::move(program), LoadedKernels::from_functions(std::move(entries))));
  ContextOptions options;
  options.launcher = std::move(launcher);
  WEFT_ASSIGN_OR_RETURN(session->context_, ExecutionContext::create(session->executable_, options));
  return session;
}

Result<std::vector<HostTensor>> Session::run(const std::vector<HostTensor>& inputs,
                                             const RunOptions& options) {
  std::vector<HostTensor> outputs;
  for (const ProgramIo& io : program().outputs) outputs.emplace_back(io.dtype, io.shape);
  WEFT_RETURN_IF_ERROR(run_into(inputs, &outputs, options));
  return outputs;
}

Status Session::run_into(const std::vector<HostTensor>& inputs, std::vector<HostTensor>* outputs,
                         const RunOptions& options) {
  std::vector<InputRef> in;
  std::vector<OutputRef> out;
  for (const HostTensor& t : inputs) in.push_back({t.dtype(), t.shape(), t.raw()});
  for (HostTensor& t : *outputs) out.push_back({t.dtype(), t.shape(), t.mutable_raw()});
  return context_->run(in, out, options);
}

}  // namespace weft
