"""`python -m weft`: the command."""

import os
import sys
from importlib.metadata import PackageNotFoundError, files


def command_path() -> str:
    """The command that this package was installed with."""
    try:
        for file in files("weft") or []:
            if file.name == "weft" and file.parent.name == "bin":
                return str(file.locate())
    except PackageNotFoundError:
        pass
    sys.exit("weft: the command is not installed with this package")


def main() -> None:
    path = command_path()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
