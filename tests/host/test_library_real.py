"""A real checkout's library: what its own script makes, and that the checkout stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clock import monotonic_s
from harness.library.checkout import git, open_checkout
from harness.storage.digest import metadata_digest, tree_digest
from tests.real_library import configured_checkout, library_of

WARM_S = 0.5
"""Limit for a library that is there already; 0.05 s was measured, the rest is a loaded machine."""


@pytest.fixture
def checkout() -> Path:
    """The configured checkout."""
    return configured_checkout()


def test_the_real_script(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    files = metadata_digest(open_checkout(checkout).files())
    status = git(checkout, "status", "--porcelain").stdout
    index = Path(
        git(checkout, "rev-parse", "--path-format=absolute", "--git-path", "index").stdout.strip()
    )
    index_bytes = index.read_bytes()

    library = library_of(checkout)
    told = library.provenance
    assert library.name == "ExecuTorch"
    assert {"AddModel", "HelloExecuTorch", "KeywordSpotting"} <= set(library.examples)
    assert told.commit == git(checkout, "rev-parse", "HEAD").stdout.strip()
    assert told.commit in (told.provenance_text or "")
    assert told.kernels > 20
    assert told.max_kernels is not None
    assert told.digest == tree_digest(library.path)
    for example in library.examples:
        assert (library.path / "examples" / example / "model.h").is_file()

    assert metadata_digest(open_checkout(checkout).files()) == files
    assert git(checkout, "status", "--porcelain").stdout == status
    assert index.read_bytes() == index_bytes

    began_s = monotonic_s()
    assert library_of(checkout) == library
    assert monotonic_s() - began_s < WARM_S

    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "another"))
    assert library_of(checkout).provenance.digest == told.digest
