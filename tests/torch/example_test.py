"""The example, from training to the C program."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_the_example_saves_what_the_c_program_runs(tmp_path):
    artefact = tmp_path / "bars.weft"
    command = [sys.executable, ROOT / "examples/torch_model/classify.py", artefact]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first, last = (float(loss) for loss in re.findall(r"loss ([\d.]+)", said)[::3])
    assert last < first / 2
    assert "0 calls by torch" in said and "predicted on cpu" in said and "4 of 4 are right" in said
    expected = re.search(r"first element (\S+)", said).group(1)
    program = ROOT / "build/release/examples/c_artefact"
    ran = subprocess.run([program, artefact], capture_output=True, text=True, check=True).stdout
    assert f"first element {expected}" in ran
