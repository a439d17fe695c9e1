"""Damaged files of a run folder: train, evaluate and report answer alike with one sentence."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.small_runs import SMALL_CLEVR, config_of, run_job, two_finished_runs

from attnlab.config.job_config import job_config
from attnlab.config.run_identity import run_folder
from attnlab.launch.console_summary import print_sweep
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.learn.metric_units import OF_RUNS, STEP_TIME
from attnlab.report import cli as report_cli
from attnlab.report.runs.read_runs import look
from attnlab.run.read_run_files import RunError, config_text, read_config, read_result, read_rows, read_status
from attnlab.run.run_folder import MetricsFile

SMALL = (*SMALL_CLEVR, "model=linear", "train.max_steps=2", "train.validate_every=2")
FILES = ("config.yaml", "status.json", "result.json", "metrics.csv")
FAULTS: dict[str, Callable[[Path], Any]] = {
    "no UTF-8": lambda file: file.write_bytes(b"\xff\xfe\x00{}\n"),
    "{}": lambda file: file.write_text("{}\n"),
    "[1]": lambda file: file.write_text("[1]\n"),
    "folder": lambda file: (file.unlink(), file.mkdir()),
    "pipe": lambda file: (file.unlink(), os.mkfifo(file)),
}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


ODD: dict[str, list[dict[Any, Any]]] = {
    "status.json": [
        *({"state": "trained"}, {"state": None}, {"step": "2"}, {"commits": "abc"}, {"commits": [1]}),
        *({"hardware": []}, {"reason": 3}, {"pid": "7"}, {STEP_TIME: "x"}, {"data": 1}),
    ],
    "result.json": [
        *({"metrics": {"test/accuracy": "much"}}, {"metrics": {"test/accuracy": True}}, {"git": []}),
        *({"git": {"commit": []}}, {"selection": {"step": "2"}}, {"selection": {"val/accuracy": "1"}}),
        *({name: "x"} for name in OF_RUNS if name != STEP_TIME),
        *(
            {"data": {"hash": [1]}},
            {"debug": {}},
            {"debug": {"sizes": {"a": "x"}, "eval_batches": 1}},
            {"counts": {"a": "x"}},
        ),
    ],
    "config.yaml": [
        *({"task": []}, {"seed": "0"}, {"task": {"name": "x", "label": ["split"]}}, {1: 2}),
        *({"model": {"name": "x", "encoder": encoder}} for encoder in (1, [1], [{"share": "half"}])),
    ],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two finished runs."""
    return two_finished_runs(tmp_path_factory.mktemp("finished"), *SMALL)


@pytest.fixture
def raw(finished: Path, tmp_path: Path) -> dict[str, Any]:
    """The configuration of the first of them, in a copy to be spoilt."""
    shutil.copytree(finished / "runs", tmp_path / "runs")
    raw = config_of(finished, *SMALL)
    return raw | {"paths": raw["paths"] | {"runs": str(tmp_path / "runs")}}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", FILES)
def test_train_answers_every_fault(
    file: str, fault: str, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(raw)
    if file == "metrics.csv":
        # of a finished run nobody reads it
        (folder / "result.json").unlink()
    FAULTS[fault](folder / file)
    code, printed = run_job(raw, quiet=True), capsys.readouterr().err
    assert "Traceback" not in printed and file in printed
    assert code == 1 and ("restore it" in printed or "remove that file" in printed)
    assert print_sweep([job_config(raw)], ["seed=0"]) == 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", FILES)
def test_evaluate_answers_every_fault(
    file: str, fault: str, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads only the configuration and the weights."""
    FAULTS[fault](run_folder(raw) / file)
    assert evaluate_main([f"run={run_folder(raw)}"]) == (2 if file == "config.yaml" else 0)
    assert file != "config.yaml" or "config.yaml is " in capsys.readouterr().err


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", FILES)
def test_report_answers_every_fault(
    file: str,
    fault: str,
    raw: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report_cli, "_figures", lambda table, out: ([], []))
    FAULTS[fault](run_folder(raw) / file)
    columns = "columns=test/accuracy,relative_sd(train/gradient_norm)"
    assert report_cli.report_main([f"runs={tmp_path / 'runs'}", columns, f"out={tmp_path / 'out'}"]) == 0
    printed = capsys.readouterr().out
    if file == "config.yaml":
        assert f"skipped {run_folder(raw)}: config.yaml is " in printed
    elif file != "metrics.csv":
        assert f"unreadable, seed 0 ({file} is " in printed
    else:
        assert "no number, seed 0 (metrics.csv is " in printed
    both = json.loads((tmp_path / "out/report.json").read_text())["rows"][0]["cells"][0]["n"]
    assert both == (2 if file == "metrics.csv" else 1)


def test_what_a_record_holds_is_checked(raw: dict[str, Any], tmp_path: Path) -> None:
    """Every entry that somebody reads has the type that is read."""
    readers = {"status.json": read_status, "result.json": read_result, "config.yaml": read_config}
    for file, changes in ODD.items():
        there = yaml.safe_load((run_folder(raw) / file).read_text())
        for change in changes:
            dump = yaml.safe_dump if file == "config.yaml" else json.dumps
            (tmp_path / file).write_text(dump(there | change))
            with pytest.raises(RunError, match=file):
                readers[file](tmp_path / file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"metrics": ' * 5000, "no JSON"),
        ('{"metrics": {"\\ud800": 1}}', "UTF-8"),
        (" " * 2**24 + "{}", "far more than a run writes"),
    ],
)
def test_records_that_would_break_python(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(RunError, match=said):
        read_result(tmp_path / "result.json")


def test_a_number_of_any_length_is_one(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(f'{{"metrics": {{"test/accuracy": {"9" * 5000}}}}}')
    assert read_result(tmp_path / "result.json") == {"metrics": {"test/accuracy": float("inf")}}


@pytest.mark.parametrize(
    ("text", "said"),
    [(BOMB, "anchor or alias"), ("[" * 10_000, "nested"), ("a: " + "x" * 2**21, "far more than a run writes")],
    ids=["bomb", "deep", "large"],
)
def test_a_configuration_that_would_fill_the_memory(
    text: str, said: str, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, begin = run_folder(raw), time.monotonic()
    config = folder / "config.yaml"
    # at the end of what is otherwise a run's
    config.write_text(text if text.startswith("[") else config.read_text() + text)
    assert evaluate_main([f"run={folder}"]) == 2
    assert said in capsys.readouterr().err
    assert run_job(raw, quiet=True) == 1
    assert said in capsys.readouterr().err
    result = look(folder, raw)
    assert result.state == "unreadable" and said in result.reason
    assert time.monotonic() - begin < 10


def test_what_is_shared_is_written_twice(tmp_path: Path) -> None:
    """A configuration made in Python may hold the same list under two keys."""
    shared: dict[str, Any] = {"list": [1, {"a": None}], "name": "x"}
    config = {"one": shared, "two": [shared, shared]}
    text = config_text(config)
    assert "&" not in text and "*" not in text
    assert yaml.safe_load(text) == config


def test_a_damaged_tail_of_the_metrics_is_dropped(raw: dict[str, Any]) -> None:
    """The lines after the last checkpoint of a killed run: a resume writes them anew."""
    folder = run_folder(raw)
    (folder / "result.json").unlink()
    status = json.loads((folder / "status.json").read_text()) | {"state": "running", "result_file": None}
    (folder / "status.json").write_text(json.dumps(status))
    file = folder / "metrics.csv"
    before = MetricsFile(file).rows()
    damage = b"two,train/loss,0.5\n2,train/loss,0.5.1\n2,train/loss\n2,tr\xffain,1.0\n" + bytes(4096) + b"\n2,train/lo"
    with file.open("ab") as whole:
        whole.write(damage)
    assert read_rows(file) == (before, 6)
    assert look(folder).logged(("train/loss",)) == [row for row in before if row[1] == "train/loss"]
    assert run_job(raw, quiet=True) == 0
    assert read_rows(file) == (before, 0)
