"""benchmarks.gpu and its training runs: parts, time limits, files and costs on any machine; no time is asserted."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support.small_runs import ROOT, environment

from attnlab.config.job_config import compose_config, job_config
from benchmarks import gpu, training_run
from benchmarks.harness import gpu_summary, table_cost
from benchmarks.harness.gpu_parts import GROUPS, SPEED, STARTING, TRAINING, Part, chosen
from benchmarks.harness.gpu_summary import read_parts, summary_text
from benchmarks.harness.peak_memory import process_peak
from benchmarks.harness.table_cost import cost, published_tables
from benchmarks.harness.tables import ENVIRONMENT
from benchmarks.training_run import Point, Watch, last_loss, last_step, rate, second_half

WRITES_AND_HANGS = """
import os, pathlib, time
print('one row')
pathlib.Path(os.environ['BENCHMARK_RESULTS'], 'a-20260101-000000.csv').write_text('N,title\\n1,T\\n')
time.sleep(600)
"""


def test_a_part_is_stopped_at_its_limit_and_keeps_what_it_had_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit has passed as soon as the first table is there."""
    kept: list[gpu.Outcome] = []
    now = time.monotonic
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now() + 1000 * len(kept))
    outcome = gpu.run(
        Part("a part", "", "", 1), ["timeit", "-n", "1", "-r", "1", WRITES_AND_HANGS], 900, tmp_path, kept.append
    )
    assert outcome.end.startswith("stopped at its time limit") and outcome.output == ["one row"]
    assert outcome.tables == {"a-20260101-000000.csv": [{"N": "1", "title": "T"}]}
    assert kept[0].end.startswith("not ended") and kept[0].tables == outcome.tables


def test_how_a_part_ended(tmp_path: Path) -> None:
    part = Part("a part", "", "", 60)
    assert gpu.run(part, ["timeit", "-n", "1", "-r", "1", "pass"], 60, tmp_path).end.startswith("done")
    failed = gpu.run(part, ["benchmarks.nosuch"], 60, tmp_path)
    assert failed.end.startswith("failed with exit code 1") and "nosuch" in failed.output[-1]


def test_training_parts_share_what_the_limit_leaves_after_starting() -> None:
    single, packed = TRAINING[:2]
    words = single.command(tiny=False, device="cuda", limit=single.seconds)
    assert words[:5] == ["benchmarks.training_run", "--device", "cuda", "--seconds", "150"], "eager and compiled"
    assert packed.command(tiny=False, device="cuda", limit=STARTING + 100)[4] == "50"
    assert [word for word in packed.command(tiny=True, device="cpu", limit=1) if "members" in word]
    assert SPEED[0].command(tiny=False, device="cuda", limit=60)[:4] == [
        "benchmarks.packed",
        "--device",
        "cuda",
        "--ways",
    ]


def test_parts_by_name_and_group() -> None:
    assert chosen("training,attention") == [*(part for part in SPEED if part.name == "attention"), *TRAINING]
    assert chosen("all") == list(GROUPS["all"])
    with pytest.raises(ValueError, match="scan: no such part; there are all, speed"):
        chosen("scan")


def result(part: str) -> gpu.Outcome:
    """A result of a training run on a GPU, at the task's own sizes."""
    task, _, way = part.rpartition("_")
    members = 5 if way == "packed" else 1
    values = {"task": task, "way": way, "members": members, "ms a step of all": 3.6, "over steps": 100}
    rows = [dict.fromkeys(ENVIRONMENT, "") | values | {"device": "NVIDIA H200", "title": f"Training runs, {task}"}]
    text = [{name: str(value) for name, value in row.items()} for row in rows]
    return gpu.Outcome(part, "c", "done after 1 s", 1.0, {f"training_{part}-20260101-000000.csv": text}, [])


def test_parts_run_in_order_until_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """What was not measured is named; each file is written as soon as its part has ended."""
    clock, limits = [0.0], {}

    def run(part: Part, words: list[str], seconds: float, cache: Path, keep: object) -> gpu.Outcome:
        limits[part.name] = seconds
        clock[0] += seconds
        return result(part.name)

    monkeypatch.setattr(gpu, "run", run)
    monkeypatch.setattr(gpu.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(gpu.signal, "signal", lambda *_: None)
    words = ["gpu", "--out", str(tmp_path), "--minutes", "15", "--parts", "training", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(gpu_summary, "costs", lambda rows: [{"rows": len(rows)}])
    assert gpu.main() == 1
    assert limits == {"scan_single": 450, "scan_packed": 450}
    assert json.loads((tmp_path / "scan_packed.json").read_text())["end"] == "done after 1 s"
    assert (
        "not measured, or not to the end: --parts sort_of_clevr_single,sort_of_clevr_packed" in capsys.readouterr().out
    )


def test_the_summary_is_made_from_the_files_of_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 45 runs of 50,000 steps at 3.6 ms: 2.25 hours, 0.45 if five share a step."""
    for part in ("scan_single", "scan_packed"):
        (tmp_path / f"{part}.json").write_text(json.dumps(gpu.asdict(result(part))))
    jobs = {name: [job_config(compose_config([f"task={name}"]))] * 45 for name in ("scan", "sort_of_clevr")}
    monkeypatch.setattr(table_cost, "published_tables", lambda: list(jobs))

    def check_command(words: list[str]) -> argparse.Namespace:
        return argparse.Namespace(jobs=jobs[words[0].removeprefix("experiment=")])

    monkeypatch.setattr(table_cost, "check_command", check_command)
    text = gpu.write_summary(tmp_path)
    assert "- scan_single: done after 1 s (`c`)\n- scan_packed: done after 1 s" in text
    assert "| scan | 45 | 2.25 | 45 | 2.25 | 0.450 |" in text
    assert "| sort_of_clevr | 45 | 20.7 | 0 | - | - |" in text, "not measured"
    assert (tmp_path / "summary.md").read_text() == text and "at the end of a run; NVIDIA H200**" in text
    (row,) = next(iter(result("scan_single").tables.values()))
    assert gpu_summary.cost_blocks([row]) and not gpu_summary.cost_blocks([row | {"over steps": "99"}])
    assert not gpu_summary.cost_blocks([row | {"title": "Training runs, scan (backbone.d_model=16)"}])
    (tmp_path / "scan_packed.json").write_text('{"part": "scan_packed"}')
    with pytest.raises(SystemExit, match=r"scan_packed.json is no result of benchmarks.gpu"):
        read_parts(tmp_path, ["scan_single", "scan_packed"])
    assert "No results yet." in summary_text([], with_costs=True)


def test_tables_with_other_sizes_have_no_cost() -> None:
    """Of 60 runs of table 3, ten have the task's own width and heads."""
    tables = published_tables()
    assert "park2024/table3_sizes" in tables and not any("small" in name for name in tables)
    rows = [{"task": "sort_of_clevr", "way": "single", "members": "1", "ms a step of all": "1.0"}]
    found = cost("park2024/table3_sizes", rows)
    assert (found["runs at measured sizes"], found["runs"]) == (10, 60) and found["hours, one after another"] == "-"


def test_rate_is_of_the_second_half() -> None:
    """Compiling in the first half does not count; members that trained one after the other count their own steps."""
    points = [Point(0.0, (1, 1)), Point(50.0, (2, 2)), Point(60.0, (102, 102)), Point(100.0, (502, 502))]
    assert rate(points, 2) == pytest.approx(50 / 500)
    one_by_one = [Point(0.0, (10,)), Point(10.0, (110,)), Point(20.0, (110, 100))]
    assert rate(one_by_one, 2) == pytest.approx(2 * 10 / 100)
    assert second_half(points) == (50.0, 1000)
    with pytest.raises(SystemExit, match="fewer than two steps"):
        rate(points[:1], 1)


def test_the_last_complete_row_is_read(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("step,name,value\n")
    assert last_step(file) is None
    file.write_text("step,name,value\n" + "".join(f"{step},train/loss,{step}.5\n" for step in range(2000)) + "20")
    assert last_step(file) == 1999
    file.write_text("step,name,value\n10,train/loss,0.5\n10,train/lr,1\n")
    assert last_loss(file) == 0.5


def test_a_training_is_stopped_by_the_signal_that_stops_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A stand-in for train.py: it logs steps of two members until it is told to stop."""
    commands: list[list[str]] = []

    def train_main(words: list[str]) -> int:
        commands.append(words)
        runs, asked = Path(words[-2].partition("=")[2]), []
        assert words[-2].startswith("paths.runs=")
        signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
        for seed in "01":
            (runs / seed).mkdir(parents=True)
            (runs / seed / "metrics.csv").write_text("step,name,value\n")
        for step in range(1, 10_000):
            for seed in "01":
                with (runs / seed / "metrics.csv").open("a") as rows:
                    rows.write(f"{step},train/loss,{step}\n")
            if asked:
                raise SystemExit(training_run.STOPPED)
            time.sleep(0.01)
        return 1

    monkeypatch.setattr(training_run, "train_main", train_main)
    given = argparse.Namespace(task="scan", model="linear", members=2, seconds=0.2, threads=1, overrides=["a=1"])
    given.device = torch.device("cpu")
    row = training_run.measure(given, compiled=True)
    assert (row["way"], row["members"], row["trained"], row["compiled"]) == ("packed", 2, 2, "yes")
    assert row["ended"] == "stopped" and row["steps"] == row["loss"] > 1 and row["ms a step of all"] > 0
    assert commands[0][:3] == ["-m", "hydra/launcher=packed", "seed=0,1"] and "trainer.compile=true" in commands[0]
    monkeypatch.setattr(training_run, "train_main", lambda words: 2)
    with pytest.raises(SystemExit, match="the training ended with exit code 2"):
        training_run.measure(given, compiled=False)
    capsys.readouterr()


def test_a_training_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent before the first logged step: until then a run has nothing to save, or is still compiling."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: sent.append(signum))
    watch = Watch(tmp_path, seconds=0.0)
    waits = iter([False, False, False, True])
    monkeypatch.setattr(watch.ended, "wait", lambda seconds: next(waits))
    looks = iter([[], [Point(1.0, (5,))], []])
    monkeypatch.setattr(watch, "look", lambda: watch.points.extend(next(looks)))
    watch.watch()
    assert sent == [signal.SIGTERM]


def test_memory_of_a_gpu_is_what_torch_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed CUDA graphs work in memory that was reserved when they were recorded; nothing is allocated then.

    What the eager run left in torch's cache is given back before the compiled one begins.
    """
    calls: list[str] = []
    for name in ("init", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: calls.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 7)
    training_run.forget_memory(torch.device("cuda"))
    assert calls == ["init", "empty_cache", "reset_peak_memory_stats"]
    assert process_peak(torch.device("cuda"), compiled=True) == 7


@pytest.mark.slow
def test_every_part_runs_on_a_cpu(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    for part in GROUPS["all"]:
        found = json.loads((tmp_path / f"{part.name}.json").read_text())
        assert found["end"].startswith("done") and found["tables"], part.name
    assert "Cost of the published tables" not in done.stdout, "tiny networks say nothing about tables"
