import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from weft import _weft
from weft.errors import InvalidInput


@dataclass(frozen=True)
class Options:
    """What torch.compile(backend="weft", options={…}) takes, with weft.compile's meanings."""

    plan: str = "auto"
    #: Empty: that of the tensors, cpu or cuda.
    target: str = ""
    #: 0: as many as torch uses.
    threads: int = 0
    cache_dir: str | None = None
    fast_math: bool = False
    precision: str = "model"
    #: Shapes that a graph is compiled for at once; those used last are kept.
    max_bindings: int = 128
    #: Weights are constants of the compiled code where nothing needs a gradient. Those that change
    #: are noticed by torch's version counters, and compiled again.
    freeze: bool = True
    #: Random numbers are those that torch draws in eager mode, call by call. Else weft draws others
    #: where they are read, by a seed from torch's generator: torch.manual_seed repeats them.
    fallback_random: bool = False

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> "Options":
        names = [field.name for field in fields(Options)]
        for name in given or {}:
            if name not in names:
                raise InvalidInput(
                    f"there is no option '{name}'; the options are: {', '.join(names)}"
                )
        return Options(**(given or {}))

    def settings(self) -> _weft.Settings:
        threads = self.threads or torch.get_num_threads()
        settings = _weft.Settings()
        settings.target = self.target or "cpu"
        settings.plan = os.fspath(self.plan)
        settings.threads = threads
        if threads > 1:
            settings.pool = _pool(threads)
        settings.cache_dir = "" if self.cache_dir is None else os.fspath(self.cache_dir)
        settings.fast_math = self.fast_math
        settings.precision = self.precision
        settings.kept = self.max_bindings
        return settings


@functools.cache
def _pool(threads: int) -> _weft.ThreadPool:
    """Shared by all parts of all graphs: a run that finds it busy goes on alone.

    torch's own threads, which otherwise would wait for torch's next operation where weft computes.
    """
    return _weft.ThreadPool(threads, openmp=True)
