"""The guard against wrong vector instructions of compiled steps on a CPU."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.small_runs import SMALL_SCAN, checked, config_of
from torch._inductor.codegen import cpp
from torch.torch_version import TorchVersion

from attnlab.kernels import inductor_tiles
from attnlab.kernels.inductor_tiles import CACHE_TAG, FIRST_SAFE, NO_VECTORS, cpu_options, one_for_sums
from attnlab.learn.devices.device_choice import speed_notes


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Inductor as it was imported; the guard of a test ends with it."""
    monkeypatch.setattr(cpp.TilingSelect, "_select_tiling_indices", cpp.TilingSelect._select_tiling_indices)
    cpu_options.cache_clear()
    with torch.compiler.config.patch(cache_key_tag=""):
        yield monkeypatch
    cpu_options.cache_clear()


def test_sums_keep_their_last_tiled_loop() -> None:
    plain, summing = ((4, 26), ()), ((4,), (26,))
    assert one_for_sums([0, 2], [plain]) == [0, 2]
    assert one_for_sums([0, 2], [plain, summing]) == [2]
    assert one_for_sums([1], [summing]) == [1]
    assert one_for_sums([], [summing]) == []


def test_the_guard_changes_what_inductor_chooses(unguarded: pytest.MonkeyPatch) -> None:
    unguarded.setattr(cpp.TilingSelect, "_select_tiling_indices", lambda *_: [0, 2])
    torch.compiler.config.cache_key_tag = "mine "
    assert cpu_options() == {} and torch.compiler.config.cache_key_tag == "mine " + CACHE_TAG
    choose = cpp.TilingSelect()._select_tiling_indices
    assert choose([], [((34, 3), (20,))], 16) == [2]
    assert choose([], [((34, 3, 20), ())], 16) == [0, 2]
    # set once
    assert cpu_options() == {} and cpp.TilingSelect()._select_tiling_indices([], [((3,), (2,))], 16) == [2]


@pytest.mark.parametrize("lacks", ["2.12.1+cpu", "2.14.0", "method", "tag"])
def test_without_a_place_for_the_guard_there_are_no_vector_instructions(
    unguarded: pytest.MonkeyPatch, lacks: str, tmp_path: Path
) -> None:
    if lacks[0] == "2":
        unguarded.setattr(inductor_tiles.torch, "__version__", TorchVersion(lacks))
    elif lacks == "method":
        unguarded.delattr(cpp.TilingSelect, "_select_tiling_indices")
    else:
        unguarded.setattr(inductor_tiles.torch.compiler, "config", object())
    try:
        assert cpu_options() == NO_VECTORS
        config = checked(config_of(tmp_path, *SMALL_SCAN, "model=linear", "trainer.compile=true"))
        (text,) = speed_notes(config, torch.device("cpu"))
    finally:
        unguarded.undo()
    assert "compiled without them" in text and "trainer.compile=false" in text
    assert speed_notes(config, torch.device("cuda")) == []


def test_with_the_guard_nothing_is_said(tmp_path: Path) -> None:
    config = checked(config_of(tmp_path, *SMALL_SCAN, "model=linear", "trainer.compile=true"))
    assert speed_notes(config, torch.device("cpu")) == []


def test_importing_the_step_does_not_import_inductor() -> None:
    """It takes seconds, and eager runs do without."""
    code = (
        "import attnlab.kernels.compiled_step, sys; print([m for m in sys.modules if m.startswith('torch._inductor')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_safe_torch_is_named_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()
    assert f"torch {FIRST_SAFE}" in text
