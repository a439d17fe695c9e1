"""Notes of a report on rows whose runs were made with different code."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.report.cli import report_main
from attnlab.report.runs.read_runs import DIVERGED

OLD, NEW, NEWEST = "0" * 12, "1" * 12, "2" * 12
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


@pytest.fixture
def write(tmp_path: Path, config: dict[str, Any]) -> Write:
    """Writes a run with a code of these hashes of two packages."""

    def written(row: str, seed: int, *code: dict[str, str], state: str = "finished", **more: Any) -> Path:
        changed = copy.deepcopy(config) | {"seed": seed}
        changed["model"]["name"] = row
        folder = tmp_path / f"runs/scan/{row}/tag/seed{seed}"
        record = {"code": list(code)} if code else {}
        return a_run(folder, changed, 0.5, state, **(record if state == "finished" else {"status": record | more}))

    return written


def notes(tmp_path: Path) -> list[str]:
    """The notes on code, from report.json."""
    assert report_main([f"runs={tmp_path / 'runs'}", "rows=model", f"out={tmp_path / 'out'}"]) == 0
    lines = json.loads((tmp_path / "out/report.json").read_text())["notes"]
    return [line for line in lines if "code of" in line]


def both(attnlab: str, mine: str) -> dict[str, str]:
    return {"attnlab": attnlab, "mine": mine}


def test_seeds_of_one_row_with_different_code_are_named_by_package(write: Write, tmp_path: Path) -> None:
    for seed, value in enumerate((OLD, NEW, NEW)):
        write("linear", seed, both(OLD, value))
        write("vanilla", seed, both(OLD, value))
        write("flash", seed, both(OLD, NEW))
    (note,) = notes(tmp_path)
    assert "code of mine" in note and "linear; vanilla" in note and "flash" not in note
    assert f"seed 0: {OLD}" in note and f"seeds 1, 2: {NEW}" in note


def test_a_run_that_went_on_with_new_code_mixes_by_itself(write: Write, tmp_path: Path) -> None:
    write("linear", 0, both(OLD, OLD), both(OLD, NEW))
    (note,) = notes(tmp_path)
    assert "code of mine" in note and f"seed 0: {OLD} then {NEW}" in note


def test_rows_with_different_code_are_named(write: Write, tmp_path: Path) -> None:
    """A package that only some rows use is no difference."""
    for seed in (0, 1):
        write("linear", seed, both(OLD, OLD))
        write("flash", seed, {"attnlab": OLD})
        write("vanilla", seed, {"attnlab": NEW})
    (note,) = notes(tmp_path)
    assert "code of attnlab" in note and f"{NEW} (vanilla)" in note
    assert f"{OLD} (flash; linear)" in note or f"{OLD} (linear; flash)" in note


def test_code_that_was_not_recorded_is_no_mix(write: Write, tmp_path: Path) -> None:
    """Runs of earlier versions, alone, beside others, and gone on with."""
    write("linear", 0)
    assert notes(tmp_path) == []
    write("linear", 1, both(OLD, OLD))
    write("linear", 2, {}, both(OLD, OLD))
    assert notes(tmp_path) == []


def test_a_run_that_diverged_counts(write: Write, tmp_path: Path) -> None:
    write("linear", 0, both(OLD, OLD))
    write("linear", 1, both(OLD, NEW), state="failed", reason=f"{DIVERGED}: at step 3")
    write("linear", 2, both(OLD, NEWEST), state="failed", reason="OSError: a full disk")
    (note,) = notes(tmp_path)
    assert NEW in note and NEWEST not in note


def test_what_is_no_hash_is_left_out(write: Write, tmp_path: Path) -> None:
    """A stranger's file may hold any text."""
    write("linear", 0, both(OLD, OLD))
    write("linear", 1, {"attnlab": OLD, "mine": "\x1b[31m", "a b": NEW}, {"mine": ["x"]})
    assert notes(tmp_path) == []
