"""What the wheel brings."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import weft

PACKAGE = Path(weft.__file__).parent


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_version_is_the_commands():
    assert weft.__version__ == importlib.metadata.version("weft")
    for command in ([sys.executable, "-m", "weft"], [Path(sys.executable).parent / "weft"]):
        assert run(*command, "--version").stdout == f"weft {weft.__version__}\n"


def test_the_command_runs_models_and_its_exit_code_comes_through(dense_model, path_of, tmp_path):
    path, artefact = path_of(dense_model), tmp_path / "m.weft"
    made = run(sys.executable, "-m", "weft", "compile", path, "--no-cache", "-o", artefact)
    assert made.returncode == 0, made.stderr
    assert weft.load(artefact)(np.ones((2, 4), np.float32)).shape == (2, 5)
    missing = run(sys.executable, "-m", "weft", "run", tmp_path / "none.onnx")
    assert missing.returncode == 2 and "none.onnx" in missing.stderr


def test_the_tag_names_the_c_library_that_the_files_need():
    """No symbol is of a newer glibc than the tag says, and one is of that version."""
    (tag,) = re.findall(
        r"^Tag: cp3\d+-(?:cp3\d+|abi3)-manylinux_2_(\d+)_x86_64$",
        importlib.metadata.distribution("weft").read_text("WHEEL"),
        re.M,
    )
    binaries = [*PACKAGE.glob("*.so*"), Path(sys.executable).parent / "weft"]
    assert len(binaries) == 3
    needed = set()
    for binary in binaries:
        needed |= set(re.findall(rb"GLIBC_2\.(\d+)", binary.read_bytes()))
    assert max(map(int, needed)) == int(tag)


def test_nothing_but_the_interface_is_exported():
    def exported(path):
        listed = run("nm", "--dynamic", "--defined-only", "--format=just-symbols", path)
        assert listed.returncode == 0, listed.stderr
        return listed.stdout.split()

    (library,) = PACKAGE.glob("libweft.so*")
    assert all("weft_v1" in symbol for symbol in exported(library))
    (module,) = PACKAGE.glob("_weft*.so")
    assert [symbol for symbol in exported(module) if not symbol.startswith("_Z")] == [
        "PyInit__weft"
    ]


def test_types_and_licences_come_along():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_weft.pyi").exists()
    files = [str(file) for file in importlib.metadata.files("weft")]
    for name in ("llvm-22-dev", "libfmt-dev", "zlib1g-dev", "LICENSE"):
        assert any("licenses" in file and name in file for file in files), name
    for name in weft.__all__:
        assert getattr(weft, name).__doc__, name


def test_the_import_is_quick():
    """At most 50 ms above numpy's own; the least of some, as the machine may be busy."""

    def import_us():
        out = run(sys.executable, "-X", "importtime", "-c", "import numpy, weft").stderr
        (line,) = re.findall(r"^import time: +\d+ \| +(\d+) \| weft$", out, re.M)
        return int(line)

    assert min(import_us() for _ in range(5)) < 50_000
