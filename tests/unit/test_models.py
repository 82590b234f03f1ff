from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.model import registry as models
from harness.model.export import MODEL_NAMES, model_names
from harness.model.registry import MODELS, checkout_files, find_model
from harness.model.registry.keyword_spotting import LABELS, read_mfcc, recordings

PACKAGE = Path(models.__file__).parent


def mfcc(numbers: list[str], *, declared: str = "490") -> str:
    return (
        "// 49 frames, not { 1, 2 }\n#pragma once\n"
        f"static const float test_input[{declared}] = {{\n    " + ",\n ".join(numbers) + ",\n};\n"
        'static const char* test_label = "yes";\n'
    )


def test_the_registry_names_every_model_by_its_module() -> None:
    assert MODEL_NAMES == (
        "add",
        "keyword_spotting",
        "ds_cnn",
        "resnet8",
        "mobilenet_v1_025",
        "autoencoder",
    )
    for name, spec in MODELS.items():
        assert spec.name == name
        assert (PACKAGE / f"{name}.py").is_file()
        assert all((PACKAGE / each).is_file() for each in spec.modules)
        assert spec.case_seeds


def test_without_a_checkout_the_trained_model_is_not_offered() -> None:
    assert "keyword_spotting" not in model_names(None)
    assert model_names(Path("/anywhere")) == MODEL_NAMES
    with pytest.raises(UsageError, match="files of an ExecuTorch checkout, and none was given"):
        checkout_files(find_model("keyword_spotting"), None)


def test_images_are_channels_last() -> None:
    assert MODELS["resnet8"].layout == "channels-last"
    assert MODELS["autoencoder"].layout == "contiguous"


def test_an_unknown_model_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no model 'resnet'; did you mean 'resnet8'\?"):
        find_model("resnet")


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs '.*model\.pth', which does not exist"):
        checkout_files(find_model("keyword_spotting"), tmp_path)


def test_recordings_come_in_the_order_of_the_labels(tmp_path: Path) -> None:
    folder = tmp_path / "examples/arduino/examples/KeywordSpotting"
    folder.mkdir(parents=True)
    for number, word in enumerate(LABELS[2:]):
        (folder / f"mfcc_{word}.h").write_text(mfcc([f"{number}.5f"] * 490), encoding="utf-8")
    found = recordings(tmp_path)
    assert [each.label for each in found] == list(LABELS[2:])
    assert [each.values[0] for each in found] == [number + 0.5 for number in range(10)]


def test_numbers_are_read_in_every_notation(tmp_path: Path) -> None:
    path = tmp_path / "mfcc.h"
    numbers = ["-234.681412f", "1.0F", "2", "+3.5e-2f", ".5f", "7.f"] + ["0.0f"] * 484
    path.write_text(mfcc(numbers), encoding="utf-8")
    assert read_mfcc(path)[:6] == (-234.681412, 1.0, 2.0, 0.035, 0.5, 7.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds 0 numbers, not 490"),
        (mfcc(["1.0f"] * 489), "holds 489 numbers, not 490"),
        (mfcc(["1e999f"] * 490), "not 490 finite ones"),
        (mfcc(["system(1)"] + ["1.0f"] * 489), r"holds 'system\(1\)' where a number"),
        (mfcc(["nan"] + ["1.0f"] * 489), "holds 'nan' where a number"),
        (mfcc(["1.0f"] * 490).replace("};", ""), "holds 0 numbers"),
    ],
)
def test_a_file_without_490_numbers_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mfcc_yes.h"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_mfcc(path)


def test_a_recording_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mfcc_yes.h"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the recorded input"):
        read_mfcc(path)
