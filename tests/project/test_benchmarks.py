"""Values that benchmarks compute from measurements; no test asserts a time."""

import csv
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support.small_runs import ROOT

from attnlab.data.batch import SequenceBatch
from attnlab.plots.png_caption import caption_of
from benchmarks import decode, published_step, table7
from benchmarks.all import FULL, SHORT, SMALLEST, tiny
from benchmarks.harness.interleaved_training import Turn
from benchmarks.harness.peak_memory import peak_of, process_peak
from benchmarks.harness.speed_by_length_figure import speed_by_length
from benchmarks.harness.table7_findings import published_rows
from benchmarks.harness.tables import ENVIRONMENT, markdown, show
from benchmarks.harness.timing import interleaved
from benchmarks.harness.workload import positions
from benchmarks.train_step import rates

COMMANDS = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py") if "def main(" in file.read_text())


def test_the_tiny_form_runs_every_benchmark() -> None:
    """At once or line by line: `all` is the caller, `tables` shows results."""
    assert set(SMALLEST) == set(COMMANDS) - {"all"}
    assert {line.split()[0] for line in (*SHORT, *FULL)} <= set(SMALLEST)
    assert {line.split()[0] for line in tiny()} == set(SMALLEST) and len(tiny()) > len(SHORT)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_how_it_is_run(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 0
    assert f"python -m benchmarks.{name}" in capsys.readouterr().out


def test_peak_memory_is_of_tensors_that_live_at_once() -> None:
    def run() -> None:
        a = torch.ones(1000)
        b = a * 2
        del a
        torch.ones(500).add_(b.sum())

    # and numbers of a few bytes
    assert 8000 <= peak_of(run, torch.device("cpu")) < 8100


class Steps:
    """A clock, and contestants that take 1 s a step by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.taken = 0.0, 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def step(self) -> None:
        self.now, self.taken = self.now + 1.0, self.taken + 1


@pytest.mark.parametrize(
    ("seconds", "windows", "noted"), [(0, 1, False), (40, 1, True), (150, 2, False), (480, 7, False)]
)
def test_the_published_step_ends_with_the_window_that_fits(
    seconds: float, windows: int, noted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A window of 32 steps of two takes 64 s."""
    steps = Steps(monkeypatch)
    result = published_step.in_turns({"a": steps.step, "b": steps.step}, 32, seconds, lambda first: None)
    assert {name: len(each) for name, each in result.seconds.items()} == {"a": windows, "b": windows}
    assert ("--seconds 40" in capsys.readouterr().err) == noted


def test_a_comparison_of_more_than_its_seconds_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    steps = Steps(monkeypatch)
    times = interleaved({"a": steps.step, "b": steps.step}, 3, "case", least=4)
    assert len(times.seconds["a"]) == 4 and "took 8 s, longer than --seconds 3" in capsys.readouterr().err
    assert len(interleaved({"a": steps.step}, 30, "case", least=4).seconds["a"]) == 30
    assert "--seconds" not in capsys.readouterr().err


def test_an_option_of_a_benchmark_has_an_effect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Decoding is measured by tokens and passes."""
    monkeypatch.setattr(sys, "argv", ["decode", "--seconds", "40"])
    with pytest.raises(SystemExit) as ended:
        decode.main()
    assert ended.value.code == 2 and "--seconds" in capsys.readouterr().err


def test_positions_of_a_batch_are_of_both_sequences() -> None:
    batch = SequenceBatch(
        index=torch.arange(2),
        inputs=torch.zeros(2, 4, dtype=torch.int64),
        input_lengths=torch.tensor([4, 1]),
        targets=torch.zeros(2, 3, dtype=torch.int64),
        target_lengths=torch.tensor([2, 3]),
    )
    assert positions(batch) == (10, 14)


def test_rates_are_shares_of_all_turns() -> None:
    turns = [
        Turn(peak_bytes=0, seconds=2.0, waited=0.5, real=60, positions=100),
        Turn(peak_bytes=0, seconds=2.0, waited=0.1, real=90, positions=100),
    ]
    assert rates(turns, peak_bytes=3 * 10**9) == {
        "tokens/s": 37.5,
        "padding %": pytest.approx(25.0),
        "waiting %": pytest.approx(15.0),
        "peak memory GB": 3.0,
        "turns": 2,
    }


def write(folder: Path, name: str, *rows: dict[str, object], **environment: object) -> Path:
    """A csv as `show` writes it."""
    file = folder / f"{name}.csv"
    inputs = (
        dict.fromkeys((*ENVIRONMENT, "title"), "") | {"device": "cpu", "threads": 2, "load_before": 0.1} | environment
    )
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, [*rows[0], *inputs])
        writer.writeheader()
        writer.writerows({**row, **inputs} for row in rows)
    return file


def test_table_7_names_lengths_without_memory_and_published_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models; the third measurement of memory, vanilla's inference at the second length, fails."""
    calls, real = itertools.count(1), table7.peak_of

    def peak_of(run: Callable[[], object], device: torch.device) -> float:
        if next(calls) == 3:
            raise torch.OutOfMemoryError("tried to allocate")
        return real(run, device)

    monkeypatch.setattr(table7, "peak_of", peak_of)
    sizes = ["backbone.d_model=16", "backbone.n_layers=1"]
    options = "--device cpu --threads 1 --seconds 0 --turns 1 --lengths 64,1024 --models vanilla,transnormer_t2"
    monkeypatch.setattr(sys, "argv", ["table7", *options.split(), "--out", str(tmp_path), *sizes])
    table7.main()
    lines = [line.strip("| ").split(" | ") for line in (tmp_path / "table7.md").read_text().splitlines()]
    rates, ratios, memory, *training = (cells for cells in lines if cells[0] == "transnormer_t2")
    assert (
        rates[1] == "transnormer_t2"
        and float(rates[3]) > 0
        and float(ratios[1]) > 0
        and "(" in memory[1]
        and "(" not in memory[2]
    )
    assert ratios[2:] == ["-", "3.05"] and training[1][3] == "1.92", "119.05 / 39.06 and 29.41 / 15.34 in the paper"
    vanilla = [cells for cells in lines if cells[0] == "vanilla"]
    assert [cells[2] for cells in (vanilla[0][1:], *vanilla[1:3])] == [
        "out of memory"
    ] * 3 and "out of memory" not in str(vanilla[3:])
    assert "a line ends where memory runs out" in caption_of(tmp_path / "table7.png")


def test_table_7_is_drawn_again_from_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a README; a text without tables is named."""
    tables = Path(__file__).parents[2] / "experiments/measured/table7_cpu/README.md"
    monkeypatch.setattr(sys, "argv", ["table7", "--draw", str(tables), "--out", str(tmp_path)])
    table7.main()
    assert "measured with batch 1" in caption_of(tmp_path / "table7.png")
    with pytest.raises(ValueError, match=r"no table of benchmarks\.table7"):
        speed_by_length("| model | N=256 |", tmp_path / "none.png")


def test_every_row_of_table_7_has_a_model() -> None:
    """Of the preset of table 6, by the row's name or as a variant of it."""
    names = [table7.model_choice(row).rpartition("/")[2] for row in published_rows()]
    assert len(set(names)) == len(names) == 11
    assert all(name.startswith(row) for name, row in zip(names, published_rows(), strict=True))


def test_a_result_as_markdown_names_its_machine(tmp_path: Path) -> None:
    file = write(
        tmp_path, "x-20260101-000000", {"N": 1, "ms": 0.12345}, device="GPU", cpu="CPU", command="c", title="T"
    )
    lines = markdown(file).splitlines()
    assert lines[-3:] == ["| N | ms |", "|---:|---:|", "| 1 | 0.123 |"]
    assert "GPU, CPU, 2 threads" in lines[2]


def test_rows_are_written_and_printed_as_they_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that a benchmark that is stopped loses none of them."""
    seen = []

    def rows() -> Iterator[dict[str, object]]:
        for number in (1, 2):
            yield {"members": number, "ms": 0.25 * number}
            [file] = tmp_path.iterdir()
            seen.append([float(row["ms"]) for row in csv.DictReader(file.open())])
            assert f"members {number}, ms 0." in capsys.readouterr().out

    assert show("some", "Some", rows(), dict.fromkeys(ENVIRONMENT, ""), tmp_path) in tmp_path.iterdir()
    assert seen == [[0.25], [0.25, 0.5]]
    assert show("none", "None", iter(()), dict.fromkeys(ENVIRONMENT, ""), tmp_path) is None
    assert len(list(tmp_path.iterdir())) == 1


def test_compiled_steps_on_a_gpu_count_what_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay allocates nothing."""
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1)
    assert (process_peak(gpu, compiled=True), process_peak(gpu, compiled=False)) == (7, 1)
    assert process_peak(cpu, compiled=True) > 1000
