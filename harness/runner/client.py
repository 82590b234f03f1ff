"""The bench's side of the runner sketch: one typed method for each thing it can be asked.

Names of calls and error codes in failures are the runtime's own, as the board sent them; decoding
them is the business of whoever judges.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Callable
from typing import Literal, TypeVar

from harness.errors import DeviceError, UsageError
from harness.model.seeded import seeded_bytes
from harness.runner.info import (
    CountUnit,
    LoadResult,
    RunnerFailure,
    RunnerInfo,
    RunResult,
    TensorInfo,
)
from harness.runner.link import RunnerLink
from harness.runner.protocol import CHUNK_BYTES, PROTOCOL_VERSION, MalformedRecord, Record
from harness.serial.session import Session

REPLY_TIMEOUT_S = 20.0
"""Bounds a command that only moves bytes."""

LOAD_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 120.0

__all__ = ["Runner", "RunnerInfo", "TensorInfo", "LoadResult", "RunResult", "RunnerFailure"]

_T = TypeVar("_T")


class Runner:
    """Client of one runner; ``session`` is started and stays the caller's to close."""

    def __init__(self, session: Session, nonce: str, *, damage_limit: int = 0) -> None:
        self.link = RunnerLink(session, nonce, damage_limit=damage_limit)
        self._info: RunnerInfo | None = None

    @property
    def info(self) -> RunnerInfo:
        """What :meth:`hello` returned; raises :class:`UsageError` before it."""
        if self._info is None:
            raise UsageError("the runner was not greeted", remedy="call hello() first")
        return self._info

    def hello(self, timeout_s: float = 15.0) -> RunnerInfo:
        """Greet the runner and have it report itself.

        Raises :class:`~harness.runner.link.StaleFirmware` for another build's,
        :class:`RunnerFailure` when the board can't read its program.
        """
        greeting = self.link.greet(timeout_s)
        version = self._field(greeting, Record.integer, "proto")
        if version != PROTOCOL_VERSION:
            raise DeviceError(
                f"the runner speaks protocol {version} and the bench {PROTOCOL_VERSION}",
                remedy="build and upload the runner of this bench",
            )
        model = self._ask("model")
        library = self._ask("library")
        program = self._ask("program")
        inputs = self._field(program, Record.integer, "inputs")
        outputs = self._field(program, Record.integer, "outputs")
        self._info = RunnerInfo(
            nonce=greeting.nonce,
            model_digest=self._field(model, Record.text, "digest"),
            model_bytes=self._field(model, Record.integer, "bytes"),
            model_crc32=self._field(model, Record.integer, "crc"),
            library_commit=self._field(library, Record.text, "commit"),
            count_unit=self._unit(greeting),
            pointer_bytes=self._field(greeting, Record.integer, "pointer"),
            block_bytes=self._field(greeting, Record.integer, "block"),
            arena_limit_bytes=self._field(program, Record.integer, "limit"),
            planned_bytes=self._field(program, Record.integer, "planned"),
            inputs=tuple(self._tensor("in", each) for each in range(inputs)),
            outputs=tuple(self._tensor("out", each) for each in range(outputs)),
        )
        return self._info

    def load(self, arena_bytes: int, timeout_s: float = LOAD_TIMEOUT_S) -> LoadResult:
        """Build the method anew in an arena of ``arena_bytes``; inputs are forgotten.

        Raises :class:`RunnerFailure` with the runtime's stage and code when it does not fit.
        """
        record = self._ask("load", arena_bytes, timeout_s=timeout_s)
        return LoadResult(arena_bytes, self._field(record, Record.integer, "used"))

    def set_input(self, index: int, data: bytes) -> None:
        """Give input ``index`` its bytes, little-endian, in memory order, checked by CRC-32."""
        expected = self._input(index).nbytes
        if len(data) != expected:
            raise UsageError(
                f"input {index} takes {expected} bytes and was given {len(data)}",
                remedy="give the tensor's bytes in the order they lie in memory",
            )
        for offset in range(0, len(data), CHUNK_BYTES):
            chunk = base64.b64encode(data[offset : offset + CHUNK_BYTES]).decode("ascii")
            self._ask("put", index, offset, chunk)
        self._seal(index, zlib.crc32(data))

    def seed_input(self, index: int, seed: int) -> None:
        """Have the board make input ``index`` from ``seed``, checked by CRC-32 of the same here.

        Raises :class:`UsageError` for a dtype that :mod:`harness.model.seeded` is not defined for.
        """
        tensor = self._input(index)
        expected = seeded_bytes(tensor.dtype, math.prod(tensor.sizes), seed)
        self._ask("fill", index, seed)
        self._seal(index, zlib.crc32(expected))

    def run(self, times: int = 1, timeout_s: float = RUN_TIMEOUT_S) -> RunResult:
        """Run the method ``times`` times, each on the inputs set anew.

        Raises :class:`RunnerFailure` from the first run that fails, and
        :class:`~harness.runner.link.RunnerCrashed` when the board does not come back.
        """
        record = self._ask("run", times, timeout_s=timeout_s)
        unit = self._unit(record)
        least, most, total = (
            None if unit == "none" else self._field(record, Record.integer, key)
            for key in ("least", "most", "total")
        )
        return RunResult(self._field(record, Record.integer, "runs"), unit, least, most, total)

    def output(self, index: int = 0) -> bytes:
        """The raw bytes of output ``index`` of the last run, checked by CRC-32."""
        head = self._ask("out", index)
        length = self._field(head, Record.integer, "bytes")
        data = bytearray()
        while len(data) < length:
            data += self._piece(index, len(data), min(CHUNK_BYTES, length - len(data)))
        if zlib.crc32(data) != self._field(head, Record.integer, "crc"):
            raise self.link.corrupt(f"the bytes of output {index} do not have the CRC-32 sent")
        return bytes(data)

    def high_water_bytes(self) -> int:
        """Bytes of the arena that the allocator has given out; it never takes back."""
        return self._field(self._ask("mem"), Record.integer, "used")

    def _piece(self, index: int, offset: int, length: int) -> bytes:
        record = self._ask("get", index, offset)
        try:
            piece = base64.b64decode(self._field(record, Record.text, "data"), validate=True)
        except binascii.Error as error:
            raise self.link.corrupt(f"a piece of output {index} is not base64") from error
        if self._field(record, Record.integer, "at") != offset or len(piece) != length:
            raise self.link.corrupt(f"a piece of output {index} is not the one asked for")
        return piece

    def _seal(self, index: int, expected_crc: int) -> None:
        crc = self._field(self._ask("seal", index), Record.integer, "crc")
        if crc != expected_crc:
            raise self.link.corrupt(
                f"input {index} has CRC-32 {crc:#010x} on the board and {expected_crc:#010x} here"
            )

    def _input(self, index: int) -> TensorInfo:
        inputs = self.info.inputs
        if not 0 <= index < len(inputs):
            raise UsageError(
                f"the model has no input {index}", remedy=f"it has {len(inputs)}, from 0 on"
            )
        return inputs[index]

    def _tensor(self, way: Literal["in", "out"], index: int) -> TensorInfo:
        record = self._ask("tensor", way, index)
        return TensorInfo(
            dtype=self._field(record, Record.text, "dtype"),
            sizes=self._field(record, Record.integers, "sizes"),
            dim_order=self._field(record, Record.integers, "order"),
            nbytes=self._field(record, Record.integer, "bytes"),
            memory_planned=self._field(record, Record.integer, "planned") == 1,
        )

    def _unit(self, record: Record) -> CountUnit:
        unit = self._field(record, Record.text, "unit")
        if unit == "instructions":
            return "instructions"
        return "us" if unit == "us" else "none"

    def _ask(self, verb: str, *arguments: int | str, timeout_s: float = REPLY_TIMEOUT_S) -> Record:
        record = self.link.request(verb, *arguments, timeout_s=timeout_s)
        if record.ok:
            return record
        call, code = record.fields.get("stage"), record.fields.get("code")
        detail, used = record.fields.get("msg"), record.fields.get("used")
        # The record's line is short; where the log has the same sentence, it has all of it.
        for line in self.link.log:
            if isinstance(detail, str) and detail and (at := line.find(detail)) >= 0:
                detail = line[at:]
                break
        said = f": {detail}" if isinstance(detail, str) and detail else ""
        number = code if isinstance(code, int) else 0
        asked = " ".join(str(each) for each in (verb, *arguments))[:60]
        raise RunnerFailure(
            f"{call!s} failed with {number:#04x} on {asked!r}{said}"
            if number
            else f"the runner refused {asked!r}: {call}{said}",
            remedy="see the runtime's own lines in the evidence",
            evidence=self.link.log,
            call=str(call),
            code=number,
            detail=detail if isinstance(detail, str) else "",
            used_bytes=used if isinstance(used, int) else None,
        )

    def _field(self, record: Record, read: Callable[[Record, str], _T], key: str) -> _T:
        try:
            return read(record, key)
        except MalformedRecord as error:
            raise self.link.corrupt(str(error)) from error
