#include "driver/models/model_in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "driver/compiler.h"
#include "graph/contraction_depth.h"
#include "interp/interpreter.h"
#include "support/cache_memory.h"
#include "support/folder_of.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace weft {

namespace {

/// Elements and products that the interpreter makes while a graph is compiled.
constexpr int64_t kInterpretedOnce = 30'000'000;
/// As many take it no longer than to launch kernels.
constexpr int64_t kInterpreted = 2'000;
/// Of parts that are kept, each for its shapes, beside those of the last two runs: a stream of
/// images has ever new numbers of boxes. Bytes of intermediate values.
constexpr size_t kKeptPieces = 64;
constexpr int64_t kKeptBytes = int64_t{256} << 20;

/// Elements and products of a graph; as many as there can be where it has regions.
int64_t work_of(const Graph& graph) {
  int64_t work = 0;
  for (const Node& node : graph.nodes) {
    if (!node.regions.empty()) return INT64_MAX;
    const bool multiplies = node.op == GraphOp::kDotGeneral || node.op == GraphOp::kConvolution;
    for (const ValueId v : node.results) {
      const int64_t elements = element_count(graph.type(v).shape).value_or(INT64_MAX);
      const int64_t each = multiplies ? contraction_depth(graph, node) : 1;
      int64_t here = 0;
      if (__builtin_mul_overflow(elements, each, &here) ||
          __builtin_add_overflow(work, here, &work))
        return INT64_MAX;
    }
  }
  return work;
}

Error in_model(const ModelSource& source, const Error& error) {
  return {error.code, fmt::format("'{}': {}", source.name(), error.message)};
}

}  // namespace

Result<std::unique_ptr<ModelInParts>> ModelInParts::open(const ModelSource& source,
                                                         const CompileOptions& options,
                                                         bool interpreted) {
  if (source.recorded) return unsupported("sizes that depend on values, in a graph");
  MappedFile file = source.memory;
  std::string folder;
  if (source.is_file()) {
    WEFT_ASSIGN_OR_RETURN(file, map_file(source.path));
    folder = folder_of(source.path);
  }
  auto parts = ModelParts::open(std::move(file), folder);
  if (!parts.ok()) return in_model(source, parts.error());
  std::unique_ptr<ModelInParts> model(new ModelInParts(std::move(*parts), options, interpreted));
  // They are of this call; parts are compiled in later ones.
  model->options_.progress = nullptr;
  model->options_.cancel = nullptr;
  // Other shapes take over kernels and weights.
  if (model->options_.cache_dir.empty() && !model->options_.shared)
    model->options_.shared = std::make_shared<CacheMemory>();
  auto inputs = model->parts_->bind(options.import);
  if (!inputs.ok()) return in_model(source, inputs.error());
  model->inputs_ = std::move(*inputs);
  KnownValues known;
  for (const ImportedInput& input : model->inputs_) known[input.name] = {input.type, std::nullopt};
  const auto first = model->parts_->import(std::vector<bool>(model->parts_->node_count()), known);
  if (!first.ok()) return in_model(source, first.error());
  if (first->waiting.empty()) return unsupported("its sizes do not depend on values");
  for (const ImportedInput& input : first->inputs) {
    for (ImportedInput& own : model->inputs_) {
      if (own.name == input.name) own.range = input.range;
    }
  }
  return model;
}

Result<std::vector<HostTensor>> ModelInParts::run(const std::vector<HostTensor>& inputs,
                                                  const std::atomic<bool>* cancel) {
  const std::lock_guard lock(running_);
  WEFT_RETURN_IF_ERROR(check_inputs(inputs));
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs_[i].name] = {inputs[i], false};
  std::vector<bool> done(parts_->node_count());
  ++runs_;
  while (std::ranges::find(done, false) != done.end()) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
      return Error{ErrorCode::kInterrupted, "the run was cancelled"};
    WEFT_ASSIGN_OR_RETURN(Piece* const piece, piece_of(done, values));
    WEFT_CHECK(!piece->part.nodes.empty() || !piece->part.waiting.empty(), "a part of nothing");
    WEFT_RETURN_IF_ERROR(run_piece(*piece, values, cancel));
    for (const size_t node : piece->part.nodes) done[node] = true;
    for (const size_t node : piece->part.waiting) {
      WEFT_RETURN_IF_ERROR(run_node(node, values, cancel));
      done[node] = true;
    }
  }
  std::vector<HostTensor> outputs;
  for (const std::string& name : parts_->outputs()) {
    const auto found = values.find(name);
    if (found == values.end())
      return invalid_input(fmt::format("output '{}' is made by no node", name));
    outputs.push_back(found->second.tensor);
  }
  return outputs;
}

Status ModelInParts::check_inputs(const std::vector<HostTensor>& inputs) const {
  if (inputs.size() != inputs_.size())
    return invalid_input(
        fmt::format("the model has {} inputs, {} are given", inputs_.size(), inputs.size()));
  ImportOptions given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ImportedInput& input = inputs_[i];
    if (inputs[i].dtype() != input.type.dtype)
      return invalid_input(fmt::format("input '{}' is {}, the model wants {}", input.name,
                                       dtype_name(inputs[i].dtype()),
                                       dtype_name(input.type.dtype)));
    given.shapes[input.name] = inputs[i].shape();
  }
  const auto bound = parts_->bind(given);
  return bound.ok() ? Status() : Status(bound.error());
}

KnownValues ModelInParts::known_of(const Values& values) {
  KnownValues known;
  for (const auto& [name, value] : values) {
    known[name] = {{value.tensor.dtype(), value.tensor.shape()},
                   value.constant ? std::optional(value.tensor) : std::nullopt};
  }
  return known;
}

/// The next part, and what was made of it for values of these types; of the values remain those
/// that are needed.
Result<ModelInParts::Piece*> ModelInParts::piece_of(const std::vector<bool>& done, Values& values) {
  Values needed;
  for (const std::string& name : parts_->names_needed(done)) {
    if (auto found = values.extract(name)) needed.insert(std::move(found));
  }
  values = std::move(needed);
  const KnownValues known = known_of(values);
  Hasher hasher;
  for (const bool is_done : done) hasher.add_value(is_done ? 1 : 0);
  for (const auto& [name, value] : known) {
    hasher.add_text(name);
    hasher.add_text(print(value.type));
    hasher.add_value(value.constant ? 1 : 0);
    if (value.constant)
      hasher.add_bytes({value.constant->raw(), static_cast<size_t>(value.constant->bytes())});
  }
  const Hash128 key = hasher.digest128();
  const std::pair place(key.high, key.low);
  auto found = pieces_.find(place);
  if (found == pieces_.end()) {
    Piece piece;
    piece.number = met_pieces_++;
    piece.last_run = runs_;
    WEFT_ASSIGN_OR_RETURN(piece.part, parts_->import(done, known));
    const auto [met, is_first] = met_.try_emplace(done, piece.part.graph);
    if (!is_first) piece.other = std::exchange(met->second, piece.part.graph);
    found = pieces_.emplace(place, std::move(piece)).first;
    drop_old();
  }
  found->second.last_run = runs_;
  return &found->second;
}

std::string ModelInParts::explanation() const {
  constexpr size_t kMostNamed = 4;
  std::vector<const Piece*> pieces;
  for (const auto& [place, piece] : pieces_) pieces.push_back(&piece);
  std::ranges::sort(pieces, {}, [](const Piece* piece) { return piece->number; });
  std::string text;
  for (const Piece* piece : pieces) {
    const std::vector<size_t>& waiting = piece->part.waiting;
    text += fmt::format("part {}: {} of {} nodes of the model", piece->number + 1,
                        piece->part.nodes.size(), parts_->node_count());
    if (!piece->session) text += ", interpreted until these shapes come again: it is little work";
    text += "\n";
    if (piece->session) text += piece->session->program().explanation;
    for (size_t i = 0; i < std::min(waiting.size(), kMostNamed); ++i)
      text += fmt::format("then on values: {}\n", parts_->describe(waiting[i]));
    if (waiting.size() > kMostNamed)
      text += fmt::format("then on values: {} more\n", waiting.size() - kMostNamed);
    text += "\n";
  }
  return text;
}

void ModelInParts::drop_old() {
  int64_t bytes = 0;
  for (const auto& [place, piece] : pieces_)
    bytes += piece.session ? piece.session->program().arena_bytes : 0;
  while (pieces_.size() > kKeptPieces || bytes > kKeptBytes) {
    const auto oldest = std::ranges::min_element(
        pieces_, {}, [](const auto& piece) { return piece.second.last_run; });
    if (oldest->second.last_run + 1 >= runs_) return;
    bytes -= oldest->second.session ? oldest->second.session->program().arena_bytes : 0;
    pieces_.erase(oldest);
  }
}

Status ModelInParts::run_piece(Piece& piece, Values& values, const std::atomic<bool>* cancel) {
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> made, execute(piece, values, cancel));
  for (size_t i = 0; i < made.size(); ++i)
    values[piece.part.graph.output_names[i]] = {std::move(made[i]), false};
  for (const auto& [name, tensor] : piece.part.constants) values[name] = {tensor, true};
  return {};
}

Status ModelInParts::run_node(size_t node, Values& values, const std::atomic<bool>* cancel) {
  Values read;
  std::map<std::string, HostTensor> tensors;
  for (const std::string& name : parts_->names_read(node)) {
    const auto found = values.find(name);
    if (found == values.end()) continue;
    read.insert(*found);
    if (!found->second.constant) tensors.emplace(name, found->second.tensor);
  }
  Piece piece;
  WEFT_ASSIGN_OR_RETURN(piece.part, parts_->import_node(node, known_of(read), tensors));
  // Its constants follow from the values of this run.
  for (const auto& [name, tensor] : piece.part.constants) values[name] = {tensor, false};
  piece.part.constants.clear();
  return run_piece(piece, values, cancel);
}

Result<std::vector<HostTensor>> ModelInParts::execute(Piece& piece, const Values& values,
                                                      const std::atomic<bool>* cancel) {
  const Graph& graph = piece.part.graph;
  if (graph.outputs.empty()) return std::vector<HostTensor>();
  std::vector<HostTensor> inputs;
  for (const ImportedInput& input : piece.part.inputs)
    inputs.push_back(values.at(input.name).tensor);
  if (!piece.session) {
    const int64_t most = piece.runs++ > 0 ? kInterpreted : kInterpretedOnce;
    if (interpreted_ || work_of(graph) <= most) return interpret(graph, inputs);
    WEFT_RETURN_IF_ERROR(compile(piece, cancel));
  }
  RunOptions options;
  options.cancel = cancel;
  return piece.session->run(inputs, options);
}

Status ModelInParts::compile(Piece& piece, const std::atomic<bool>* cancel) {
  CompileOptions options = options_;
  options.cancel = cancel;
  WEFT_ASSIGN_OR_RETURN(auto compilation, compile_graph(piece.part.graph, options, piece.other));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                        Executable::create(std::move(compilation->program)));
  const int threads = options_.threads == 0 ? available_cores() : options_.threads;
  const bool shares = executable->is_parallel() && threads > 1;
  if (pool_ == nullptr && shares) {
    ThreadPool::Options pool;
    pool.threads = threads;
    WEFT_ASSIGN_OR_RETURN(pool_, ThreadPool::create(pool));
  }
  WEFT_ASSIGN_OR_RETURN(piece.session,
                        Session::create(std::move(executable), shares ? pool_ : nullptr));
  return {};
}

}  // namespace weft
