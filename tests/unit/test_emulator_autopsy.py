import pytest

from harness.emulator.autopsy import Autopsy, find_frame, parse_registers
from harness.errors import DeviceError

TEXT = """
CPU#0
R00=00000058 R01=00000000 R02=40200000 R03=dead0000
R04=100000f5 R05=00000000 R06=40200000 R07=00000030
R08=00000000 R09=00000000 R10=00000000 R11=00000000
R12=00000000 R13=3807ffd8 R14=fffffff9 R15=10000064
XPSR=61000003 -ZC- T S handler
FPSCR: 00000000
"""


def test_registers_are_read_by_name() -> None:
    registers = parse_registers(TEXT)
    assert registers["r3"] == 0xDEAD0000
    assert registers["r15"] == 0x10000064
    assert registers["xpsr"] == 0x61000003
    assert len(registers) == 17


def test_other_text_is_an_error_with_the_text() -> None:
    with pytest.raises(DeviceError) as caught:
        parse_registers("unknown command: 'info'")
    assert caught.value.evidence == ("unknown command: 'info'",)


def test_frame_is_found_below_what_the_handler_pushed() -> None:
    frame = (1, 2, 3, 4, 12, 0x100000E1, 0x1000005A, 0x61000000)
    found = find_frame((0x10000065, 0xFFFFFFF9, *frame, 0, 0))
    assert found is not None
    assert found["pc"] == 0x1000005A
    assert found["r12"] == 12
    assert find_frame((0,) * 12) is None


def test_fault_is_said_in_words() -> None:
    autopsy = Autopsy(
        registers=parse_registers(TEXT),
        cfsr=0x8200,
        hfsr=0x40000000,
        fault_address=0xDEAD0000,
        frame=None,
    )
    assert autopsy.faults == (
        "precise data bus error",
        "bus fault address valid",
        "forced hard fault",
    )
    assert autopsy.pc == 0x10000064
