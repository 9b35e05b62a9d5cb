#include "runtime/program_codec.h"

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/verify_program.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  static constexpr bool kReads = false;

  template <Plain T>
  void value(const T& v) {
    raw(&v, sizeof v);
  }
  void text(const std::string& s) {
    value(static_cast<uint64_t>(s.size()));
    raw(s.data(), s.size());
  }
  void bytes(const std::vector<std::byte>& b) {
    value(static_cast<uint64_t>(b.size()));
    raw(b.data(), b.size());
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& elements, const Each& each) {
    value(static_cast<uint64_t>(elements.size()));
    for (const T& element : elements) each(element);
  }
  template <typename T, typename Fields>
  void owned(const std::shared_ptr<T>& pointer, const Fields& fields) {
    fields(std::as_const(*pointer));
  }
  bool enter() { return true; }
  void leave() {}

  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void raw(const void* data, size_t size) {
    if (size == 0) return;
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  std::vector<std::byte> out_;
};

/// Reads nothing more after the first fault.
class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Plain T>
  void value(T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      value(byte);
      if (byte > 1) fail();
      v = byte == 1;
    } else if (take(sizeof v)) {
      std::memcpy(&v, taken_, sizeof v);
    }
  }
  void text(std::string& s) {
    const size_t size = count();
    if (take(size)) s.assign(reinterpret_cast<const char*>(taken_), size);
  }
  void bytes(std::vector<std::byte>& b) {
    const size_t size = count();
    if (take(size)) b.assign(taken_, taken_ + size);
  }
  /// Grows with what is really there, so that a wrong count takes no memory.
  template <typename T, typename Each>
  void list(std::vector<T>& elements, const Each& each) {
    elements.clear();
    for (size_t left = count(); left > 0 && ok_; --left) each(elements.emplace_back());
  }
  template <typename T, typename Fields>
  void owned(std::shared_ptr<T>& pointer, const Fields& fields) {
    if (!ok_) return;
    pointer = std::make_shared<T>();
    fields(*pointer);
  }
  bool enter() {
    if (++depth_ > kMaxStepDepth + 1) fail();  // the program's own list is not nested
    return ok_;
  }
  void leave() { --depth_; }

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  size_t count() {
    uint64_t n = 0;
    value(n);
    if (n > rest_.size()) fail();  // every element takes at least a byte
    return ok_ ? static_cast<size_t>(n) : 0;
  }
  bool take(size_t size) {
    if (!ok_ || size > rest_.size()) {
      fail();
      return false;
    }
    taken_ = rest_.data();
    rest_ = rest_.subspan(size);
    return true;
  }

  std::span<const std::byte> rest_;
  const std::byte* taken_ = nullptr;
  int depth_ = 0;
  bool ok_ = true;
};

/// Each type's fields are named once, for both directions: A is Writer or Reader.
template <typename A, typename T>
using Like = std::conditional_t<A::kReads, T, const T>;

template <typename A, typename... T>
void values(A& a, T&... each) {
  (a.value(each), ...);
}

template <typename A, typename T>
void numbers(A& a, T& list) {
  a.list(list, [&](auto& number) { a.value(number); });
}

template <typename A>
void kernel(A& a, Like<A, KernelImage>& k) {
  a.text(k.name);
  a.bytes(k.bytes);
  numbers(a, k.phase_entries);
  a.value(k.hash);
}

template <typename A>
void constant(A& a, Like<A, StoredConstant>& c) {
  values(a, c.dtype, c.offset);
  numbers(a, c.shape);
}

template <typename A>
void io(A& a, Like<A, ProgramIo>& x) {
  a.text(x.name);
  values(a, x.dtype, x.alignment);
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
  values(a, l.scratch_bytes, l.serial);
}

template <typename A>
void host(A& a, Like<A, HostStep>& h) {
  a.value(h.op);
  numbers(a, h.operands);
  numbers(a, h.results);
  values(a, h.axis, h.k, h.descending, h.exclusive, h.reverse, h.combines, h.combiner);
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
  a.list(p.inputs, [&](auto& x) { io(a, x); });
  a.list(p.outputs, [&](auto& x) { io(a, x); });
  a.list(p.buffers, [&](auto& b) { buffer(a, b); });
  steps(a, p.steps);
  values(a, p.loop_count, p.arena_bytes);
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
  Writer writer;
  archive_fields(writer, archive);
  return writer.take();
}

Result<ProgramArchive> decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  ProgramArchive archive;
  archive_fields(reader, archive);
  if (!reader.ok() || !reader.at_end()) return invalid_input("its description does not parse");
  return archive;
}

}  // namespace weft
