#include <cstdlib>

#include "choice/choice.h"
#include "graph/graph_text.h"

namespace weft {

namespace {

std::string text_of(const BlockPartition::Loop& loop) {
  std::string out;
  for (const int axis : loop.axes)
    out += (out.empty() ? "" : "|") + (axis < 0 ? "-" : "d" + std::to_string(axis));
  return out + " " + std::to_string(loop.step);
}

/// `v12`, `d0`: a letter and a number.
Result<int> numbered(TextCursor& cursor, char letter) {
  const std::string word(cursor.peek_bare_name());
  const std::string digits = word.empty() ? "" : word.substr(1);
  const bool fine = !digits.empty() && digits.size() <= 9 && word[0] == letter &&
                    digits.find_first_not_of("0123456789") == std::string::npos;
  if (!fine)
    return cursor.error(std::string("expected ") + letter + " and a number, as in " + letter + "0");
  cursor.take(word);
  return std::atoi(digits.c_str());
}

Result<BlockPartition::Loop> parse_loop(TextCursor& cursor, size_t roots, bool turns) {
  BlockPartition::Loop loop;
  loop.turns = turns;
  do {
    if (cursor.take("-")) {
      loop.axes.push_back(-1);
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(const int axis, numbered(cursor, 'd'));
    loop.axes.push_back(axis);
  } while (cursor.take("|"));
  if (loop.axes.size() != roots) return cursor.error("a loop has an axis, or -, of each root");
  WEFT_ASSIGN_OR_RETURN(loop.step, cursor.integer());
  if (loop.step < 1) return cursor.error("a step is at least 1");
  return loop;
}

Result<Composition> parse_leaf(TextCursor& cursor) {
  Composition out;
  WEFT_RETURN_IF_ERROR(cursor.expect("leaf"));
  WEFT_RETURN_IF_ERROR(cursor.expect("("));
  if (cursor.take("call")) {
    WEFT_ASSIGN_OR_RETURN(out.library, cursor.name());
    WEFT_RETURN_IF_ERROR(cursor.expect("else"));
  }
  WEFT_ASSIGN_OR_RETURN(out.choice, parse_choice(cursor));
  WEFT_RETURN_IF_ERROR(cursor.expect(")"));
  return out;
}

Result<CarriedAxis> parse_carried_axis(TextCursor& cursor) {
  CarriedAxis out;
  WEFT_ASSIGN_OR_RETURN(out.member, numbered(cursor, 'v'));
  WEFT_ASSIGN_OR_RETURN(out.reduction, numbered(cursor, 'r'));
  WEFT_ASSIGN_OR_RETURN(out.step, cursor.integer());
  if (out.step < 1) return cursor.error("a step is at least 1");
  if (!cursor.take("splits")) return out;
  WEFT_ASSIGN_OR_RETURN(out.splits, cursor.integer());
  if (out.splits < 1) return cursor.error("an axis is split in one part at least");
  return out;
}

/// Behind `block` or `chain`.
Result<Composition> parse_stages(TextCursor& cursor, Composition::Kind kind) {
  Composition out;
  out.kind = kind;
  WEFT_RETURN_IF_ERROR(cursor.expect("("));
  WEFT_ASSIGN_OR_RETURN(out.partition, parse_partition(cursor));
  if (kind == Composition::Kind::kChain) {
    WEFT_RETURN_IF_ERROR(cursor.expect("carrying"));
    WEFT_ASSIGN_OR_RETURN(out.carried, parse_carried_axis(cursor));
  }
  WEFT_RETURN_IF_ERROR(cursor.expect(")"));
  WEFT_RETURN_IF_ERROR(cursor.expect("{"));
  do {
    WEFT_ASSIGN_OR_RETURN(Composition stage, parse_leaf(cursor));
    std::vector<int>& exprs = out.stages.emplace_back();
    do {
      WEFT_ASSIGN_OR_RETURN(const int position, numbered(cursor, 'v'));
      if (!exprs.empty() && position <= exprs.back())
        return cursor.error("a stage's expressions stand in their order");
      exprs.push_back(position);
    } while (cursor.peek() == 'v');
    out.members.push_back(std::move(stage));
  } while (cursor.take(";"));
  WEFT_RETURN_IF_ERROR(cursor.expect("}"));
  return out;
}

std::string text_of(const CarriedAxis& axis) {
  return "v" + std::to_string(axis.member) + " r" + std::to_string(axis.reduction) + " " +
         std::to_string(axis.step) +
         (axis.splits > 1 ? " splits " + std::to_string(axis.splits) : "");
}

std::string opening(const Composition& composition) {
  switch (composition.kind) {
    case Composition::Kind::kBlock:
      return "block(" + print(composition.partition) + ") {";
    case Composition::Kind::kChain:
      return "chain(" + print(composition.partition) + " carrying " + text_of(composition.carried) +
             ") {";
    case Composition::Kind::kGrid:
      return "grid {";
    case Composition::Kind::kCluster:
      return "cluster " + std::to_string(composition.cluster_blocks) + " {";
    case Composition::Kind::kRecur: {
      const int64_t blocks = composition.cluster_blocks;
      return (blocks == 0 ? "recur" : "recur cluster " + std::to_string(blocks)) +
             std::string(composition.resident ? " resident {" : " {");
    }
    default:
      return "pack {";
  }
}

/// Behind `cluster`.
Result<int64_t> parse_cluster_blocks(TextCursor& cursor) {
  WEFT_ASSIGN_OR_RETURN(const int64_t blocks, cursor.integer());
  if (blocks < 1) return cursor.error("a cluster has at least one block");
  return blocks;
}

}  // namespace

std::string print(const BlockPartition& partition) {
  std::string out;
  for (const int root : partition.roots) out += (out.empty() ? "v" : ", v") + std::to_string(root);
  bool turns = false;
  for (const BlockPartition::Loop& loop : partition.loops) {
    const bool first = &loop == &partition.loops.front();
    if (first) out += loop.turns ? ": " : ":";
    out += loop.turns && !turns ? "; " : first ? " " : ", ";
    turns = loop.turns;
    out += text_of(loop);
  }
  return out;
}

std::string print(const Composition& composition) {
  if (composition.kind == Composition::Kind::kLeaf) {
    const std::string call =
        composition.library.empty() ? "" : "call " + print_name(composition.library) + " else ";
    return "leaf(" + call + print(composition.choice) + ")";
  }
  std::string out = opening(composition);
  for (size_t m = 0; m < composition.members.size(); ++m) {
    out += (m > 0 ? "; " : " ") + print(composition.members[m]);
    if (!composition.has_stages()) continue;
    for (const int position : composition.stages[m]) out += " v" + std::to_string(position);
  }
  return out + " }";
}

Result<BlockPartition> parse_partition(TextCursor& cursor) {
  BlockPartition out;
  do {
    WEFT_ASSIGN_OR_RETURN(const int root, numbered(cursor, 'v'));
    out.roots.push_back(root);
  } while (cursor.take(","));
  if (!cursor.take(":")) return out;
  bool turns = cursor.take(";");
  for (;;) {
    WEFT_ASSIGN_OR_RETURN(BlockPartition::Loop loop, parse_loop(cursor, out.roots.size(), turns));
    out.loops.push_back(std::move(loop));
    if (cursor.take(",")) continue;
    if (turns || !cursor.take(";")) return out;
    turns = true;
  }
}

Result<Composition> parse_composition(TextCursor& cursor) {
  if (cursor.take("block")) return parse_stages(cursor, Composition::Kind::kBlock);
  if (cursor.take("chain")) return parse_stages(cursor, Composition::Kind::kChain);
  Composition out;
  if (cursor.take("grid")) {
    out.kind = Composition::Kind::kGrid;
  } else if (cursor.take("cluster")) {
    out.kind = Composition::Kind::kCluster;
    WEFT_ASSIGN_OR_RETURN(out.cluster_blocks, parse_cluster_blocks(cursor));
  } else if (cursor.take("recur")) {
    out.kind = Composition::Kind::kRecur;
    if (cursor.take("cluster")) {
      WEFT_ASSIGN_OR_RETURN(out.cluster_blocks, parse_cluster_blocks(cursor));
    }
    out.resident = cursor.take("resident");
  } else if (cursor.take("pack")) {
    out.kind = Composition::Kind::kPack;
  } else if (cursor.peek_bare_name() == "leaf") {
    return parse_leaf(cursor);
  } else {
    return cursor.error(
        "expected leaf(…), block(…) { … }, chain(…) { … }, pack { … }, grid { … }, "
        "cluster 8 { … } or recur { … }");
  }
  WEFT_RETURN_IF_ERROR(cursor.expect("{"));
  do {
    const std::string_view kind = cursor.peek_bare_name();
    const bool is_loop = kind == "recur" && out.in_turns();
    if (kind != "leaf" && kind != "block" && kind != "chain" && !is_loop)
      return cursor.error(
          "the members of a pack, grid, cluster or recur are leaves, blocks and chains, of a grid "
          "or cluster recurs, too");
    WEFT_ASSIGN_OR_RETURN(Composition member, parse_composition(cursor));
    out.members.push_back(std::move(member));
  } while (cursor.take(";"));
  WEFT_RETURN_IF_ERROR(cursor.expect("}"));
  return out;
}

}  // namespace weft
