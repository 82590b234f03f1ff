from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.errors import CapabilityMissing
from harness.model.exporter_versions import PACKAGES, _version, exporter_versions
from harness.model.key import model_key
from harness.model.registry import find_model

ADD = find_model("add")
SPOTTER = find_model("keyword_spotting")
VERSIONS = {"torch": "2.14.1", "executorch": "1.5.1"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for relative in SPOTTER.checkout_files:
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(relative, encoding="utf-8")
    return root


def test_a_key_is_a_file_name_that_says_what_it_is() -> None:
    key = model_key(ADD, "portable", None, VERSIONS)
    assert key.startswith("add-portable-")
    assert "/" not in key


def test_equal_inputs_give_equal_keys_wherever_the_checkout_lies(
    checkout: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(checkout, tmp_path / "elsewhere")
    assert model_key(SPOTTER, "cortex-m33", checkout, VERSIONS) == model_key(
        SPOTTER, "cortex-m33", other, dict(reversed(VERSIONS.items()))
    )


def test_every_input_changes_the_key(checkout: Path) -> None:
    keys = {
        model_key(SPOTTER, "cortex-m33", checkout, VERSIONS),
        model_key(SPOTTER, "cortex-m55", checkout, VERSIONS),
        model_key(SPOTTER, "cortex-m33", checkout, VERSIONS | {"torch": "2.15.0"}),
        model_key(find_model("ds_cnn"), "cortex-m33", checkout, VERSIONS),
    }
    for relative in SPOTTER.checkout_files:
        path = checkout / relative
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        keys.add(model_key(SPOTTER, "cortex-m33", checkout, VERSIONS))
        path.write_bytes(before)
    assert len(keys) == 4 + len(SPOTTER.checkout_files)


def test_a_change_of_the_benchs_own_modules_changes_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = model_key(ADD, "portable", None, VERSIONS)
    package = Path(__file__).resolve().parents[2] / "harness"
    copy = shutil.copytree(
        package / "model", tmp_path / "model", ignore=shutil.ignore_patterns("__pycache__", "data")
    )
    monkeypatch.setattr("harness.model.key._PACKAGE", copy)
    assert model_key(ADD, "portable", None, VERSIONS) == before
    with (copy / "golden.py").open("a", encoding="utf-8") as stream:
        stream.write("# changed\n")
    assert model_key(ADD, "portable", None, VERSIONS) != before


def test_versions_are_of_everything_that_decides_an_export() -> None:
    versions = exporter_versions()
    assert set(versions) == {*PACKAGES, "executorch git", "python"}
    assert all(versions.values())


def test_a_package_that_is_not_installed_is_a_missing_capability() -> None:
    with pytest.raises(CapabilityMissing, match="'no-such-package' is not installed"):
        _version("no-such-package")
