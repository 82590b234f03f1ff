import pytest

from harness.emulator.reply import ChipState, answered, read_reply
from harness.errors import BenchError, DeviceError, DutFailure, HilError, ToolError

DIED = {
    "ok": True,
    "state": "died",
    "emulated": True,
    "firmware_sha256": "ab",
    "firmware_bytes": 4,
    "boots": 1,
    "uptime_s": 2,
    "since_boot_s": 1.5,
    "reader": False,
    "sent_bytes": 0,
    "sent_bytes_at_boot": 0,
    "received_bytes": 0,
    "dropped_bytes": 0,
    "queued_bytes": 0,
    "pid_of_owner": 10,
    "pid_of_chip": None,
    "ending": {"exit_code": None, "signal": "SIGSEGV", "stderr": ["last words"]},
}


def test_dead_chip_is_an_error_with_its_last_words() -> None:
    status = read_reply(DIED, "HILM330001")
    assert status.state is ChipState.DIED
    with pytest.raises(DeviceError, match="'HILM330001' died: QEMU was ended by SIGSEGV") as caught:
        status.check_alive("HILM330001")
    assert caught.value.evidence == ("last words",)


@pytest.mark.parametrize(
    ("emulated", "ending", "kind", "message"),
    [
        (True, (None, "SIGKILL", []), DeviceError, "died: QEMU was ended by SIGKILL"),
        (True, (None, "SIGABRT", ["qemu: fatal: Lockup: 3"]), DutFailure, "locked up"),
        (True, (1, None, ["no such machine"]), DeviceError, "QEMU exited with code 1"),
        (False, (None, "SIGSEGV", []), DutFailure, "the sketch on .* ended by SIGSEGV"),
        (False, (0, None, []), DutFailure, "it exited with code 0"),
        (False, (None, "SIGKILL", []), DeviceError, "its process was ended by SIGKILL"),
    ],
)
def test_a_sketch_that_crashes_is_not_the_bench_and_a_killed_emulator_is(
    emulated: bool,
    ending: tuple[int | None, str | None, list[str]],
    kind: type[HilError],
    message: str,
) -> None:
    raw = dict(zip(("exit_code", "signal", "stderr"), ending, strict=True))
    status = read_reply({**DIED, "emulated": emulated, "ending": raw}, "X")
    with pytest.raises(kind, match=message):
        status.check_alive("X")


def test_living_chip_is_no_error() -> None:
    read_reply({**DIED, "state": "running", "ending": None}, "X").check_alive("X")


@pytest.mark.parametrize(
    ("key", "value"),
    [("state", "asleep"), ("boots", "1"), ("boots", True), ("uptime_s", None), ("ending", 3)],
)
def test_wrong_field_is_named(key: str, value: object) -> None:
    with pytest.raises(DeviceError, match="wrong field"):
        read_reply({**DIED, key: value}, "X")


def test_missing_field_is_named() -> None:
    with pytest.raises(DeviceError, match="wrong field: 'boots'"):
        read_reply({key: value for key, value in DIED.items() if key != "boots"}, "X")


@pytest.mark.parametrize(("kind", "error"), [("BenchError", BenchError), ("?", ToolError)])
def test_refusal_becomes_the_error_it_names(kind: str, error: type[Exception]) -> None:
    reply = {"ok": False, "error": "the disk is full", "remedy": "free space", "kind": kind}
    with pytest.raises(error, match="board 'X': the disk is full"):
        answered(reply, "X")
