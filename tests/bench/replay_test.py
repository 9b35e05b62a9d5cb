"""How two texts of bench/replay.py differ: a text of a real model beside one that was doctored.

    replay_test.py WEFT
"""

import argparse
import dataclasses
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import replay  # noqa: E402
import replay_text  # noqa: E402

WEFT = sys.argv.pop()
MODEL = ROOT / "tests/models/bert.onnx"
CASE = "ocr-cls-48x192"  # of a package, without weights to be made


def text_of(target, dumps_several=True, plan="greedy", model=MODEL):
    weft = replay.Weft(WEFT, argparse.Namespace(plan=plan, kernels=False))
    weft.dumps_several = dumps_several
    return weft.replay(model.stem, target, model, model.with_suffix(".inputs.npz"))


def differences(here, there):
    return replay_text.compare(replay_text.parse(here), replay_text.parse(there))


class TextOfAModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = text_of("h100-sxm")
        cls.kernels = replay_text.parse(cls.text).kernels

    def test_holds_every_kernel_with_its_tile_program_and_figures(self):
        self.assertGreater(len(self.kernels), 5)
        for kernel in self.kernels:
            self.assertTrue(kernel.tile.startswith("kernel " + replay_text.identifier(kernel.name)))
            self.assertIn("-- ", kernel.tile)
            self.assertGreater(kernel.microseconds(), 0)
            self.assertTrue(kernel.outputs)

    def test_holds_kernels_of_stages(self):
        text = text_of("a100-40gb", plan="auto", model=MODEL.with_stem("conv-se"))
        kernels = replay_text.parse(text).kernels
        self.assertTrue(any("block(" in k.composition for k in kernels))
        self.assertEqual(len(kernels), len(re.findall(r"(?m)^kernel ", text)))

    def test_is_the_same_from_one_compilation_and_from_several(self):
        self.assertEqual(self.text, text_of("h100-sxm", dumps_several=False))

    def test_is_no_difference_to_itself(self):
        self.assertEqual(differences(self.text, self.text), [])

    def test_another_number_makes_no_other_kernel(self):
        doctored = re.sub(r"\bk(\d+)_", lambda found: f"k{int(found[1]) + 70}_", self.text)
        self.assertNotEqual(self.text, doctored)
        self.assertEqual(differences(self.text, doctored), [])

    def test_a_changed_tile_program_is_one_kernel_with_the_lines_that_differ(self):
        kernel = self.kernels[3]
        first = kernel.tile.split("\n")[0]
        doctored = self.text.replace(first, first.replace("warps", "warps 1"), 1)
        (found,) = differences(self.text, doctored)
        self.assertEqual(found.kind, "changed")
        self.assertIn(kernel.name, found.title)
        self.assertIn(f"+{replay_text.unnumbered_text(kernel, first)[0]}", found.lines)

    def test_another_prediction_is_a_difference(self):
        value = self.kernels[0].figures["predicted_us"]
        doctored = self.text.replace(f'"predicted_us": {value}', '"predicted_us": 7.5', 1)
        (found,) = differences(doctored, self.text)
        self.assertEqual(found.lines, [f"predicted_us: {value} there, 7.5 here"])

    def test_a_tensor_less_is_a_change_of_the_group(self):
        kernel = next(k for k in self.kernels if len(k.members[0]) > 2)
        gone = kernel.members[0][0]
        doctored = self.text.replace(f": {gone}, ", ": ", 1)
        (found,) = differences(doctored, self.text)
        self.assertEqual((found.kind, found.lines), ("changed", [f"computes only there: {gone}"]))

    def test_a_kernel_less_is_only_there(self):
        line = next(line for line in self.text.splitlines(True) if line.startswith("  kernel"))
        found = differences(self.text.replace(line, "", 1), self.text)
        self.assertEqual([d.kind for d in found], ["only there", "plan"])
        self.assertIn(self.kernels[0].name, found[0].title)

    def test_other_reasons_are_a_difference_of_the_plan(self):
        edge = next(line for line in self.text.splitlines() if line.startswith("  edge"))
        (found,) = differences(self.text.replace(edge, edge[:-1] + '!"', 1), self.text)
        self.assertEqual(found.kind, "plan")
        self.assertEqual([line[0] for line in found.lines if line[0] in "+-"], ["-", "+"])


class Layers(unittest.TestCase):
    def test_the_same_change_under_other_names_is_alike(self):
        tile = "kernel k{0}_y{0}(x{0}: f32[4], out y{0}: f32[4]) warps 1 {{\n  y{0} = x{0};"
        found = []
        for layer in (1, 2):
            kernel = replay_text.Kernel(
                f"k{layer}_y{layer}", "memory", "rows", "", "", [[f"y{layer}"]], [f"y{layer}"]
            )
            there = dataclasses.replace(kernel, tile=tile.format(layer))
            here = dataclasses.replace(kernel, tile=there.tile.replace("warps 1", "warps 2"))
            found += replay_text.compare(
                replay_text.Replay(kernels=[here]), replay_text.Replay(kernels=[there])
            )
        self.assertEqual(len(found), 2)
        self.assertNotEqual(found[0].lines, found[1].lines)
        self.assertEqual(found[0].alike, found[1].alike)


class Command(unittest.TestCase):
    def call(self, *words):
        command = [sys.executable, ROOT / "bench/replay.py", CASE, "--weft", WEFT, *words]
        command += ["--targets", "x86-64-v3,a100-40gb"]
        return subprocess.run(command, capture_output=True, text=True)

    def test_exits_1_where_texts_differ(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.call("--out", folder).returncode, 0)
            same = self.call("--against-texts", folder)
            self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
            file = Path(folder) / "a100-40gb.txt"
            text = file.read_text()
            block = re.search(r"-- block \d+ B", text).group()
            file.write_text(text.replace(block, "-- block 7 B", 1))
            other = self.call("--against-texts", folder)
            self.assertEqual(other.returncode, 1, other.stdout + other.stderr)
            self.assertIn(f"+{block}", other.stdout)
            self.assertRegex(other.stdout, r"a100-40gb \| 1 \| 0 \| \d+ \| \d+ \| 1 \| 0 \| 0 \|")


if __name__ == "__main__":
    unittest.main()
