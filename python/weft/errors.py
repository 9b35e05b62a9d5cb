"""What weft raises: a class for each exit code of the command."""


class Error(Exception):
    """What is wrong, where, and what to do about it: the command's message."""

    #: The exit code of the command for an error of this kind.
    code = 70


class InvalidInput(Error, ValueError):
    """A file, a tensor, an option or a model is wrong."""

    code = 2


class Unsupported(Error):
    """The model uses something that weft does not support."""

    code = 3


class MissingDevice(Error):
    """The processor, a device or a library is missing."""

    code = 4


class Internal(Error):
    """A defect of weft."""

    code = 70


class Interrupted(Error):
    """Cancelled."""

    code = 130


_KINDS = (InvalidInput, Unsupported, MissingDevice, Internal, Interrupted)


def exception_of(code: int) -> type[Error]:
    """The class for an exit code."""
    return next((kind for kind in _KINDS if kind.code == code), Internal)
