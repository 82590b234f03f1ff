"""What an ExecuTorch Arduino library can run: read from its generated kernel registration.

The registration is C++ that ExecuTorch's ``codegen/gen.py`` writes, one ``Kernel(`` block for each
operator and kernel key.  Each block's check of ``stack.size()`` is the number of arguments that a
program must give, outputs and the returned value included.  Blocks are split first, so that one
without a check can never borrow the next one's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import UsageError

MAX_SOURCE_BYTES = 32 * 2**20

_BLOCK = re.compile(r"\bKernel\(\s*(?=\")")
_HEAD = re.compile(r'"([^"\n]+)"\s*,\s*(?:"([^"\n]*)"\s*,)?')
_COUNT = re.compile(r"stack\.size\(\)\s*==\s*(\d+)")
_SLOT = re.compile(r"EValue\s*&\s*(\w+)\s*=\s*\*\s*stack\[(\d+)\]")
_ANY_SLOT = re.compile(r"\bstack\[(\d+)\]")
_TENSOR = re.compile(r"\b(\w+)\.to<(?:\w+::)*Tensor>\(\)")
_MAX_KERNELS = re.compile(r"#define\s+EXECUTORCH_SELECTED_MAX_KERNEL_NUM\s+(\d+)")


@dataclass(frozen=True)
class RegisteredKernel:
    """One registered kernel.

    ``key`` is None for one that takes every dtype and dimension order.  ``arguments`` is None where
    the registration checks no count.  ``tensors`` are the places that must hold a tensor.
    """

    name: str
    key: str | None
    arguments: int | None
    tensors: frozenset[int]


@dataclass(frozen=True)
class Registration:
    """All kernels of one library.

    ``max_kernels`` is the size of its registry, None where the runtime's default holds.
    ``portable_sources`` are the stems of its portable kernels' files, registered or not.
    ``backends`` are folders of delegates among its sources.
    """

    kernels: tuple[RegisteredKernel, ...]
    max_kernels: int | None
    portable_sources: frozenset[str]
    backends: tuple[str, ...]

    @cached_property
    def by_name(self) -> dict[str, tuple[RegisteredKernel, ...]]:
        """Kernels of each operator, with its overload, e.g. ``aten::add.out``."""
        found: dict[str, tuple[RegisteredKernel, ...]] = {}
        for kernel in self.kernels:
            found[kernel.name] = (*found.get(kernel.name, ()), kernel)
        return found

    def has_source(self, operator: str) -> bool:
        """Whether the library ships a portable kernel that building it anew could register."""
        namespace, _, name = operator.partition("::")
        stem = name.partition(".")[0]
        if namespace not in ("aten", "dim_order_ops"):
            return False
        return bool({f"op_{stem}", f"op_{stem.strip('_')}"} & self.portable_sources)

    def root_ops(self, missing: Iterable[str]) -> str:
        """Value of ``ROOT_OPS`` that keeps what is registered and adds ``missing``."""
        kept = [name for name in self.by_name if not name.startswith("cortex_m::")]
        return ",".join([*kept, *(each for each in missing if each not in kept)])


def read_registration(library: Path) -> Registration:
    """The registration of the Arduino library at ``library`` (its root, or its ``src``).

    Raises :class:`UsageError` where there is none, or it is not what ``codegen`` writes.
    """
    source = library if (library / "executorch").is_dir() else library / "src"
    tree = source / "executorch"
    files = sorted((tree / "codegen").glob("Register*Kernels*.cpp"))
    if not files:
        raise UsageError(
            f"no kernel registration in {str(tree / 'codegen')!r}",
            remedy="give the folder of a built ExecuTorch Arduino library, as "
            "build_arduino_library.sh leaves it",
        )
    kernels = tuple(kernel for path in files for kernel in parse_registration(_read(path), path))
    if not kernels:
        raise UsageError(
            f"no kernel found in {str(files[0])!r}",
            remedy="build the library again; if that does not help, ExecuTorch's codegen writes "
            "another form now and the bench must learn it",
        )
    return Registration(
        kernels=kernels,
        max_kernels=_max_kernels(tree / "runtime" / "kernel" / "selected_max_kernel_num.h"),
        portable_sources=frozenset(
            path.stem for path in (tree / "kernels" / "portable" / "cpu").glob("op_*.cpp")
        ),
        backends=_backends(tree / "backends"),
    )


def parse_registration(text: str, path: Path) -> tuple[RegisteredKernel, ...]:
    """The kernels in one generated source; raises :class:`UsageError` where it contradicts itself.

    The highest ``stack[n]`` a block touches must be below the count it demands.
    """
    _, *blocks = _BLOCK.split(text)
    kernels = []
    for block in blocks:
        head = _HEAD.match(block)
        if head is None:
            continue
        name, key = head.group(1), head.group(2)
        counts = {int(count) for count in _COUNT.findall(block)}
        highest = max((int(slot) for slot in _ANY_SLOT.findall(block)), default=-1)
        if len(counts) > 1 or any(highest >= count for count in counts):
            raise UsageError(
                f"{path}: the registration of {name!r} demands {sorted(counts)} arguments "
                f"and uses number {highest}",
                remedy="build the library again; its generated sources contradict themselves",
            )
        slots = {variable: int(slot) for variable, slot in _SLOT.findall(block)}
        tensors = frozenset(slots[each] for each in _TENSOR.findall(block) if each in slots)
        kernels.append(RegisteredKernel(name, key or None, next(iter(counts), None), tensors))
    return tuple(kernels)


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise UsageError(
                f"the kernel registration {str(path)!r} is {size} bytes large",
                remedy="build the library again; no op set needs so much",
            )
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot read the kernel registration {str(path)!r}: {error.strerror}",
            remedy="check the file and its permissions, or build the library again",
        ) from error


def _max_kernels(path: Path) -> int | None:
    if not path.is_file():
        return None
    found = _MAX_KERNELS.search(_read(path))
    return int(found.group(1)) if found else None


def _backends(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    # cortex_m holds operators, not a delegate.
    found = (each.name for each in folder.iterdir() if each.is_dir())
    return tuple(sorted(name for name in found if name != "cortex_m"))
