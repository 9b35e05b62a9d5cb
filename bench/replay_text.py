"""The text of a replay, and how two of them differ, kernel by kernel.

A text is a list of cases; each has sections that start with a line of their own:

    ======== CASE
    ==== plan            what `weft dump --stage plan` prints
    ==== tile-program    the same of all kernels, with scopes
    ==== kernel          the same, where asked for
    ==== figures         per kernel, an object of `weft explain --json`: predicted time, bytes, …
    ==== error           instead of these, what weft said

Kernels of two texts are the same where their groups have the same tensors; the numbers that the
plan gives them do not matter.
"""

import collections
import dataclasses
import difflib
import json
import re

CASE, SECTION = "======== ", "==== "
NAME = r'(?:"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_./]*)'
LEAF = r"leaf\([^)]*\)"
ONE = rf"(?:{LEAF}|[a-z]+\([^)]*\) \{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}})"  # or of stages, each a leaf
KERNEL = re.compile(
    rf" *kernel (?P<name>{NAME}) (?P<kind>compute|memory) (?P<template>{NAME})"
    rf"(?: by (?P<composition>{ONE}|(?:pack|grid) \{{(?:;? {ONE})+ \}}))?"
    rf"(?: because (?P<because>{NAME}))?: (?P<group>.*)"
)
NUMBER = re.compile(r"^((?:[A-Za-z_]+\d+\.(?:\d+\.)?)*)k\d+_")
ALIKE = 0.5  # groups that share this part of their tensors are one kernel that changed


@dataclasses.dataclass
class Kernel:
    """One kernel; names as the plan prints them."""

    name: str
    kind: str
    template: str
    composition: str  # what was chosen; empty in texts of versions that do not say it
    because: str  # why it was packed
    members: list  # the tensors of each member; one member where nothing is packed
    outputs: list
    tile: str = ""
    lowered: str = ""
    figures: dict = dataclasses.field(default_factory=dict)

    def tensors(self):
        return {tensor for member in self.members for tensor in member}

    def region(self):
        found = NUMBER.match(plain(self.name))
        return found[1] if found else ""

    def microseconds(self):
        return self.figures.get("predicted_us", 0) * self.figures.get("times", 1)


@dataclasses.dataclass
class Replay:
    """What one case became."""

    plan: str = ""
    kernels: list = dataclasses.field(default_factory=list)
    error: str = ""

    def microseconds(self):
        return sum(kernel.microseconds() for kernel in self.kernels)


@dataclasses.dataclass
class Difference:
    kind: str  # "changed", "only here", "only there", "plan", "error"
    title: str
    lines: list
    alike: str  # equal for differences that are equal but for names


def plain(name):
    """A printed name without quotes and escapes."""
    if not name.startswith('"'):
        return name
    escape = re.compile(r"\\(x[0-9a-f]{2}|.)")
    decode = lambda found: chr(int(found[1][1:], 16)) if len(found[1]) > 1 else found[1]
    return escape.sub(decode, name[1:-1])


def unnumbered(name):
    return NUMBER.sub(r"\1k_", plain(name))


def identifier(name):
    """A name as kernels' texts write it, up to where these tell names apart."""
    return re.sub(rb"[^A-Za-z0-9_]", b"_", plain(name).encode()).decode()


def sections(text):
    """{name: text} of one case."""
    parts = re.split(rf"(?m)^{SECTION}(\S+)\n", text)
    return dict(zip(parts[1::2], parts[2::2]))


def split_cases(text):
    """{case: text of its sections}."""
    parts = re.split(rf"(?m)^{CASE}(.*)\n", text)
    return dict(zip(parts[1::2], parts[2::2]))


def by_kernel(text):
    """{identifier: [texts]} of a section in which every kernel begins with a line of its own."""
    texts = collections.defaultdict(list)
    for part in re.split(r"(?m)^(?=kernel )", text):
        found = re.match(rf"kernel ({NAME})", part)
        if found:
            texts[identifier(found[1])].append(part.rstrip("\n"))
    return texts


def plan_kernels(plan):
    for line in plan.splitlines():
        found = KERNEL.fullmatch(line)
        if not found:
            continue
        lists = [[]]
        for token in re.findall(rf"{NAME}|->|\|", found["group"]):
            if token in ("->", "|"):
                lists.append([])
            else:
                lists[-1].append(token)
        *members, outputs = lists if " -> " in found["group"] else [*lists, []]
        yield Kernel(
            *(found[key] or "" for key in ("name", "kind", "template", "composition", "because")),
            members,
            outputs,
        )


def parse(text):
    """The Replay in the sections of a case."""
    parts = sections(text)
    if "error" in parts:
        return Replay(error=parts["error"])
    figures = [json.loads(line) for line in parts["figures"].splitlines() if line]
    figures = {entry.pop("name"): entry for entry in figures}
    tiles, lowered = by_kernel(parts["tile-program"]), by_kernel(parts.get("kernel", ""))
    replay = Replay(parts["plan"], list(plan_kernels(parts["plan"])))
    for kernel in replay.kernels:
        name = identifier(kernel.name)
        kernel.tile = tiles[name].pop(0) if tiles[name] else ""
        kernel.lowered = lowered[name].pop(0) if lowered[name] else ""
        kernel.figures = figures.get(plain(kernel.name), {})
    return replay


def likeness(a, b):
    """The part of the tensors of two groups that both have; more where the results are the same."""
    both = len(a.tensors() & b.tensors()) / max(1, len(a.tensors() | b.tensors()))
    return both + (set(a.outputs) == set(b.outputs))


def pair(here, there):
    """[(kernel here, kernel there)], either None where the other text has no such kernel."""
    keys = [
        lambda k: (k.region(), str(k.members), str(k.outputs)),
        lambda k: (k.region(), frozenset(k.tensors())),
        lambda k: (k.region(), frozenset(k.outputs)),
    ]
    pairs = {}  # by place of the kernel here
    left, right = dict(enumerate(here)), dict(enumerate(there))
    for key in keys:
        known = {key(kernel): i for i, kernel in right.items()}
        for i, kernel in list(left.items()):
            if key(kernel) in known:
                pairs[i] = (left.pop(i), right.pop(known.pop(key(kernel))))
    readers = collections.defaultdict(set)  # tensor -> kernels there
    for j, kernel in right.items():
        for tensor in kernel.tensors():
            readers[tensor].add(j)
    for i, kernel in list(left.items()):
        near = {j for tensor in kernel.tensors() for j in readers[tensor]} & set(right)
        near = {j for j in near if right[j].region() == kernel.region()}
        best = max(near, key=lambda j: likeness(kernel, right[j]), default=None)
        if best is not None and likeness(kernel, right[best]) >= ALIKE:
            pairs[i] = (left.pop(i), right.pop(best))
    pairs |= {i: (kernel, None) for i, kernel in left.items()}
    return [pairs[i] for i in sorted(pairs)] + [(None, kernel) for kernel in right.values()]


def unnumbered_text(kernel, text):
    """A kernel's text under a name without its number."""
    first, *rest = text.split("\n")
    for form in (identifier, plain):
        first = first.replace(form(kernel.name), form(unnumbered(kernel.name)), 1)
    return [first, *rest]


def unified(there, here):
    if there == here:
        return []
    lines = list(difflib.unified_diff(there, here, n=2, lineterm=""))
    return lines[2:]  # without the names of two files


def without_names(kernels, lines):
    """The lines with tensors and local values by number: alike where only names differ."""
    names = set()
    for kernel in kernels:
        names |= {kernel.name, unnumbered(kernel.name), *kernel.tensors()}
        names |= set(map(identifier, names))
        names |= set(re.findall(r"(\w+): \w+\[", kernel.tile.split("\n", 1)[0]))
        names |= set(re.findall(r"(?m)^ *-- (\w+): ", kernel.tile))
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    numbers = {}
    number = lambda found: f"${numbers.setdefault(found[0], len(numbers))}"
    return re.sub(rf"(?<![\w/.])(?:{either})(?![\w/.])", number, "\n".join(lines))


def figure_lines(here, there):
    lines = []
    for key in [*there.figures, *(key for key in here.figures if key not in there.figures)]:
        old, new = there.figures.get(key), here.figures.get(key)
        if old != new:
            lines.append(f"{key}: {json.dumps(old)} there, {json.dumps(new)} here")
    return lines


def group_lines(here, there):
    if here.members == there.members and here.outputs == there.outputs:
        return []
    lines = []
    for word, old, new in [
        ("computes", there.tensors(), here.tensors()),
        ("stores", set(there.outputs), set(here.outputs)),
    ]:
        for where, tensors in (("there", old - new), ("here", new - old)):
            if tensors:
                lines.append(f"{word} only {where}: {', '.join(sorted(tensors))}")
    members = lambda kernel: " | ".join(", ".join(member) for member in kernel.members)
    return lines or [f"group: {members(there)} there, {members(here)} here"]


def kernel_difference(here, there):
    """The Difference of two kernels that were paired; None where they are equal."""
    lines = group_lines(here, there)
    for key in ("kind", "template", "because"):
        old, new = getattr(there, key), getattr(here, key)
        if old != new:
            lines.append(f"{key}: {old or 'none'} there, {new or 'none'} here")
    if here.composition and there.composition and here.composition != there.composition:
        lines.append(f"composition: {there.composition} there, {here.composition} here")
    lines += figure_lines(here, there)
    for key in ("tile", "lowered"):
        old, new = getattr(there, key), getattr(here, key)
        lines += unified(unnumbered_text(there, old), unnumbered_text(here, new))
    if not lines:
        return None
    title = f"{here.name} ({here.template}, {predicted(here)}; there {predicted(there)})"
    return Difference("changed", title, lines, without_names((here, there), lines))


def predicted(kernel):
    times = kernel.figures.get("times", 1)
    return f"{kernel.figures.get('predicted_us', 0):.4g} us" + (f" x {times}" if times > 1 else "")


def only(kernel, where):
    members = " | ".join(", ".join(member) for member in kernel.members)
    lines = [f"{members} -> {', '.join(kernel.outputs)}", *unnumbered_text(kernel, kernel.tile)]
    title = f"{kernel.name} ({kernel.template}, {predicted(kernel)})"
    return Difference(f"only {where}", title, lines, without_names([kernel], lines))


def frame(plan):
    """The plan's lines, of its kernels only in which order they make what: the rest is theirs."""
    lines = []
    for line in plan.splitlines():
        found = KERNEL.fullmatch(line)
        lines.append(f"kernel {unnumbered(found['name'])}" if found else line)
    return lines


def compare(here, there):
    """[Difference] of two Replays of a case."""
    if here.error != there.error:
        lines = unified(there.error.splitlines(), here.error.splitlines())
        return [Difference("error", "one of the two fails", lines, "\n".join(lines))]
    found = []
    for new, old in pair(here.kernels, there.kernels):
        if new is None or old is None:
            found.append(only(new or old, "here" if old is None else "there"))
        else:
            found.append(kernel_difference(new, old))
    found = [difference for difference in found if difference]
    lines = unified(frame(there.plan), frame(here.plan))
    if lines:
        found.append(Difference("plan", "order and edges", lines, "\n".join(lines)))
    return found
