#include "runtime/program_codec.h"

#include <utility>

#include "runtime/byte_codec.h"
#include "runtime/verify_program.h"

namespace weft {
namespace {

static_assert(kMaxByteDepth > kMaxStepDepth);  // the program's own list is not nested

template <typename A>
void kernel(A& a, Like<A, KernelImage>& k) {
  a.text(k.name);
  a.bytes(k.bytes);
  numbers(a, k.phase_entries);
  a.value(k.hash);
  auto& d = k.device;
  a.text(d.entry);
  values(a, d.blocks, d.threads, d.cluster, d.shared_bytes, d.cooperative, d.blocks_per_sm,
         d.registers, d.spill_bytes);
  a.text(d.library_call);
}

template <typename A>
void constant(A& a, Like<A, StoredConstant>& c) {
  values(a, c.dtype, c.offset);
  numbers(a, c.shape);
}

template <typename A>
void io(A& a, Like<A, ProgramIo>& x) {
  a.text(x.name);
  values(a, x.dtype, x.alignment, x.lowest, x.highest, x.drawn);
  numbers(a, x.shape);
}

template <typename A>
void buffer(A& a, Like<A, ProgramBuffer>& b) {
  a.text(b.name);
  values(a, b.kind, b.dtype, b.bytes, b.index, b.offset);
  numbers(a, b.shape);
  values(a, b.base, b.other, b.loop, b.stride, b.reverse);
}

template <typename A>
void launch(A& a, Like<A, LaunchStep>& l) {
  a.value(l.kernel);
  numbers(a, l.buffers);
  numbers(a, l.arguments);
  numbers(a, l.work_items);
  values(a, l.scratch_bytes, l.serial, l.inner_barriers, l.pieces);
}

template <typename A>
void host(A& a, Like<A, HostStep>& h) {
  a.value(h.op);
  numbers(a, h.operands);
  numbers(a, h.results);
  values(a, h.serial, h.axis, h.k, h.descending, h.exclusive, h.reverse, h.combines, h.combiner);
}

template <typename A>
void steps(A& a, Like<A, std::vector<ProgramStep>>& list);

template <typename A>
void loop(A& a, Like<A, LoopStep>& l) {
  values(a, l.loop, l.trips, l.condition);
  steps(a, l.condition_steps);
  steps(a, l.body);
  a.list(l.carries, [&](auto& c) { values(a, c.carry, c.initial, c.result); });
}

template <typename A>
void step(A& a, Like<A, ProgramStep>& s) {
  a.text(s.name);
  values(a, s.kind, s.barrier_before);
  switch (s.kind) {
    case ProgramStep::Kind::kLaunch:
      return launch(a, s.launch);
    case ProgramStep::Kind::kHost:
      return host(a, s.host);
    case ProgramStep::Kind::kIf:
      return a.owned(s.if_step, [&](auto& branch) {
        a.value(branch.condition);
        steps(a, branch.then_steps);
        steps(a, branch.else_steps);
      });
    case ProgramStep::Kind::kLoop:
      return a.owned(s.loop_step, [&](auto& l) { loop(a, l); });
  }
}

template <typename A>
void steps(A& a, Like<A, std::vector<ProgramStep>>& list) {
  if (!a.enter()) return;
  a.list(list, [&](auto& s) { step(a, s); });
  a.leave();
}

template <typename A>
void entry(A& a, Like<A, ProgramArchive::Entry>& e) {
  auto& p = e.program;
  a.text(p.model);
  a.text(p.target);
  a.list(p.required_features, [&](auto& feature) { a.text(feature); });
  a.text(p.arch);
  a.list(p.inputs, [&](auto& x) { io(a, x); });
  a.list(p.outputs, [&](auto& x) { io(a, x); });
  a.list(p.buffers, [&](auto& b) { buffer(a, b); });
  steps(a, p.steps);
  values(a, p.loop_count, p.arena_bytes, p.brief);
  a.text(p.explanation);
  a.text(p.explanation_json);
  numbers(a, e.kernels);
  numbers(a, e.constants);
}

template <typename A>
void archive_fields(A& a, Like<A, ProgramArchive>& archive) {
  a.list(archive.kernels, [&](auto& k) { kernel(a, k); });
  a.list(archive.constants, [&](auto& c) { constant(a, c); });
  a.list(archive.entries, [&](auto& e) { entry(a, e); });
}

}  // namespace

std::vector<std::byte> encode(const ProgramArchive& archive) {
  ByteWriter writer;
  archive_fields(writer, archive);
  return writer.take();
}

Result<ProgramArchive> decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  ProgramArchive archive;
  archive_fields(reader, archive);
  if (!reader.ok() || !reader.at_end()) return invalid_input("its description does not parse");
  return archive;
}

}  // namespace weft
