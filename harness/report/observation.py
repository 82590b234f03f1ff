"""What a device printed, read into values; what is right is decided elsewhere.

The patterns are those of upstream's unmodified example sketches and of the runtime's log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_VECTOR = re.compile(r"\[1,2,3\] \+ 1 = \[([^\]\r\n]*)\]")
_METHODS = re.compile(r"^\s*Methods: (\d+)\s*$", re.M)
_SCORE = re.compile(r"^\s*\[(\w+)\]=(\S+)\s*$", re.M)
_DETECTED = re.compile(r"^>>> Detected: (\w+)\s*$", re.M)
_STAGE_FAILURE = re.compile(r"^(?P<stage>[\w: -]+) failed \(0x(?P<code>[0-9a-f]+)\)\s*$", re.M)
_SHORTFALL = re.compile(
    r"Memory allocation failed: (?P<requested>\d+)B requested \(adjusted for alignment\),"
    r" (?P<available>\d+)B available"
)


@dataclass(frozen=True)
class LoadFailure:
    """A failure line of ETModel; ``code`` is an error only where ``stage`` says so.

    ``requested_bytes`` and ``available_bytes`` are those of the first allocation that failed, not
    the whole shortfall.
    """

    stage: str
    code: int
    requested_bytes: int | None
    available_bytes: int | None


def added_vector(text: str) -> tuple[float, ...] | None:
    """AddModel's answer, or None where its line is not there or not numbers."""
    found = _VECTOR.search(text)
    if not found:
        return None
    try:
        return tuple(float(each) for each in found[1].split(","))
    except ValueError:
        return None


def method_count(text: str) -> int | None:
    """HelloExecuTorch's number of methods."""
    found = _METHODS.search(text)
    return int(found[1]) if found else None


def keyword_scores(text: str) -> dict[str, float]:
    """KeywordSpotting's logits by label; a line that is no number is left out."""
    scores: dict[str, float] = {}
    for label, value in _SCORE.findall(text):
        try:
            scores[label] = float(value)
        except ValueError:
            continue
    return scores


def detected_keyword(text: str) -> str | None:
    """The keyword that KeywordSpotting says it heard."""
    found = _DETECTED.search(text)
    return found[1] if found else None


def load_failure(text: str) -> LoadFailure | None:
    """The first failure line with the allocation that the runtime's log names."""
    found = _STAGE_FAILURE.search(text)
    if not found:
        return None
    short = _SHORTFALL.search(text)
    return LoadFailure(
        stage=found["stage"].strip(),
        code=int(found["code"], 16),
        requested_bytes=int(short["requested"]) if short else None,
        available_bytes=int(short["available"]) if short else None,
    )
