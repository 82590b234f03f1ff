"""Reads one method of a program: values, instructions, and every index among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from harness.preflight.flatbuffer import CorruptProgram, Table
from harness.preflight.program_types import (
    SCALAR_TYPES,
    Allocation,
    BoolList,
    Delegate,
    DelegateCall,
    DoubleList,
    Dynamism,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    Method,
    MoveCall,
    Tensor,
    TensorList,
    Value,
)

T = TypeVar("T")

MAX_RANK = 16  # kTensorDimensionLimit of the runtime
MAX_TENSOR_BYTES = 2**40
OPERATOR_NAME_BYTES = 99  # the runtime composes names in 100 bytes


def read_method(plan: Table, *, delegate_data: tuple[int, int]) -> Method:
    """The method in ``plan``; ``delegate_data`` counts blobs inside the program and segments.

    Raises :class:`CorruptProgram`.
    """
    name = plan.text(0, "name")
    if name is None:
        raise CorruptProgram("a method has no name")
    buffers = _present(plan.numbers(8, "q", "non_const_buffer_sizes"), name, "buffer sizes")
    if not buffers or any(each < 0 for each in buffers):
        raise CorruptProgram(f"method {name!r} has buffers of {buffers} bytes")
    tables = _present(plan.tables(2, "values"), name, "values")
    values = tuple(_read_value(table, buffers) for table in tables)
    for number, value in enumerate(values):
        _check_list(value, number, values)
    operators = tuple(_read_operator(each) for each in plan.tables(6, "operators") or ())
    delegates = tuple(
        _read_delegate(each, delegate_data)
        for each in _present(plan.tables(7, "delegates"), name, "delegates")
    )
    chains = _present(plan.tables(5, "chains"), name, "chains")
    if not chains:
        raise CorruptProgram(f"method {name!r} has no instructions")
    limits = (len(values), len(operators), len(delegates))
    return Method(
        name=name,
        values=values,
        inputs=_indices(plan.numbers(3, "i", "inputs"), len(values), f"inputs of {name!r}"),
        outputs=_indices(plan.numbers(4, "i", "outputs"), len(values), f"outputs of {name!r}"),
        chains=tuple(_read_chain(each, number, limits) for number, each in enumerate(chains)),
        operators=operators,
        delegates=delegates,
        buffer_bytes=buffers,
    )


def _present(value: T | None, method: str, what: str) -> T:
    if value is None:
        raise CorruptProgram(f"method {method!r} has no {what}")
    return value


def _indices(found: Iterable[int] | None, limit: int, what: str) -> tuple[int, ...]:
    if found is None:
        raise CorruptProgram(f"the {what} are missing")
    indices = tuple(found)
    for index in indices:
        _index(index, limit, what)
    return indices


def _index(index: int, limit: int, what: str) -> int:
    if not 0 <= index < limit:
        raise CorruptProgram(f"the {what} refer to number {index} of {limit}")
    return index


def _read_value(table: Table, buffers: tuple[int, ...]) -> Value:
    kind = table.number(0, "B", "val_type")
    value = table.table(1, "val")
    if value is None:
        raise CorruptProgram(f"{table.what} is empty")
    match kind:
        case 1:
            return None
        case 2:
            return value.number(0, "q", "int_val")
        case 3:
            return bool(value.number(0, "B", "bool_val"))
        case 4:
            return value.double(0, "double_val")
        case 5:
            return _read_tensor(value, buffers)
        case 6:
            text = value.text(0, "string_val")
            if text is None:
                raise CorruptProgram(f"{table.what} is a string without text")
            return text
        case 7:
            return IntList(_items(value, value.numbers(0, "q", "items")))
        case 8:
            return DoubleList(_items(value, value.doubles(0, "items")))
        case 9:
            flags = _items(value, value.numbers(0, "B", "items"))
            return BoolList(tuple(bool(each) for each in flags))
        case 10:
            return TensorList(_items(value, value.numbers(0, "i", "items")), optional=False)
        case 11:
            return TensorList(_items(value, value.numbers(0, "i", "items")), optional=True)
    raise CorruptProgram(f"{table.what} is of unknown kind {kind}")


def _items(table: Table, items: tuple[T, ...] | None) -> tuple[T, ...]:
    if items is None:
        raise CorruptProgram(f"{table.what} is a list without items")
    return items


def _check_list(value: Value, number: int, values: tuple[Value, ...]) -> None:
    """The device follows a list's items without asking what they are."""
    if not isinstance(value, IntList | TensorList):
        return
    what = f"items of value {number}"
    for item in value.items:
        if isinstance(value, TensorList) and value.optional and item == -1:
            continue
        member = values[_index(item, len(values), what)]
        if isinstance(value, IntList):
            right = isinstance(member, int) and not isinstance(member, bool)
        else:
            right = isinstance(member, Tensor) or (value.optional and member is None)
        if not right:
            raise CorruptProgram(f"the {what} refer to number {item}, which is of another kind")


def _read_tensor(table: Table, buffers: tuple[int, ...]) -> Tensor:
    number = table.number(0, "b", "scalar_type")
    scalar = SCALAR_TYPES.get(number)
    if scalar is None:
        raise CorruptProgram(f"{table.what} has an unknown scalar type {number}")
    if table.number(1, "i", "storage_offset"):
        raise CorruptProgram(f"{table.what} has a storage offset, which no runtime supports")
    sizes = table.numbers(2, "i", "sizes")
    order = table.numbers(3, "B", "dim_order")
    if sizes is None or order is None:
        raise CorruptProgram(f"{table.what} has no sizes or no dimension order")
    if len(sizes) > MAX_RANK or any(size < 0 for size in sizes):
        raise CorruptProgram(f"{table.what} has sizes {sizes[: MAX_RANK + 1]}")
    if sorted(order) != list(range(len(sizes))):
        raise CorruptProgram(f"{table.what} of rank {len(sizes)} has dimension order {order[:32]}")
    dynamism = table.number(8, "b", "shape_dynamism")
    if dynamism not in (0, 1, 2):
        raise CorruptProgram(f"{table.what} has an unknown dynamism {dynamism}")
    tensor = Tensor(
        scalar=scalar,
        sizes=sizes,
        dim_order=order,
        dynamism=Dynamism(dynamism),
        constant=table.number(5, "I", "data_buffer_idx"),
        allocation=_read_allocation(table),
        external=_read_external(table),
    )
    if tensor.nbytes > MAX_TENSOR_BYTES:
        raise CorruptProgram(f"{table.what} is {tensor.nbytes} bytes large")
    _check_allocation(tensor, table.what, buffers)
    return tensor


def _read_allocation(table: Table) -> Allocation | None:
    found = table.table(6, "allocation_info")
    if found is None:
        return None
    low = found.number(1, "I", "memory_offset_low")
    high = found.number(2, "I", "memory_offset_high")
    return Allocation(found.number(0, "I", "memory_id"), low | high << 32)


def _read_external(table: Table) -> str | None:
    extra = table.table(9, "extra_tensor_info")
    if extra is None:
        return None
    location = extra.number(2, "b", "location")
    name = extra.text(1, "fully_qualified_name")
    if location not in (0, 1) or (location == 1 and not name):
        raise CorruptProgram(f"{table.what} is stored in an unknown place {location}")
    return name if location == 1 else None


def _check_allocation(tensor: Tensor, what: str, buffers: tuple[int, ...]) -> None:
    place = tensor.allocation
    if place is None:
        return
    if not 1 <= place.memory_id < len(buffers):
        raise CorruptProgram(f"{what} is planned in buffer {place.memory_id} of {len(buffers) - 1}")
    if place.offset_bytes + tensor.nbytes > buffers[place.memory_id]:
        raise CorruptProgram(
            f"{what} is planned to end at byte {place.offset_bytes + tensor.nbytes} "
            f"of a buffer of {buffers[place.memory_id]}"
        )


def _read_operator(table: Table) -> str:
    name = table.text(0, "name")
    overload = table.text(1, "overload")
    if not name:
        raise CorruptProgram(f"{table.what} has no name")
    whole = f"{name}.{overload}" if overload else name
    if len(whole.encode()) > OPERATOR_NAME_BYTES:
        raise CorruptProgram(f"{table.what} has a name longer than {OPERATOR_NAME_BYTES} bytes")
    return whole


def _read_delegate(table: Table, data: tuple[int, int]) -> Delegate:
    backend = table.text(0, "id")
    reference = table.table(1, "processed")
    if backend is None or reference is None:
        raise CorruptProgram(f"{table.what} has no backend or no data")
    location = reference.number(0, "b", "location")
    if location not in (0, 1):
        raise CorruptProgram(f"{table.what} keeps its data in an unknown place {location}")
    _index(reference.number(1, "I", "index"), data[location], f"data of {table.what}")
    specs = table.tables(2, "compile_specs") or ()
    return Delegate(backend, sum(each.byte_count(1, "value") for each in specs))


def _read_chain(table: Table, chain: int, limits: tuple[int, int, int]) -> tuple[Instruction, ...]:
    instructions = table.tables(2, "instructions")
    if instructions is None:
        raise CorruptProgram(f"{table.what} has no instructions")
    return tuple(
        _read_instruction(each, f"{chain}:{number}", len(instructions), limits)
        for number, each in enumerate(instructions)
    )


def _read_instruction(
    table: Table, place: str, count: int, limits: tuple[int, int, int]
) -> Instruction:
    values, operators, delegates = limits
    kind = table.number(0, "B", "instr_args_type")
    found = table.table(1, "instr_args")
    what = f"arguments of instruction {place}"
    if found is None:
        raise CorruptProgram(f"the {what} are missing")
    match kind:
        case 1:
            operator = _index(found.number(0, "i", "op_index"), operators, what)
            return KernelCall(operator, _indices(found.numbers(1, "i", "args"), values, what))
        case 2:
            delegate = _index(found.number(0, "i", "delegate_index"), delegates, what)
            return DelegateCall(delegate, _indices(found.numbers(1, "i", "args"), values, what))
        case 3:
            source = _index(found.number(0, "i", "move_from"), values, what)
            return MoveCall(source, _index(found.number(1, "i", "move_to"), values, what))
        case 4:
            condition = _index(found.number(0, "i", "cond_value_index"), values, what)
            # One past the last instruction ends the chain.
            jump = _index(found.number(1, "i", "destination_instruction"), count + 1, what)
            return JumpFalseCall(condition, jump)
        case 5:
            return FreeCall(_index(found.number(0, "i", "value_index"), values, what))
    raise CorruptProgram(f"instruction {place} is of unknown kind {kind}")
