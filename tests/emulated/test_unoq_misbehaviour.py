"""A Uno Q that misbehaves in every way that was seen: the right verdict, its first line, its proof.

Each case is a whole run of its own, with the real arduino-cli, on a stand-in that a file makes
misbehave (docs/uno-q-standin.md); ``docs/verdicts.md`` has the same list for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.boards.board import find_board
from harness.report.case_folder import safe_name
from harness.report.verdict import EXIT_FAILED, EXIT_FAULT, EXIT_PASSED
from tests.child_run import HIL, ROOT, ChildBench, Outcome
from tests.emulated.direct import need
from tests.emulated.test_unoq_shared import INSTALLED
from tests.emulated.unoq_board import CASES

AT_ONCE = 6
"""Runs at the same time: each waits more than it works, for arduino-cli and for silence."""

FRONT_DOOR = "test_echo[echo]"
"""The suite's own case, through ``hil test`` instead of a pytest of our own."""

CODES = {"passed": EXIT_PASSED, "failed": EXIT_FAILED, "fault": EXIT_FAULT}
PORT = r"'\S+/boards/HILUNOQ0001/tty\d*'"


@dataclass(frozen=True)
class Case:
    """A misbehaviour and what must be made of it.

    ``sentence``, ``evidence``, ``retry`` and ``remark`` are patterns; a passed case has no
    ``sentence``, and a retry or a remark only where one is named.
    """

    behave: str
    test: str
    verdict: str
    sentence: str = ""
    stage: str = "session"
    evidence: str = ""
    retry: str = ""
    remark: str = ""


SAYS_NOTHING = rf"the board on {PORT} sent nothing since it was flashed or reset: '.*' was expected"
CORRUPT = rf"the stream of {PORT} is corrupt: "

MISBEHAVIOURS: Mapping[str, Case] = {
    # Uploading.
    "upload_fails": Case(
        "[upload_fails]", FRONT_DOOR, "fault",
        rf"uploading 'echo' to {PORT} failed with exit code 1: Error: flash write algorithm failed",
        "upload", r"uploading again: uploading 'echo' to .* failed with exit code 1",
        retry="flashing 'echo': uploading 'echo' to .* failed",
    ),
    "upload_fails_once": Case(
        "[upload_fails]\ntimes = 1", FRONT_DOOR, "passed",
        retry="flashing 'echo': uploading .* failed .*; reset through the board's debugger: done,"
        " but the board did not come back; uploading again: the board came back",
    ),
    "upload_lies": Case(
        "[upload_lies]", "test_old_firmware_is_not_believed", "fault",
        "the upload tool reported success, but the board does not run 'echo'",
        "upload", "nonce on the board: ", retry="flashing 'echo': the upload tool reported success",
    ),
    "upload_lies_once": Case(
        "[upload_lies]\ntimes = 1", FRONT_DOOR, "passed",
        retry="flashing 'echo': the upload tool reported success, but .*: the board came back",
    ),
    "upload_says_it_failed": Case(
        "[upload_verify_failed]\nexit_code = 1", FRONT_DOOR, "passed",
        remark="uploading 'echo' .* failed .*: Error: verify failed in bank at .*; but the board"
        " has the new firmware, to its end",
    ),
    "upload_complains": Case("[upload_verify_failed]", FRONT_DOOR, "passed"),
    "upload_cut_off": Case(
        # As often as the first case tries: the second one must not believe what it finds.
        "[upload_cut_off]\npercent = 97\ntimes = 2", "test_echo or test_again", "fault",
        rf"uploading 'echo' to {PORT} failed with exit code 1: Error: flash write algorithm failed",
        "upload", "reset through the board's debugger: done, but the board did not come back",
        retry="flashing 'echo': uploading",
    ),
    "header_rejected": Case(
        "[header_rejected]", "test_no_greeting", "fault", SAYS_NOTHING,
        evidence="firmware: the chip holds the expected build",
    ),
    "another_board": Case(
        '[another_board]\nserial_number = "HILUNOQ0009"', FRONT_DOOR, "fault",
        "adb does not see board 'HILUNOQ0001'; it sees 'HILUNOQ0009'", "upload",
        retry="flashing 'echo': adb does not see board",
    ),
    "stale_output": Case(
        '[stale_output]\nlines = ["a word"]', "test_silent_one_is_not_heard", "fault",
        SAYS_NOTHING, evidence=r"firmware: the chip holds the expected build",
    ),
    "torn_by_reset": Case("[torn_by_reset]", FRONT_DOOR, "passed"),
    # The route.
    "router_stalls": Case(
        "[router_stalls]\nafter_prints = 3", "test_no_answer", "failed",
        rf"the board on {PORT} did not print 'echo: one' within 2 s",
        evidence=r"called from|calls found on the stack: .*BridgeClass",
    ),
    "router_stalls_under_a_runner": Case(
        "[router_stalls]\nafter_prints = 30", "test_records", "fault",
        rf"the board on {PORT} did not answer 'hello' \(\d+ times sent, 5 s\)",
        evidence="router: arduino-router is active",
    ),
    "no_reader_for_5_s": Case(
        "[reader_lost]", "test_no_greeting", "fault", SAYS_NOTHING,
        evidence="firmware: the chip holds the expected build",
    ),
    "bytes_dropped": Case(
        "[bytes_dropped]\nevery_bytes = 300", "test_records", "fault", CORRUPT, evidence="damaged: "
    ),
    "bytes_doubled": Case(
        "[bytes_doubled]\nevery_bytes = 300", "test_records", "fault", CORRUPT, evidence="damaged: "
    ),
    "bytes_garbled": Case(
        "[bytes_garbled]\nevery_bytes = 300", "test_records", "fault", CORRUPT, evidence="damaged: "
    ),
    "calls_dropped": Case(
        '[bytes_dropped]\nevery_bytes = 300\nwhere = "uart"', "test_greeting", "fault",
        rf"no runner answers on {PORT} within 4 s|{CORRUPT}|{SAYS_NOTHING}",
    ),
    "calls_garbled": Case(
        '[bytes_garbled]\nevery_bytes = 300\nwhere = "uart"', "test_greeting", "fault",
        rf"no runner answers on {PORT} within 4 s|{CORRUPT}|{SAYS_NOTHING}",
    ),
    "text_garbled": Case(
        "[bytes_garbled]\nevery_bytes = 4", "test_no_greeting", "failed",
        rf"the board on {PORT} did not print 'echo ready' within 2 s",
    ),
    "prints_torn": Case("[prints_torn]\nevery_bytes = 7\npause_ms = 2", "test_records", "passed"),
    "prints_reordered": Case(
        "[prints_reordered]\nevery_prints = 3", "test_greeting", "fault",
        CORRUPT + r"\d+ records arrived damaged and none whole", evidence="damaged: ",
    ),
    "prints_repeated": Case(
        "[prints_repeated]\nevery_prints = 3", "test_greeting", "fault",
        CORRUPT + r"\d+ records arrived damaged and none whole", evidence="damaged: ",
    ),
    "line_of_10_MB": Case("[long_line]\ntimes = 1\nafter_prints = 1", FRONT_DOOR, "passed"),
    "line_of_10_MB_among_records": Case(
        "[long_line]\ntimes = 1\nafter_prints = 20", "test_records", "fault",
        CORRUPT + "a record arrived (oversize|interleaved|torn)",
    ),
    "hostile_bytes": Case("[injected]\ntimes = 1", FRONT_DOOR, "passed"),
    # Port, adb, Linux.
    "port_renumbered": Case(
        "[port_renumbered]", FRONT_DOOR, "passed",
        remark=rf"the port {PORT} vanished; the board came back at {PORT}",
    ),
    "port_renumbered_in_a_test": Case(
        "[port_renumbered]\nafter_ms = 20000", "test_listens or test_again", "fault",
        rf"port {PORT} vanished.*: 'a word that never comes' was expected",
    ),
    "port_gone_in_a_test": Case(
        "[port_gone]\nafter_ms = 20000", "test_listens", "fault",
        rf"port {PORT} vanished.*: 'a word that never comes' was expected",
    ),
    "port_gone": Case(
        "[port_gone]", FRONT_DOOR, "fault",
        rf"board 'HILUNOQ0001' vanished from {PORT} and within 30 s did not come back", "upload",
    ),
    "adb_unauthorized": Case(
        '[adb]\nstate = "unauthorized"', FRONT_DOOR, "fault",
        "board 'HILUNOQ0001' does not let this computer in: adb calls it 'unauthorized'", "upload",
    ),
    "adb_no_permissions": Case(
        '[adb]\nstate = "no permissions"', FRONT_DOOR, "fault",
        "this user may not open the USB device of board 'HILUNOQ0001'", "upload",
    ),
    "adb_absent": Case(
        '[adb]\nstate = "absent"', FRONT_DOOR, "fault",
        "adb sees no board: 'HILUNOQ0001' was asked for", "upload",
    ),
    "adb_twice": Case(
        '[adb]\nstate = "twice"', FRONT_DOOR, "fault",
        "adb sees more than one board with serial number 'HILUNOQ0001'", "upload",
    ),
    "adb_wedged": Case(
        '[adb]\nstate = "wedged"', FRONT_DOOR, "fault",
        r"adb did not come back within \d+ s from 'shell .*' and was ended", "upload",
    ),
    "linux_side_boots": Case(
        "[linux_side_boots]\nadb_ms = 5000\nrouter_ms = 7000", FRONT_DOOR, "passed",
        remark=r"the Linux side of board 'HILUNOQ0001' was still booting: waited \d+ s for it",
    ),
    "router_boots": Case(
        "[linux_side_boots]\nrouter_ms = 6000", FRONT_DOOR, "passed",
        remark=r"the Linux side of board 'HILUNOQ0001' was still booting: waited \d+ s for it",
    ),
}  # fmt: skip

SLOWEST = ("port_gone", "adb_wedged", "port_renumbered_in_a_test", "port_gone_in_a_test")

SKETCHES: Mapping[str, Case] = {
    "hard_fault": Case(
        "", "test_hard_fault", "failed",
        rf"the board on {PORT} crashed: precise data bus error, .* address 0xdead0000, in"
        r" read_sensor \(hard_fault\.ino:\d+\), called from average \(hard_fault\.ino:\d+\)",
        evidence=r"stacked: r0=0xdead0000 ",
    ),
    "fatal_masked": Case(
        "", "test_fatal_masked", "failed",
        rf"the board on {PORT} crashed: it has given up, et_pal_abort is where a fatal assertion of"
        r" the runtime ends .*, in et_pal_abort \(fatal_masked\.ino:\d+\)",
        evidence=r"calls found on the stack: check \(fatal_masked\.ino:\d+\), setup ",
    ),
    "watchdog": Case(
        "", "test_watchdog", "failed",
        rf"the board on {PORT} did not print 'a third line' within 2 s; it seems to reset in a"
        r" loop: its first line, 'watchdog: (started|works)', came \d+ times",
        evidence="watchdog: (started|works)",
    ),
    "waits_for_serial": Case("", "test_waits_for_serial_with_a_reader", "passed"),
    "waits_for_serial_alone": Case(
        "", "test_waits_for_serial_alone", "fault", SAYS_NOTHING,
        evidence=r"the core is in thread mode, in setup \(",
    ),
    "profile": Case(
        "", "test_profile", "fault",
        "sketch 'profiled' has default_profile 'mine' in its sketch.yaml, with which arduino-cli"
        " ignores --library", "build",
    ),
}  # fmt: skip


def run_in(folder: Path, case: Case, chosen: str) -> Outcome:
    """One run of the real thing on a stand-in of its own; nothing of it is left afterwards."""
    out = folder / "out"
    options: tuple[str, ...] = ()
    if case.behave:
        behave = folder / "behave.toml"
        behave.write_text(case.behave + "\n")
        options = (str(behave),)
    front = case.test == FRONT_DOOR
    if front:
        behaves = tuple(word for each in options for word in ("--behave", each))
        argv = (*HIL, "test", "unoq", "--virtual", "-k", "test_echo", "--out", str(out), *behaves)
    else:
        behaves = tuple(f"--hil-behave={each}" for each in options)
        argv = (*CASES, "-k", chosen, f"--hil-out={out}", *behaves)
    with TemporaryDirectory(prefix="hil") as run_dir:
        return ChildBench(Path(run_dir), out, {}).run(argv)


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Outcome]]]:
    """A run for each case that was selected, some at once; all sketches share one."""
    need(find_board("unoq"))
    selected = [
        name
        for item in request.session.items
        if item.path == Path(__file__)
        for name in [getattr(item, "callspec", None) and item.callspec.params.get("name")]  # type: ignore[attr-defined]  # pytest's Item of a function
        if name is not None
    ]
    wanted = {name: case for name, case in MISBEHAVIOURS.items() if name in selected}
    # The slowest first, or the last one would be waited for alone.
    first = sorted(wanted, key=lambda name: name not in SLOWEST)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {
            name: pool.submit(
                run_in, tmp_path_factory.mktemp(name), wanted[name], wanted[name].test
            )
            for name in first
        }
        if any(name in SKETCHES for name in selected):
            chosen = " or ".join(case.test for case in SKETCHES.values())
            folder = tmp_path_factory.mktemp("sketches")
            sketches = pool.submit(run_in, folder, SKETCHES["hard_fault"], chosen)
            futures |= dict.fromkeys(SKETCHES, sketches)
        yield futures


def require_as_expected(run: Outcome, case: Case) -> None:
    judged = run.case(case.test.partition(" or ")[0])
    diagnosis = judged["diagnosis"]
    assert judged["verdict"] == case.verdict, (diagnosis, run.shown)
    assert "Traceback" not in run.shown
    for name, pattern in (("retries", case.retry), ("remarks", case.remark)):
        lines: list[str] = judged[name]
        assert bool(lines) is bool(pattern), lines
        assert all(re.match(pattern, line) for line in lines), lines
        for line in lines:
            assert any(line in warning for warning in run.record["warnings"])
    if case.verdict == "passed":
        assert diagnosis is None
        return
    assert re.match(case.sentence, diagnosis["symptom"]), diagnosis["symptom"]
    assert diagnosis["stage"] == case.stage
    assert "\n" not in diagnosis["symptom"]
    assert diagnosis["remedy"]
    assert re.search(case.evidence, "\n".join(diagnosis["evidence"])), diagnosis["evidence"]
    assert f"{case.verdict} in {case.stage}: " in run.shown
    kept = run.out / "cases" / safe_name(judged["nodeid"]) / "diagnosis.json"
    assert json.loads(kept.read_text())["diagnosis"] == diagnosis
    assert str(kept.relative_to(run.out)) in run.record["files"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_board_that_misbehaves(runs: Mapping[str, Future[Outcome]], name: str) -> None:
    run, case = runs[name].result(), MISBEHAVIOURS[name]
    require_as_expected(run, case)
    assert run.code == CODES[case.verdict]
    assert run.record["stand_in"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_that_is_wrong(runs: Mapping[str, Future[Outcome]], name: str) -> None:
    run, case = runs[name].result(), SKETCHES[name]
    require_as_expected(run, case)
    assert run.code == EXIT_FAILED


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["upload_cut_off"])
def test_a_half_written_firmware_is_not_believed(
    runs: Mapping[str, Future[Outcome]], name: str
) -> None:
    run = runs[name].result()
    # It has the nonce of the build that the next case wants, and not its end.
    assert run.case("test_again_after_it")["verdict"] == "passed"
    assert "is on the board already" not in run.shown


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["port_renumbered_in_a_test"])
def test_the_case_after_a_renumbered_port_goes_on_at_the_new_one(
    runs: Mapping[str, Future[Outcome]], name: str
) -> None:
    after = runs[name].result().case("test_again_after_it")
    assert after["verdict"] == "passed"
    (remark,) = after["remarks"]
    assert re.match(rf"the port {PORT} vanished; the board came back at '\S+/tty2'", remark)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["hostile_bytes", "line_of_10_MB"])
def test_what_no_terminal_should_see_is_kept_and_not_shown(
    runs: Mapping[str, Future[Outcome]], name: str
) -> None:
    run = runs[name].result()
    if name == "line_of_10_MB":
        assert len(run.said) > 10_000_000
        assert len(run.shown) < 10_000
    else:
        assert all(each in run.said for each in (b"\0", b"\x1b", b"\xff"))
    log = run.out / "cases" / safe_name(run.case(FRONT_DOOR)["nodeid"]) / "serial.log"
    for text in (run.shown, log.read_text(encoding="utf-8")):
        assert "\x1b" not in text
        assert "\0" not in text
    assert log.stat().st_size < 1_000_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["upload_fails_once"])
def test_a_case_that_needed_a_retry_is_not_silently_green(
    runs: Mapping[str, Future[Outcome]], name: str
) -> None:
    run = runs[name].result()
    assert "1 passed after a retry" in run.shown
    assert "needed a retry: flashing 'echo'" in run.shown
    assert 'name="hil_retry"' in (run.out / "junit.xml").read_text()


def test_the_page_for_people_has_every_case_with_its_verdict() -> None:
    """Needs no board."""
    page = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in page.partition("## From a Uno Q\n")[2].partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    told = {name: row for row in rows for name in re.findall(r"`([^`]+)`", row[-1])}
    cases = {**MISBEHAVIOURS, **SKETCHES}
    assert len(cases) > 40
    assert set(told) == {*cases, *INSTALLED}
    for name, case in cases.items():
        assert case.verdict in told[name][1], name
    for name, (_, verdict, _, sentence, _) in INSTALLED.items():
        assert verdict in told[name][1], name
        assert re.match(sentence, told[name][2]), name
