"""Compiled Python in the bench's cache, on machines that keep none beside the sources.

Containers often set ``PYTHONDONTWRITEBYTECODE``, so that nothing is written beside sources; every
start then compiles pytest, this bench and, in an export, torch anew, which takes longer than a
warm run of the suite.  A folder of the bench's own honours the wish and keeps the result.
"""

from __future__ import annotations

import os
import sys

from harness.paths import cache_dir

_NONE_BESIDE_SOURCES = "PYTHONDONTWRITEBYTECODE"
_FOLDER = "PYTHONPYCACHEPREFIX"


def keep_bytecode() -> None:
    """From now on, this process and its children keep bytecode in the cache, if nowhere else."""
    if not sys.dont_write_bytecode or sys.pycache_prefix is not None:
        return
    folder = str(cache_dir() / "bytecode")
    sys.pycache_prefix, sys.dont_write_bytecode = folder, False
    os.environ[_FOLDER] = folder
    os.environ.pop(_NONE_BESIDE_SOURCES, None)
