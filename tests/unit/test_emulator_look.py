"""What QEMU's monitor says of the registers."""

import pytest

from harness.emulator.look import parse_registers
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
