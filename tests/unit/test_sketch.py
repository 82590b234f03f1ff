from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.sketch import (
    nonce_source,
    read_sketch,
    refuse_profile,
    require_model,
    stage,
)
from harness.errors import DutFailure, UsageError


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_a_folder_without_its_ino_is_no_sketch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a sketch: it has no A\.ino"):
        read_sketch(write(tmp_path / "A", B_ino=""))


def test_digest_follows_content_and_names(tmp_path: Path) -> None:
    one = read_sketch(write(tmp_path / "1" / "A", A_ino="x", b_h="y"))
    same = read_sketch(write(tmp_path / "2" / "A", A_ino="x", b_h="y"))
    other = read_sketch(write(tmp_path / "3" / "A", A_ino="x", c_h="y"))
    assert one.digest == same.digest != other.digest


def test_staging_touches_only_what_differs(tmp_path: Path) -> None:
    source = write(tmp_path / "src" / "A", A_ino="x", b_h="y", c_h="z")
    staged = stage(read_sketch(source), tmp_path / "staged")
    before = (staged / "b.h").stat().st_ino
    (source / "A.ino").write_text("changed", encoding="utf-8")
    (source / "c.h").unlink()
    stage(read_sketch(source), tmp_path / "staged")
    assert (staged / "A.ino").read_text(encoding="utf-8") == "changed"
    assert (staged / "b.h").stat().st_ino == before
    assert not (staged / "c.h").exists()


def test_missing_model_is_said_before_compiling(tmp_path: Path) -> None:
    sketch = read_sketch(write(tmp_path / "A", A_ino='#include "model.h"\n'))
    with pytest.raises(DutFailure, match=r"includes model\.h, but .* has none"):
        require_model(sketch)
    require_model(sketch.with_files({"model.h": b""}))


def test_a_variant_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    sketch = read_sketch(write(tmp_path / "A", A_ino="pool[40]; pool[41];"))
    assert b"pool[28]" in sketch.replacing("pool[40]", "pool[28]").files["A.ino"]
    with pytest.raises(UsageError, match="occurs 0 times"):
        sketch.replacing("pool[39]", "x")
    with pytest.raises(UsageError, match="occurs 2 times"):
        sketch.replacing("pool", "x")


def test_a_build_carries_its_nonce() -> None:
    assert b'const char hil_build_nonce[17] = "0123456789abcdef";' in nonce_source(
        "0123456789abcdef"
    )
    # The key is made of the same file with no nonce in it.
    assert b'[17] = "0000000000000000";' in nonce_source("")


@pytest.mark.parametrize("text", ["default_profile: mine\n", 'profiles:\ndefault_profile: "mine"'])
@pytest.mark.parametrize("name", ["sketch.yaml", "sketch.yml"])
def test_a_profile_that_hides_the_library_is_refused(tmp_path: Path, text: str, name: str) -> None:
    folder = write(tmp_path / "A", A_ino="")
    refuse_profile(folder)
    (folder / name).write_text("default_fqbn: a:b:c\n# default_profile: x\n", encoding="utf-8")
    refuse_profile(folder)
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"'A' has default_profile 'mine' in its {name}") as got:
        refuse_profile(folder)
    assert "remove default_profile" in got.value.remedy
