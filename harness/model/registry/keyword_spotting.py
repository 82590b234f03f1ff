"""The keyword spotter of upstream's KeywordSpotting example, from the checkout's own checkpoint.

Calibrated on, and judged by, the ten recordings that the example ships as C headers.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.model.registry.spec import ModelSpec, Recording

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
LABELS = ("silence", "unknown", *KEYWORDS)
"""Class number to name, in the order of the example's own list."""

_FOLDER = "examples/arduino/examples/KeywordSpotting"
_CHECKPOINT = f"{_FOLDER}/model.pth"
_SIZES = (1, 1, 49, 10)
_ARRAY = re.compile(r"float\s+\w+\s*\[\s*\d*\s*\]\s*=\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def build(checkout: Path | None) -> Any:
    """The trained network.  Raises :class:`UsageError` when the checkpoint is not one of it."""
    import torch
    from executorch.examples.models.mlperf_tiny import DSCNNKWS

    assert checkout is not None, "the registry asks for a checkout first"
    path = checkout / _CHECKPOINT
    network = DSCNNKWS()
    try:
        # weights_only: a checkpoint is a pickle, and may come from anywhere.
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        raise UsageError(
            f"{str(path)!r} is not a checkpoint of this network: {str(error).splitlines()[0]}",
            remedy="restore the file from the repository",
        ) from error
    return network.eval()


def recordings(checkout: Path | None) -> tuple[Recording, ...]:
    """The ten recordings, in the order of the labels."""
    assert checkout is not None, "the registry asks for a checkout first"
    return tuple(
        Recording(
            name=f"recorded_{word}",
            label=word,
            values=read_mfcc(checkout / _FOLDER / f"mfcc_{word}.h"),
        )
        for word in KEYWORDS
    )


def read_mfcc(path: Path) -> tuple[float, ...]:
    """The numbers of one recorded input, 49 frames of 10, in the file's order.

    With one channel that is the memory order of both layouts.  Raises :class:`UsageError` when the
    file holds no array of 490 finite numbers.
    """
    try:
        text = _COMMENT.sub(" ", path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the recorded input {str(path)!r}: {error}",
            remedy="restore the file from the repository",
        ) from error
    found = _ARRAY.search(text)
    words = [] if found is None else found[1].replace("\n", " ").split(",")
    numbers = [word.strip().rstrip("fF") for word in words if word.strip()]
    wrong = next((word for word in numbers if not _NUMBER.fullmatch(word)), None)
    if wrong is not None:
        raise UsageError(
            f"{str(path)!r} holds {wrong!r} where a number was expected",
            remedy="restore the file from the repository",
        )
    values = tuple(float(word) for word in numbers)
    if len(values) != math.prod(_SIZES) or not all(map(math.isfinite, values)):
        raise UsageError(
            f"{str(path)!r} holds {len(values)} numbers, not {math.prod(_SIZES)} finite ones",
            remedy="restore the file from the repository",
        )
    return values


SPEC = ModelSpec(
    name="keyword_spotting",
    title="KeywordSpotting: DS-CNN trained on Google Speech Commands",
    input_sizes=_SIZES,
    build=build,
    labels=LABELS,
    checkout_files=(_CHECKPOINT, *(f"{_FOLDER}/mfcc_{word}.h" for word in KEYWORDS)),
    recordings=recordings,
    # One seed only: MFCCs reach 300 and the generator 1, so that all seeds look alike to this
    # network.  It shows that seeding works; the recordings show that the answers are right.
    case_seeds=(1,),
)
