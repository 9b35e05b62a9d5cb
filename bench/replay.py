"""Prints what all models become, plans and tile programs, and how that differs between two builds.

    scripts/replay [CASE...] [--out DIR]               DIR/TARGET.txt (default: build/replay)
    scripts/replay --against COMMIT [CASE...]          and what differs from that commit
    scripts/replay --weft A --against-weft B [CASE...] the same for two commands that are built
    scripts/replay --against-texts DIR                 the same for texts written earlier

Cases are those of models/materialize.py, and the models with open dimensions once more at other
extents; of these, kernels for CPUs are printed, too, which are made of the tile programs at two
bindings. Texts hold neither times that were measured nor paths: equal builds print equal texts.

Differences stand by kernel, with the predicted times beside; one that is equal to an earlier one of
its target but for names is only counted. Exits 0 where nothing differs, 1 where something does, 2
where nothing could be compared.
COMMIT is built in a git worktree below build/replay, which stays there.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import replay_text
from peers import ROOT, Failed

sys.path.insert(0, str(ROOT / "models"))
import materialize  # noqa: E402

FOLDER = ROOT / "build/replay"
TARGETS = ["x86-64-v3", "x86-64-v4", "a100-40gb", "h100-sxm"]
VOICE = {"input": (3, 576), "state": (2, 3, 128)}
# Other extents for a case with open dimensions: shapes of its inputs.
OTHER_SHAPES = {
    "magika-b1": {"bytes": (5, 2048)},
    "ocr-cls-48x192": {"x": (2, 3, 48, 256)},
    "ocr-det-320x320": {"x": (2, 3, 256, 416)},
    "ocr-rec-48x320": {"x": (3, 3, 48, 264)},
    "silero-vad": VOICE,
    "silero-vad-16k-op15": VOICE,
    "silero-vad-half": VOICE,
}
OTHER = "@other"  # behind the name of a case: at those extents
KINDS = ["changed", "only here", "only there", "plan", "error"]  # of differences
SECONDS = 1200  # for one case and target


class Unusable(Exception):
    """What cannot be compared: it says why."""


def names():
    return [*materialize.names(), *(case + OTHER for case in OTHER_SHAPES)]


def place(case):
    """(model, inputs) of a case."""
    name = case.removesuffix(OTHER)
    model, inputs = materialize.case(name)
    if name == case:
        return model, inputs["random"]
    shapes = OTHER_SHAPES[name]
    with np.load(inputs["random"]) as arrays:
        arrays = {k: np.resize(v, shapes.get(k, v.shape)) for k, v in arrays.items()}
    path = FOLDER / f"{case}.npz"
    materialize.save(path, lambda f: np.savez(f, **arrays))
    return model, path


class Weft:
    """A command that is built."""

    def __init__(self, path, options):
        self.path = Path(path).resolve()
        if not self.path.exists():
            raise Unusable(f"{path} does not exist")
        self.options = options

    @functools.cached_property
    def dumps_several(self):
        """Whether one `weft dump` prints several stages, and the explanation among them."""
        return "explanation" in self.call("dump", "--help")

    def call(self, *words):
        command = [self.path, *map(str, words)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"over {SECONDS} s") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise Failed(f"exit {done.returncode}: {re.sub(r'/[^ :]+', '…', said)}")
        return done.stdout.decode(errors="replace")

    def stages(self, model, words, wanted):
        """{stage: text}; a compilation for each where the command knows no better."""
        if self.dumps_several:
            stages = [word for stage in wanted for word in ("--stage", stage)]
            return replay_text.sections(self.call("dump", model, *words, *stages))
        return {
            stage: self.call("explain", model, *words, "--json")
            if stage == "explanation"
            else self.call("dump", model, *words, "--stage", stage)
            for stage in wanted
        }

    def replay(self, case, target, model, inputs):
        """The text of a case."""
        words = ["--target", target, "--inputs", inputs, "--no-cache"]
        words += ["--plan", self.options.plan] if self.options.plan else []
        wanted = ["plan", "tile-program", "explanation"]
        is_open = case in materialize.CASES or case.endswith(OTHER)
        if self.options.kernels or (is_open and target.startswith("x86")):
            wanted.append("kernel")
        try:
            texts = self.stages(model, words, wanted)
        except Failed as failure:
            texts = {"error": f"{failure}\n"}
        else:
            texts["figures"] = figures(json.loads(texts.pop("explanation")))
        return "".join(f"{replay_text.SECTION}{k}\n{text}" for k, text in texts.items())


def figures(explanation):
    lines = []
    for kernel in explanation["kernels"]:
        entry = {k: v for k, v in kernel.items() if k not in ("ops", "kind", "template")}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    return "".join(lines)


def run(command, source, log):
    """A step of a build in the folder `source`."""
    # What two commits have in common is compiled once: paths do not count for ccache.
    cached = {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"} if source != ROOT else {}
    with open(log, "a") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=os.environ | cached
        )
    if done.returncode:
        raise Unusable(f"{' '.join(map(str, command))} failed, see {log}")


def build(source, log):
    print(f"building weft in {source}", file=sys.stderr)
    run(["cmake", "-S", source, "--preset", "release"], source, log)
    run(["cmake", "--build", source / "build/release", "--target", "weft"], source, log)
    return source / "build/release/weft"


def build_commit(commit):
    """The command of a commit."""
    command = ["git", "-C", ROOT, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unusable(f"{commit} is no commit")
    folder = FOLDER / done.stdout.strip()[:12]
    source, log = folder / "source", folder / "build.log"
    folder.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        run(["git", "worktree", "prune"], ROOT, log)
        run(["git", "worktree", "add", "--detach", source, commit], ROOT, log)
    return build(source, log)


def replay_all(ways, options):
    """{target: {case: [the text of each way]}}, as many at a time as there are cores."""
    places = {case: place(case) for case in options.cases}
    texts = {
        target: {case: [""] * len(ways) for case in options.cases} for target in options.targets
    }
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        waiting = {
            pool.submit(way, case, target, *places[case]): (target, case, i)
            for case in options.cases
            for target in options.targets
            for i, way in enumerate(ways)
        }
        for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            target, case, i = waiting[future]
            texts[target][case][i] = future.result()
            if sys.stderr.isatty():
                print(f"\r{done} of {len(waiting)}\033[K", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return texts


def write_texts(folder, texts):
    for target, cases in texts.items():
        path = folder / f"{target}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{replay_text.CASE}{case}\n{here}" for case, (here, *_) in cases.items())
        materialize.save(path, lambda part, text=text: part.write_text(text))
        print(f"wrote {path}", file=sys.stderr)
        for case, (here, *_) in cases.items():
            if error := replay_text.parse(here).error:
                print(f"{target}: {case}: {error}", end="", file=sys.stderr)


def read_texts(folder, options):
    """The way to a case's text in a folder that was written earlier."""
    texts = {}
    for target in options.targets:
        path = folder / f"{target}.txt"
        if not path.exists():
            raise Unusable(f"{path} does not exist")
        texts[target] = replay_text.split_cases(path.read_text())
    absent = f"{replay_text.SECTION}error\nnot in the text\n"
    return lambda case, target, *_: texts[target].get(case, absent)


def print_differences(target, cases, limit):
    """Prints what differs on a target; returns how much of what there is."""
    count = collections.Counter()
    seen = {}  # what differs, but for names -> the first case with it
    for case, texts in cases.items():
        here, there = map(replay_text.parse, texts)
        differences = replay_text.compare(here, there)
        count += collections.Counter(difference.kind for difference in differences)
        count["cases"] += 1
        count["kernels"] += len(here.kernels)
        count["failed"] += bool(here.error)
        count["us here"] += here.microseconds()
        count["us there"] += there.microseconds()
        if differences:
            print(f"\n{target}: {case}: {len(differences)} differences")
        again = collections.defaultdict(list)
        for difference in differences:
            key = (difference.kind, difference.alike)
            if key in seen:
                again[key].append(difference.title)
                continue
            seen[key] = f"{difference.title} in {case}"
            print_difference(difference, limit)
        for (kind, alike), titles in again.items():
            first = seen[kind, alike]
            print(f"\n  {kind}: {len(titles)} more like {first}:\n    {titles[0]}")
            if len(titles) > 1:
                print("    …")
    return count


def print_difference(difference, limit):
    print(f"\n  {difference.kind}: {difference.title}")
    for line in difference.lines[:limit]:
        print(f"    {line}")
    if len(difference.lines) > limit:
        print(f"    … {len(difference.lines) - limit} more lines")


def print_summary(counts):
    keys = ["cases", "failed", "kernels", "equal", *KINDS]
    print(f"\n| target | {' | '.join(keys)} | predicted us here | there |")
    print("|---" * (len(keys) + 3) + "|")
    for target, count in counts.items():
        count["equal"] = count["kernels"] - count["changed"] - count["only here"]
        figures = [str(count[key]) for key in keys]
        figures += [f"{count[key]:.1f}" for key in ("us here", "us there")]
        print(f"| {target} | " + " | ".join(figures) + " |")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("cases", nargs="*", metavar="CASE", help="default: all; CASE@other: at other extents")
    add("--out", metavar="DIR", type=Path, help="where texts go (build/replay)")
    add("--targets", default=",".join(TARGETS), help="list (%(default)s)")
    add("--weft", metavar="PATH", help="the command; default: build/release/weft, built first")
    add("--plan", help="weft's --plan")
    add("--kernels", action="store_true", help="print lowered kernels of all cases, too")
    add("--lines", type=int, default=60, help="of one difference that are printed (60)")
    against = parser.add_mutually_exclusive_group()
    against.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    against.add_argument("--against-weft", metavar="PATH", help="compare with this command")
    against.add_argument("--against-texts", metavar="DIR", type=Path, help="compare with these")
    options = parser.parse_args()
    options.targets = options.targets.split(",")
    options.cases = options.cases or names()
    for case in options.cases:
        if case not in names():
            parser.error(f"no case is called {case}; see models/materialize.py --list")
    return options


def other_way(options):
    """What the texts are compared with; None for nothing."""
    if options.against_texts:
        return read_texts(options.against_texts, options)
    path = options.against_weft
    if options.against:
        path = build_commit(options.against)
    return Weft(path, options).replay if path else None


def main():
    options = parse_options()
    try:
        return replay(options)
    except Unusable as reason:
        print(f"replay: {reason}", file=sys.stderr)
        return 2


def replay(options):
    FOLDER.mkdir(parents=True, exist_ok=True)
    other = other_way(options)
    here = Weft(options.weft or build(ROOT, FOLDER / "build.log"), options).replay
    texts = replay_all([here, other] if other else [here], options)
    if options.out or not other:
        write_texts(options.out or FOLDER, texts)
    if not other:
        return 0
    counts = {
        target: print_differences(target, cases, options.lines) for target, cases in texts.items()
    }
    print_summary(counts)
    return 1 if any(count[kind] for count in counts.values() for kind in KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
