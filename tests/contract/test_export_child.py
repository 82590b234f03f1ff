"""What becomes of an export worker that misbehaves, with small real children in its place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from harness import process
from harness.errors import BenchError, CapabilityMissing, HilError, ToolError, UsageError
from harness.model import export as model
from harness.model.child import Job, environment, run_exports
from harness.model.export import PORTABLE, export_model, export_models

START = "import json, os, sys; request = json.load(sys.stdin)\n"
DONE = "open(each['folder'] + '/artifact.json', 'w').write('{}')\n"


def worker(body: str) -> tuple[str, ...]:
    return (sys.executable, "-c", START + body)


def run(
    tmp_path: Path,
    body: str,
    *,
    jobs: int = 1,
    said: list[str] | None = None,
    timeout_s: float = 20,
) -> list[HilError | None]:
    folders = [tmp_path / str(number) for number in range(jobs)]
    for folder in folders:
        folder.mkdir()
    outcomes = run_exports(
        [Job("add", "m33", folder) for folder in folders],
        checkout=None,
        progress=(said if said is not None else []).append,
        worker=worker(body),
        timeout_s=timeout_s,
    )
    return [outcomes[folder] for folder in folders]


def told(kind: str) -> str:
    record = {"kind": kind, "message": "it broke", "remedy": "mend it", "evidence": ["line 1"]}
    return (
        f"for each in request['exports']: open(each['folder'] + '/error.json', 'w').write("
        f"{json.dumps(record)!r})"
    )


def test_progress_lines_are_picked_out_of_noise(tmp_path: Path) -> None:
    said: list[str] = []
    body = (
        "sys.stdout.write('noise\\n@export on'); sys.stdout.flush()\n"
        "sys.stdout.write('e\\nnot @export this\\n'); sys.stderr.write('warning\\n')\n"
        "print('@export two')\n"
        "for each in request['exports']: " + DONE
    )
    assert run(tmp_path, body, said=said) == [None]
    assert said == ["one", "two"]


def test_the_request_names_model_core_and_folder(tmp_path: Path) -> None:
    body = f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(request))"
    run(tmp_path, body)
    assert json.loads((tmp_path / "seen").read_text(encoding="utf-8")) == {
        "checkout": None,
        "exports": [{"model": "add", "cpu": "m33", "folder": str(tmp_path / "0")}],
    }


def test_what_was_exported_before_a_crash_is_kept(tmp_path: Path) -> None:
    body = "each = request['exports'][0]; " + DONE + "os.kill(os.getpid(), 11)"
    first, second = run(tmp_path, body, jobs=2)
    assert first is None
    assert isinstance(second, ToolError)
    assert "died of SIGSEGV" in str(second)


def test_a_killed_worker_most_likely_ran_out_of_memory(tmp_path: Path) -> None:
    (failure,) = run(tmp_path, "os.kill(os.getpid(), 9)")
    assert isinstance(failure, ToolError)
    assert "killed, as the system does when memory runs out" in str(failure)


def test_a_worker_that_prints_garbage_and_leaves_nothing(tmp_path: Path) -> None:
    (failure,) = run(
        tmp_path, "sys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\nlast line\\n')"
    )
    assert isinstance(failure, ToolError)
    assert "ended with exit code 0 and left no result" in str(failure)
    assert failure.evidence[-1] == "last line"


def test_a_worker_whose_account_is_garbage(tmp_path: Path) -> None:
    body = "open(request['exports'][0]['folder'] + '/error.json', 'wb').write(b'\\xff{')"
    (failure,) = run(tmp_path, body)
    assert isinstance(failure, ToolError)
    assert "account of it is unreadable" in str(failure)


def test_a_hanging_worker_is_ended(tmp_path: Path) -> None:
    body = (
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    )
    with pytest.raises(ToolError, match="did not finish within 1 s"):
        run(tmp_path, body, timeout_s=1)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (failure,) = run(
        tmp_path, "print('cannot write: No space left', file=sys.stderr); sys.exit(74)"
    )
    assert isinstance(failure, BenchError)
    assert "is full, so model 'add' was not exported" in str(failure)


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("usage", UsageError, "it broke"),
        ("capability", CapabilityMissing, "it broke"),
        ("export", ToolError, "exporting model 'add' for cortex-m33 failed: it broke"),
    ],
)
def test_a_told_failure_keeps_its_kind(
    tmp_path: Path, kind: str, error: type[HilError], message: str
) -> None:
    (failure,) = run(tmp_path, told(kind))
    assert type(failure) is error
    assert str(failure) == message
    assert failure.remedy == "mend it"
    assert failure.evidence == ("line 1",)


FAKE_EXPORT = """
import hashlib
def export(each):
    folder = each['folder']
    program = (each['model'] + str(each['cpu'])).encode()
    os.mkdir(folder + '/cases')
    open(folder + '/model.pte', 'wb').write(program)
    tensor = {'dtype': 'float32', 'sizes': [3], 'dim_order': [0]}
    record = dict(name=each['model'], cpu=each['cpu'], title='', inputs=[tensor],
        outputs=[tensor], output_lsb=0.0, tolerance=1e-5, labels=[], cases=[],
        arena_hint_bytes=1024, provenance={}, digest=hashlib.sha256(program).hexdigest())
    json.dump(record, open(folder + '/artifact.json', 'w'))
with open(%r, 'a') as log: log.write(' '.join(each['model'] for each in request['exports']) + '\\n')
"""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own and a fake worker; the file lists what each start exported."""
    log = tmp_path / "starts"
    log.touch()
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    use(monkeypatch, log, "for each in request['exports']: export(each)")
    return log


def use(monkeypatch: pytest.MonkeyPatch, log: Path, body: str) -> None:
    code = START + FAKE_EXPORT % str(log) + body
    monkeypatch.setattr("harness.model.child._WORKER", ("-c", code))


def silent(_line: str) -> None:
    pass


def test_one_child_exports_what_is_missing_and_nothing_else(starts: Path) -> None:
    export_model("ds_cnn", PORTABLE, checkout=None, progress=silent)
    wanted = [(name, PORTABLE) for name in ("add", "ds_cnn", "resnet8", "add")]
    artifacts = export_models(wanted, checkout=None, progress=silent)
    assert [each.name for each in artifacts] == ["add", "ds_cnn", "resnet8", "add"]
    assert starts.read_text(encoding="utf-8") == "ds_cnn\nadd resnet8\n"
    export_models(wanted, checkout=None, progress=silent)
    assert starts.read_text(encoding="utf-8") == "ds_cnn\nadd resnet8\n"


def test_a_model_without_an_int8_form_is_one_export_for_every_core(starts: Path) -> None:
    targets = [model.ExportTarget("cortex-m", cpu) for cpu in ("m3", "m33", "m55")]
    artifacts = export_models([("add", each) for each in targets], checkout=None, progress=silent)
    assert {each.target for each in artifacts} == {PORTABLE}
    assert starts.read_text(encoding="utf-8") == "add\n"


def test_one_failure_keeps_the_others(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(
        monkeypatch,
        starts,
        "for each in request['exports']:\n    if each['model'] != 'add': export(each)",
    )
    wanted = [("add", PORTABLE), ("ds_cnn", PORTABLE)]
    with pytest.raises(ToolError, match="exporting model 'add' failed"):
        export_models(wanted, checkout=None, progress=silent)
    export_model("ds_cnn", PORTABLE, checkout=None, progress=silent)
    assert starts.read_text(encoding="utf-8") == "add ds_cnn\n"


def test_a_damaged_entry_is_made_again(starts: Path) -> None:
    before = export_model("add", PORTABLE, checkout=None, progress=silent)
    before.pte.write_bytes(b"something of another size")
    after = export_model("add", PORTABLE, checkout=None, progress=silent)
    assert after.pte.read_bytes() == b"addNone"
    assert starts.read_text(encoding="utf-8") == "add\nadd\n"


def test_nothing_is_left_in_staging(starts: Path, tmp_path: Path) -> None:
    abandoned = tmp_path / "cache/staging/export-abandoned"
    abandoned.mkdir(parents=True)
    export_model("add", PORTABLE, checkout=None, progress=silent)
    assert starts.read_text(encoding="utf-8") == "add\n"
    assert not list((tmp_path / "cache/staging").iterdir())


def test_an_unwritable_cache_is_the_benchs_fault(
    starts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "file"))
    with pytest.raises(BenchError):
        export_model("add", PORTABLE, checkout=None, progress=silent)
    assert starts.read_text(encoding="utf-8") == ""


def test_the_model_stage_imports_neither_torch_nor_executorch() -> None:
    code = (
        "import sys, harness.model.export;"
        " print(sorted({'torch', 'executorch'} & set(sys.modules)))"
    )
    done = process.run([sys.executable, "-c", code], timeout_s=60, env=environment())
    assert done.stdout.strip() == "[]", done.tail()


def test_a_request_that_is_none_ends_the_worker() -> None:
    done = process.run(
        [sys.executable, "-m", "harness.model.worker"],
        timeout_s=60,
        env=environment(),
        stdin=b'{"exports": 1}',
    )
    assert done.returncode == 2
    assert "the request is not what this worker takes" in done.stderr
