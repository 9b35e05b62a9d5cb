#include "simt/shadow_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace weft::simt {
namespace {

bool same_cluster(const Actor& actor, const Access& earlier) {
  return earlier.block / actor.cluster == actor.block / actor.cluster;
}

/// Whether `earlier`, of the phase of `actor`, is in its past.
bool is_ordered(const Actor& actor, const Access& earlier) {
  const bool one = earlier.who == Access::Who::kThread;
  if (earlier.who == Access::Who::kGrid) return false;
  if (earlier.who == Access::Who::kCluster) {
    return same_cluster(actor, earlier) && earlier.bar < actor.cluster_bar;
  }
  if (earlier.block != actor.block) {
    const uint32_t thread = one ? earlier.thread : Knowledge::kAnyThread;
    return actor.own->covers(earlier.block, thread, earlier.bar, earlier.tick) ||
           actor.block_known->covers(earlier.block, thread, earlier.bar, earlier.tick);
  }
  if (earlier.bar < actor.bar || (one && earlier.thread == actor.thread)) return true;
  if (earlier.who == Access::Who::kBlock || earlier.thread / 32 != actor.thread / 32) return false;
  uint32_t lanes = one ? 1u << earlier.thread % 32 : earlier.lanes & ~(1u << actor.thread % 32);
  for (; lanes != 0; lanes &= lanes - 1) {
    if (earlier.tick >= actor.seen[__builtin_ctz(lanes)]) return false;
  }
  return true;
}

bool is_atomic(AccessKind kind) {
  return kind == AccessKind::kAtomic || kind == AccessKind::kAtomicRead;
}

bool only_reads(AccessKind kind) {
  return kind == AccessKind::kRead || kind == AccessKind::kReadOnly ||
         kind == AccessKind::kAtomicRead;
}

Access access_of(const Actor& actor, const ShadowMemory::Request& request) {
  Access access;
  access.phase = request.phase;
  access.block = actor.block;
  access.bar = actor.bar;
  access.tick = actor.tick;
  access.site = request.site;
  access.lanes = 1u << actor.thread % 32;
  access.thread = static_cast<uint16_t>(actor.thread);
  access.atomic = is_atomic(request.kind);
  return access;
}

/// Adds a read to those that stand since the last write.
void merge_read(Access& reads, const Actor& actor, const ShadowMemory::Request& request) {
  const bool live = reads.phase == request.phase && !is_ordered(actor, reads);
  if (!live) {
    reads = access_of(actor, request);
    return;
  }
  reads.atomic = reads.atomic && is_atomic(request.kind);
  if (reads.who >= Access::Who::kCluster || reads.block != actor.block) {
    // Reads of one cluster that nothing orders lie between the same two of its barriers.
    const bool cluster = reads.who != Access::Who::kGrid && same_cluster(actor, reads);
    reads.who = cluster ? Access::Who::kCluster : Access::Who::kGrid;
    reads.bar = actor.cluster_bar;
  } else if (reads.who == Access::Who::kBlock || reads.thread / 32 != actor.thread / 32) {
    reads.who = Access::Who::kBlock;
  } else {
    reads.who = Access::Who::kWarp;
    reads.lanes |= 1u << actor.thread % 32;
    reads.tick = std::max(reads.tick, actor.tick);
  }
}

Collision collide(Collision::Kind kind, bool with_write, const Access& earlier) {
  Collision collision;
  collision.kind = kind;
  collision.with_write = with_write;
  collision.earlier = earlier;
  return collision;
}

/// Checks one cell and records the access in it.
Collision touch(Cell& cell, const Actor& actor, const ShadowMemory::Request& request) {
  using Kind = Collision::Kind;
  const bool ever_written = cell.write.phase >= request.first_phase;
  const bool written_now = cell.write.phase == request.phase;
  const bool read_now = cell.read.phase == request.phase;
  Collision found;
  if (!ever_written) cell.copying = false;

  if (cell.copying && request.kind != AccessKind::kCopyEnd) {
    found = collide(Kind::kCopying, true, cell.write);
  } else if (request.kind == AccessKind::kReadOnly && ever_written) {
    found = collide(Kind::kStale, true, cell.write);
  } else if (written_now && !(cell.write.atomic && is_atomic(request.kind)) &&
             !is_ordered(actor, cell.write)) {
    found = collide(Kind::kRace, true, cell.write);
  }
  if (only_reads(request.kind)) {
    if (!ever_written && !request.initialised) found = collide(Kind::kUninitialised, true, {});
    merge_read(cell.read, actor, request);
    return found;
  }
  if (request.kind == AccessKind::kAtomic && !ever_written && !request.initialised) {
    found = collide(Kind::kUninitialised, true, {});
  }
  if (found.kind == Kind::kNone && read_now &&
      !(cell.read.atomic && request.kind == AccessKind::kAtomic) && !is_ordered(actor, cell.read)) {
    found = collide(Kind::kRace, false, cell.read);
  }
  cell.write = access_of(actor, request);
  cell.read.phase = 0;
  cell.copying = request.kind == AccessKind::kCopyStart;
  return found;
}

}  // namespace

ShadowMemory::~ShadowMemory() {
  if (words_ != nullptr) ::munmap(words_, count_ * sizeof(Word));
}

ShadowMemory::ShadowMemory(ShadowMemory&& other) noexcept { *this = std::move(other); }

ShadowMemory& ShadowMemory::operator=(ShadowMemory&& other) noexcept {
  std::swap(words_, other.words_);
  std::swap(count_, other.count_);
  std::swap(bytes_, other.bytes_);
  std::swap(free_, other.free_);
  return *this;
}

Status ShadowMemory::reserve(size_t bytes) {
  const size_t words = bytes / 4 + 1;
  if (words <= count_) return {};
  if (words_ != nullptr) ::munmap(words_, count_ * sizeof(Word));
  words_ = nullptr;
  count_ = 0;
  bytes_.clear();
  free_.clear();
  if (words > SIZE_MAX / 2 / sizeof(Word)) return unsupported("a buffer is too large to emulate");
  void* memory = ::mmap(nullptr, words * sizeof(Word), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return unsupported("no memory to follow the accesses of a buffer");
  words_ = static_cast<Word*>(memory);
  count_ = words;
  return {};
}

uint32_t ShadowMemory::split_word(Word& word) {
  if (word.split == 0) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(bytes_.size()));
      bytes_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    bytes_[index].fill(word.cell);
    word.split = index + 1;
  }
  return word.split - 1;
}

Collision ShadowMemory::access(const Actor& actor, const Request& request) {
  Collision found;
  const size_t end = request.offset + request.bytes;
  for (size_t at = request.offset; at < end;) {
    Word& word = words_[at / 4];
    const size_t word_end = std::min(end, (at / 4 + 1) * 4);
    const bool whole = word_end - at == 4;
    if (whole && word.split == 0) {
      const Collision collision = touch(word.cell, actor, request);
      if (found.kind == Collision::Kind::kNone && collision.kind != Collision::Kind::kNone) {
        found = collision;
        found.byte = static_cast<uint32_t>(at - request.offset);
      }
      at += 4;
      continue;
    }
    const uint32_t split = split_word(word);
    for (; at < word_end; ++at) {
      const Collision collision = touch(bytes_[split][at % 4], actor, request);
      if (found.kind == Collision::Kind::kNone && collision.kind != Collision::Kind::kNone) {
        found = collision;
        found.byte = static_cast<uint32_t>(at - request.offset);
      }
    }
    // Four bytes just written alike are one word again.
    if (whole && !only_reads(request.kind)) {
      word.cell = bytes_[split][0];
      word.split = 0;
      free_.push_back(split);
    }
  }
  return found;
}

bool ShadowMemory::written(size_t offset, uint32_t first_phase) const {
  const Word& word = words_[offset / 4];
  const Cell& cell = word.split == 0 ? word.cell : bytes_[word.split - 1][offset % 4];
  return cell.write.phase >= first_phase;
}

}  // namespace weft::simt
