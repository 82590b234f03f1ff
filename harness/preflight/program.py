"""Reads a ``.pte`` program without torch, ExecuTorch or generated code, and believes none of it.

The runtime's own readers, the Python one included, can be killed by a corrupt file, and the device
loads some of them and computes garbage.  So everything the device would follow is checked here:
structure, every index, the place of every constant and planned tensor, the extended header.

The layout is that of ExecuTorch's ``schema/program.fbs``; slots are its fields in order, a union
taking two (its type, then its value).
"""

from __future__ import annotations

import struct

from harness.errors import DutFailure
from harness.preflight.flatbuffer import CorruptProgram, FlatBuffer, Table
from harness.preflight.program_method import read_method
from harness.preflight.program_types import ExtendedHeader, Program, Segment, Tensor

IDENTIFIER = b"ET12"
BUNDLE_IDENTIFIER = b"BP08"
HEADER_MAGIC = b"eh00"
HEADER_AT = 8
LEAST_BYTES = 64  # what the device insists on reading before anything else

__all__ = ["CorruptProgram", "NotAProgram", "read_program"]


class NotAProgram(DutFailure):
    """The file is not an ExecuTorch program of a version that the runtime takes.

    Cause: another kind of file, or another schema version.  Remedy: in the message.
    """


def read_program(data: bytes) -> Program:
    """The program in ``data``; bytes after its end are ignored, as the device ignores them.

    Raises :class:`NotAProgram` where the identifier is not ``ET12``, and :class:`CorruptProgram`
    where anything in it cannot be.
    """
    _check_identifier(data)
    if len(data) < LEAST_BYTES:
        raise CorruptProgram(f"the program is {len(data)} bytes long, less than {LEAST_BYTES}")
    header = _read_header(data)
    end = header.program_bytes if header else len(data)
    root = FlatBuffer(data[:end]).root()
    segments = _read_segments(root, header, len(data))
    constant_segment, constants, deprecated = _read_constants(root, header, segments)
    mutable = _read_mutable(root, segments)
    plans = root.tables(1, "execution_plan")
    if not plans:
        raise CorruptProgram("the program has no method")
    inline = len(root.tables(3, "backend_delegate_data") or ())
    program = Program(
        schema_version=root.number(0, "I", "version"),
        header=header,
        methods=tuple(read_method(plan, delegate_data=(inline, len(segments))) for plan in plans),
        segments=segments,
        named_data=_read_named_data(root, segments),
        constant_segment=constant_segment,
        constants=constants,
        deprecated_constants=len(deprecated),
        used_bytes=max([end, *(each.offset_bytes + each.size_bytes for each in segments)]),
        data=data,
    )
    for method in program.methods:
        for number, value in enumerate(method.values):
            if isinstance(value, Tensor):
                where = f"value {number} of method {method.name!r}"
                _check_constant(value, where, program, deprecated, mutable)
    return program


def _check_identifier(data: bytes) -> None:
    found = data[4:8]
    if found == IDENTIFIER:
        return
    remedy = "give a .pte file as the exporter wrote it, or the model.h made from one"
    if found == BUNDLE_IDENTIFIER:
        message = "this is a bundled program (identifier 'BP08'), which a device cannot load"
        remedy = "give the .pte that the bundle was made from"
    elif found[:2] == b"ET":
        message = f"the program's identifier is {found!r}, and the runtime takes {IDENTIFIER!r}"
        remedy = "export the model with the ExecuTorch that the library was built from"
    else:
        message = f"bytes 4 to 8 are {found!r}, not the identifier {IDENTIFIER!r} of a program"
    raise NotAProgram(message, remedy=remedy, evidence=(f"first bytes: {data[:16].hex(' ')}",))


def _read_header(data: bytes) -> ExtendedHeader | None:
    if data[HEADER_AT : HEADER_AT + 4] != HEADER_MAGIC:
        return None
    length, program, base, segments = struct.unpack_from("<IQQQ", data, HEADER_AT + 4)
    if length < 24:
        raise CorruptProgram(f"the extended header says that it is {length} bytes long")
    header = ExtendedHeader(length, program, base, segments if length >= 32 else 0)
    if not LEAST_BYTES <= program <= len(data):
        raise CorruptProgram(
            f"the extended header says that the program is {program} bytes long, "
            f"and the file is {len(data)}: it was cut short or damaged"
        )
    if base + header.segment_data_bytes > len(data):
        raise CorruptProgram(
            f"the extended header says that the file is {base + header.segment_data_bytes} bytes "
            f"long, and it is {len(data)}: it was cut short or damaged"
        )
    if base and not _follows(program, base):
        # Wrong by a little, it would shift every weight, and the device would compute garbage.
        raise CorruptProgram(
            f"the extended header puts the segments at byte {base}, which does not follow "
            f"from a program of {program} bytes"
        )
    return header


def _follows(program: int, base: int) -> bool:
    """Whether ``base`` is ``program`` rounded up to a power of two, as exporters make it."""
    alignment = base & -base
    return program <= base < program + alignment


def _read_segments(
    root: Table, header: ExtendedHeader | None, file_bytes: int
) -> tuple[Segment, ...]:
    found = []
    base = header.segment_base_bytes if header else 0
    for number, table in enumerate(root.tables(4, "segments") or ()):
        offset = table.number(0, "Q", "offset")
        size = table.number(1, "Q", "size")
        if size and not base:
            # A program without data has one empty segment and no header.
            raise CorruptProgram(
                "the program has segments and no extended header that says where they are; "
                "the device would load it and compute on the wrong bytes"
            )
        if base + offset + size > file_bytes:
            raise CorruptProgram(
                f"segment {number} ends at byte {base + offset + size} of a file of {file_bytes}"
            )
        found.append(Segment(base + offset, size))
    if header and header.segment_data_bytes and found:
        last = max(each.offset_bytes + each.size_bytes for each in found)
        if last > base + header.segment_data_bytes:
            raise CorruptProgram("a segment ends after the extended header's end of segments")
    return tuple(found)


def _read_constants(
    root: Table, header: ExtendedHeader | None, segments: tuple[Segment, ...]
) -> tuple[Segment | None, tuple[int, ...], tuple[int, ...]]:
    """Segment and places of the constants, and the sizes of deprecated ones inside the program."""
    inline = root.tables(2, "constant_buffer") or ()
    deprecated = tuple(each.byte_count(0, "storage") for each in inline)
    table = root.table(5, "constant_segment")
    offsets = () if table is None else table.numbers(1, "Q", "offsets") or ()
    if table is None or len(offsets) < 2:
        return None, (), deprecated
    if deprecated:
        raise CorruptProgram("the program keeps constants both inside itself and in a segment")
    index = table.number(0, "I", "segment_index")
    if header is None or index >= len(segments):
        raise CorruptProgram(
            f"constants are in segment {index}, and the program has {len(segments)}"
        )
    segment = segments[index]
    for number, offset in enumerate(offsets):
        if offset > segment.size_bytes:
            raise CorruptProgram(
                f"constant {number} is at byte {offset} of a segment of {segment.size_bytes}"
            )
    return segment, tuple(segment.offset_bytes + each for each in offsets), ()


def _read_mutable(root: Table, segments: tuple[Segment, ...]) -> tuple[int, ...]:
    """Room in bytes, by number, for the initial states of mutable tensors.

    Only the first entry counts: the runtime looks at no other.
    """
    found: tuple[int, ...] = ()
    for number, table in enumerate(root.tables(6, "mutable_data_segments") or ()):
        index = table.number(0, "I", "segment_index")
        offsets = table.numbers(1, "Q", "offsets") or ()
        if index >= len(segments):
            raise CorruptProgram(f"initial states are in segment {index} of {len(segments)}")
        room = tuple(segments[index].size_bytes - each for each in offsets)
        if any(each < 0 for each in room):
            raise CorruptProgram(f"an initial state lies past the end of segment {index}")
        if number == 0:
            found = room
    return found


def _read_named_data(root: Table, segments: tuple[Segment, ...]) -> tuple[str, ...]:
    found = []
    for table in root.tables(7, "named_data") or ():
        key = table.text(0, "key")
        index = table.number(1, "I", "segment_index")
        if key is None or index >= len(segments):
            raise CorruptProgram(f"named data {key!r} is in segment {index} of {len(segments)}")
        found.append(key)
    return tuple(found)


def _check_constant(
    tensor: Tensor,
    where: str,
    program: Program,
    deprecated: tuple[int, ...],
    mutable: tuple[int, ...],
) -> None:
    """The device reads a tensor's data from here; it must be all there."""
    if tensor.constant == 0 or tensor.external is not None:
        return
    if tensor.allocation is not None:
        if tensor.constant >= len(mutable) or tensor.nbytes > mutable[tensor.constant]:
            raise CorruptProgram(f"the initial state of {where} is not in the program")
        return
    if program.constant_segment is None:
        if tensor.constant >= len(deprecated) or tensor.nbytes > deprecated[tensor.constant]:
            raise CorruptProgram(f"the data of {where} is not in the program")
        return
    if tensor.constant >= len(program.constants):
        raise CorruptProgram(f"{where} is constant {tensor.constant} of {len(program.constants)}")
    end = program.constant_segment.offset_bytes + program.constant_segment.size_bytes
    if program.constants[tensor.constant] + tensor.nbytes > end:
        raise CorruptProgram(f"the data of {where} runs past the end of the constants")
