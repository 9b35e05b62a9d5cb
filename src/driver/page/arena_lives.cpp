#include "driver/page/arena_lives.h"

#include <algorithm>

namespace weft {

namespace {

class LifeReader {
 public:
  explicit LifeReader(const Program& program) : program_(program), spans_(program.buffers.size()) {}

  void steps(const std::vector<ProgramStep>& steps) {
    for (const ProgramStep& step : steps) this->step(step);
  }

  ArenaLives take() {
    for (size_t b = 0; b < spans_.size(); ++b) {
      const ProgramBuffer& buffer = program_.buffers[b];
      if (buffer.kind != ProgramBuffer::Kind::kArena || spans_[b].first < 0) continue;
      out_.lives.push_back(
          {buffer.name, buffer.offset, buffer.bytes, spans_[b].first, spans_[b].last});
    }
    return std::move(out_);
  }

 private:
  struct Span {
    int32_t first = -1, last = -1;
  };

  void step(const ProgramStep& step) {
    at_ = static_cast<int32_t>(out_.steps.size());
    out_.steps.push_back(step.name);
    for (const int32_t b : step.launch.buffers) use(b);
    for (const int32_t b : step.host.operands) use(b);
    for (const int32_t b : step.host.results) use(b);
    if (step.if_step) {
      use(step.if_step->condition);
      steps(step.if_step->then_steps);
      steps(step.if_step->else_steps);
    }
    if (step.loop_step) loop(*step.loop_step);
  }

  void loop(const LoopStep& loop) {
    const int32_t begin = at_;
    for (const auto& [carry, initial, result] : loop.carries) {
      for (const int32_t b : {carry, initial, result}) use(b);
    }
    use(loop.condition);
    steps(loop.condition_steps);
    steps(loop.body);
    const int32_t end = at_;
    for (const auto& [carry, initial, result] : loop.carries) {
      for (const int32_t b : {carry, result}) use(b);
    }
    for (Span& span : spans_) {
      const bool inside = span.first >= 0 && span.last >= begin;
      if (inside && span.first < begin) span.last = std::max(span.last, end);
    }
  }

  /// A slice or a carry uses what it is of.
  void use(int32_t b) {
    if (b < 0) return;
    const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(b)];
    if (buffer.kind == ProgramBuffer::Kind::kSlice) return use(buffer.base);
    if (buffer.kind > ProgramBuffer::Kind::kSlice) {  // a carry
      use(buffer.base);
      return use(buffer.other);
    }
    Span& span = spans_[static_cast<size_t>(b)];
    if (span.first < 0) span.first = at_;
    span.last = at_;
  }

  const Program& program_;
  ArenaLives out_;
  std::vector<Span> spans_;
  int32_t at_ = 0;
};

}  // namespace

ArenaLives arena_lives(const Program& program) {
  LifeReader reader(program);
  reader.steps(program.steps);
  return reader.take();
}

}  // namespace weft
