"""Which operators a checkout's library is built with: the script's own choice, a list, or all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.boards.schema import did_you_mean
from harness.errors import UsageError
from harness.library.checkout import Checkout

_OPERATOR = re.compile(r"[A-Za-z_]\w*::[\w.]+")
_LISTINGS = ("kernels/portable/functions.yaml", "backends/cortex_m/ops/operators.yaml")
_HOW = "write them as 'aten::add.out,aten::mul.out'"


def select_operators(root_ops: str | None, all_ops: bool) -> dict[str, str]:
    """The variables that tell the library script what to register; none for its default.

    ``root_ops`` is a list with commas.  Raises :class:`UsageError` on what is no operator's name.
    """
    if root_ops is not None and all_ops:
        raise UsageError(
            "--root-ops and --all-ops exclude each other", remedy="give one of the two"
        )
    if all_ops:
        return {"ALL_OPS": "1"}
    if root_ops is None:
        return {}
    names = [name.strip() for name in root_ops.split(",") if name.strip()]
    if not names:
        raise UsageError("--root-ops names no operator", remedy=_HOW)
    for name in names:
        if not _OPERATOR.fullmatch(name):
            raise UsageError(f"--root-ops: {name!r} is not an operator", remedy=_HOW)
    return {"ROOT_OPS": ",".join(names)}


def require_registered(
    selection: Mapping[str, str], registered: Sequence[str], checkout: Checkout
) -> None:
    """Raise :class:`UsageError` for an operator that was asked for and not registered.

    The script drops names it does not know without a word.
    """
    asked = [name for name in selection.get("ROOT_OPS", "").split(",") if name]
    missing = [name for name in asked if name not in registered]
    if missing:
        hint = did_you_mean(missing[0], _known(checkout) - {missing[0]})
        raise UsageError(
            f"--root-ops: the checkout has no kernel for {missing[0]!r}{hint}",
            remedy=f"see {' and '.join(_LISTINGS)} in {checkout.path}",
        )


def _known(checkout: Checkout) -> set[str]:
    names: set[str] = set()
    for listing in _LISTINGS:
        path = checkout.path / listing
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        for name in re.findall(r"^- (?:op|func): ([\w:.]+)", text, re.MULTILINE):
            names.add(name if "::" in name else f"aten::{name}")
    return names
