"""Values that benchmarks compute from measurements; no test asserts a time."""

import csv
import functools
import importlib
import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.gpu import requires_gpu
from support.small_runs import ROOT

from attnlab.data.batch import SequenceBatch
from attnlab.plots.png_caption import caption_of
from benchmarks import sweep_scale, table7
from benchmarks.all import FULL, SHORT, SMALLEST, tiny
from benchmarks.harness.finished_sweep import drawn
from benchmarks.harness.interleaved_training import Account, Turn
from benchmarks.harness.model_flops import counted, data_sheet
from benchmarks.harness.peak_memory import graph_memory, peak_of, process_peak
from benchmarks.harness.speed_by_length_figure import speed_by_length
from benchmarks.harness.table7_findings import published_rows
from benchmarks.harness.tables import ENVIRONMENT, markdown, show
from benchmarks.harness.workload import positions
from benchmarks.sweep_scale import curve, first_to_break, jobs_within, row
from benchmarks.targets import TARGETS, summary
from benchmarks.train_step import rates

COMMANDS = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py") if "def main(" in file.read_text())


def test_the_tiny_form_runs_every_benchmark() -> None:
    """At once or line by line: `all` is the caller, `tables` shows results, `gpu` has a separate tiny form."""
    assert set(SMALLEST) == set(COMMANDS) - {"all", "gpu"}
    assert {line.split()[0] for line in (*SHORT, *FULL)} <= set(SMALLEST)
    assert {line.split()[0] for line in tiny()} == set(SMALLEST) and len(tiny()) > len(SHORT)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_how_it_is_run(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 0
    assert f"python -m benchmarks.{name}" in capsys.readouterr().out


def test_flops_of_products_and_of_fused_attention() -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert counted(lambda: a @ b) == 2 * 3 * 5 * 7
    q, k, v = (torch.randn(2, 3, 64, 16, requires_grad=True) for _ in range(3))
    forward = 2 * 2 * (2 * 3) * 64 * 64 * 16
    assert counted(lambda: F.scaled_dot_product_attention(q, k, v)) == forward
    # backward makes the weights anew, then gradients of weights, values, queries and keys
    assert counted(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward()) == forward + 5 * forward // 2


def test_peak_memory_is_of_tensors_that_live_at_once() -> None:
    def run() -> None:
        a = torch.ones(1000)
        b = a * 2
        del a
        torch.ones(500).add_(b.sum())

    # and numbers of a few bytes
    assert 8000 <= peak_of(run, torch.device("cpu")) < 8100


def test_data_sheets_by_name_and_format() -> None:
    assert data_sheet("NVIDIA H200", "32-true", tf32=False) == 67e12
    assert data_sheet("NVIDIA H100 80GB HBM3", "bf16-mixed", tf32=False) == 989e12
    assert data_sheet("NVIDIA A100-SXM4-40GB", "32-true", tf32=True) == 156e12
    assert data_sheet("cpu", "32-true", tf32=False) is None


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
    found = rates(turns, Account(peak_bytes=3 * 10**9, flops_per_position=10.0), reached=[1000.0, 2000.0], peak=5000.0)
    assert found == {
        "tokens/s": 37.5,
        "padding %": pytest.approx(25.0),
        "waiting %": pytest.approx(15.0),
        "peak memory GB": 3.0,
        "product %": pytest.approx(37.5),  # 500 FLOP/s of 1,000 and of 2,000
        "peak %": pytest.approx(10.0),
        "turns": 2,
    }


def write(folder: Path, name: str, *rows: dict[str, object], **environment: object) -> Path:
    """A csv as `show` writes it."""
    file = folder / f"{name}.csv"
    given = (
        dict.fromkeys((*ENVIRONMENT, "title"), "") | {"device": "cpu", "threads": 2, "load_before": 0.1} | environment
    )
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, [*rows[0], *given])
        writer.writeheader()
        writer.writerows({**row, **given} for row in rows)
    return file


def write_packed(folder: Path, name: str, device: str, times: dict[int, float]) -> None:
    """A result of `benchmarks.packed` at published sizes: how many times as fast, by members."""
    column, task = "times as fast as one after another", name.rsplit("-", 2)[0].removeprefix("packed_")
    rows = [
        {"way": "packed", "members": n, "compiled": "yes", "ms a step of all": 1.5, "steps/s of all": 9, column: faster}
        for n, faster in times.items()
    ]
    write(folder, name, *rows, device=device, title=f"Packed training steps, {task} linear_l2_ortho")


def test_targets_are_open_until_measured_where_they_are_promised(tmp_path: Path) -> None:
    assert [row["met"] for row in summary(tmp_path)] == ["open"] * len(TARGETS)
    write_packed(tmp_path, "packed_scan-20260101-000000", "cpu", {5: 9.0})
    assert {row["met"] for row in summary(tmp_path)} == {"open"}, "packing on a CPU answers nothing"


def test_targets_take_the_newest_result_on_their_machine(tmp_path: Path) -> None:
    write_packed(tmp_path, "packed_scan-20260101-000000", "NVIDIA H200", {5: 2.0, 16: 7.0})
    write_packed(tmp_path, "packed_scan-20260102-000000", "NVIDIA H200", {5: 3.4})
    write_packed(tmp_path, "packed_sort_of_clevr-20260101-000000", "NVIDIA H200", {5: 4.0})
    write(tmp_path, "ortho_lengths-20260101-000000", {"N": 64, "adds %": 2.0}, {"N": 128, "adds %": 6.5})
    rows = [{"model": model, "ms a step": 400, "batch": 256} for model in ("vanilla", "linear_l2_ortho")]
    write(tmp_path, "train_step_scan-20260101-000000", *rows, title="Training step, scan")
    factors = {"time, largest 2N / N": 2.1, "longest N": 16384}
    for mode, memory in (("bidirectional", 2.4), ("causal", 2.2)):
        row = {"form": "attnlab flash", **factors, "memory, largest 2N / N": memory}
        write(tmp_path, f"attention_{mode}_growth-20260101-000000", row)
    pair = {"ours": "attnlab performer", "yardstick": "performer, performer-pytorch", "N=64": 1.2, "N=128": "-"}
    write(tmp_path, "attention_bidirectional_pairs-20260101-000000", pair)
    found = {row["measure"]: row for row in summary(tmp_path) if row["met"] != "open"}
    five, sixteen, minutes, step, ortho, growth, performer = found.values()
    assert (five["measured"], five["met"]) == ("3.40 x", "yes")
    assert sixteen["met"] == "yes"
    assert minutes["measured"].startswith("11.5 minutes") and minutes["met"] == "yes"
    assert step["measured"] == "vanilla 400 ms, linear_l2_ortho 400 ms" and step["met"] == "yes"
    assert ortho["met"] == "no" and "N 128" in ortho["measured"]
    assert growth["met"] == "no" and growth["measured"].startswith("2.40 at most (memory of bidirectional flash")
    assert performer["met"] == "yes" and performer["measured"] == "1.20 x at least"


def test_targets_of_compared_steps(tmp_path: Path) -> None:
    """Rows as benchmarks.published_step, against_commit and orthogonality_loss write them, with their intervals."""
    ours = {"step": "vanilla", "times as fast": 1.4, "95 % interval": "1.350 to 1.450"}
    steps = [ours | {"batches": "as published"}, ours | {"batches": "train.bucket_window=32", "times as fast": 2.4}]
    write(tmp_path, "published_step-20260101-000000", *steps, title="SCAN step against the published one")
    write(tmp_path, "published_step-20260102-000000", *steps[1:], title="SCAN step against the published one (small)")
    title = "Training steps against commit 484d96368f"
    row = {"workload": "sort_of_clevr", "before": "484d96368f", "times as fast": 2.2, "95 % interval": "2.1 to 2.3"}
    write(tmp_path, "against_commit-20260101-000000", row, title=title)
    paired = [{"task": task, "paired %": 3.0, "paired, 95 %": "+1.0 to +6.0"} for task in ("scan", "sort_of_clevr")]
    by_task = {"title": "Orthogonality loss in a training step, by task"}
    paired = [one | {"adds %": 1.0} for one in paired]
    write(tmp_path, "ortho_tasks-20260101-000000", *paired, **by_task)
    found = {row["measure"]: (row["measured"], row["met"]) for row in summary(tmp_path)}
    assert found["SCAN step against the published step, same batches, two cores"][1] == "yes"
    assert found["the same with train.bucket_window=32"] == ("2.40 x (1.350 to 1.450)", "no")
    assert found["sort-of-CLEVR, width 64, one thread, against commit 484d96368f"] == ("2.20 x (2.1 to 2.3)", "yes")
    measure = "linear_l2_ortho against linear_l2, steps in turn, CPU"
    assert found[measure] == ("scan +3.0 % (+1.0 to +6.0), sort_of_clevr +3.0 % (+1.0 to +6.0)", "open")
    for interval, met in (("+1.0 to +5.0", "yes"), ("+5.1 to +6.0", "no")):
        rows = [one | {"paired, 95 %": interval} for one in paired]
        write(tmp_path, "ortho_tasks-20260102-000000", *rows, **by_task)
        assert {row["measure"]: row["met"] for row in summary(tmp_path)}[measure] == met


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
    tables = Path(__file__).parents[1] / "experiments/measured/table7_cpu/README.md"
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
    """A replay allocates nothing: 1 is allocated, 7 are reserved, 2 of them for no graph."""
    reserved, gpu, cpu = [7], torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved[-1])
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: reserved.append(5))
    assert (process_peak(gpu, compiled=True), process_peak(gpu, compiled=False)) == (7, 1)
    assert process_peak(cpu, compiled=True) > 1000
    assert (graph_memory(gpu), graph_memory(cpu)) == (4, 0)


def test_a_part_of_a_sweep_is_extrapolated_from_three_sizes() -> None:
    """Exactly where the first size is all start; at least linear; and the part that breaks first is named."""
    sizes, seconds = (0, 2500, 10_000), [2 + 3e-7 * n**2 for n in (0, 2500, 10_000)]
    assert curve(sizes, seconds) == pytest.approx((2, 3e-7, 2))
    assert jobs_within(62, curve(sizes, seconds)) == pytest.approx(200_000_000**0.5)
    assert curve((50, 100, 200), (1.0, 3.0, 4.0))[2] == 1.0, "less than linear by chance"
    assert jobs_within(60, curve((50, 100, 200), (1.0, 0.9, 1.0))) == math.inf
    found = [{"processor": s, "seconds": s, "MB": 100.0, "made": ""} for s in seconds]
    lines = [row("plan", "seeds", sizes, found, 100_000), row("table", "seeds", sizes, found, 100_000)]
    assert lines[0]["CPU s at 100,000"] == "3002" and lines[0]["within limits up to"] == 13_904
    assert first_to_break(lines, 100_000) == "beyond its limits first: plan, seeds, at 13,904 jobs"
    assert first_to_break(lines, 10_000) == "no part is beyond its limits at 10,000 jobs"


def test_drawn_numbers_of_a_finished_run_fit_together() -> None:
    lengths = {f"test/ood/length_{n}": n for n in (3, 4)}
    names = ["test/ood/sequence_accuracy", *(f"{part}/sequence_accuracy" for part in lengths), "train/loss"]
    found = drawn(dict.fromkeys(names, 0.5), {**lengths, "test/ood": 7}, random.Random(0))
    right = sum(found[f"{part}/sequence_accuracy"] * n for part, n in lengths.items())
    assert list(found) == names and found["test/ood/sequence_accuracy"] == pytest.approx(right / 7)
    assert found["train/loss"] == 0.5


@pytest.mark.slow
def test_large_sweeps_are_measured_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sweep_scale", *SMALLEST["sweep_scale"].split(), "--threads", "1"])
    monkeypatch.setattr(sweep_scale, "show", functools.partial(show, folder=tmp_path))
    sweep_scale.main()
    [file] = tmp_path.iterdir()
    found = {line["part"]: (line["jobs"], line["made"]) for line in csv.DictReader(file.open())}
    assert found["plan, seeds"] == ("50", "5 packs") and found["plan, steps"] == ("10", "10 packs")
    assert found["list, seeds"] == ("50", "50 finished") and found["table, seeds"] == ("50", "50 rows")
    assert found["report, rates"] == ("10", "table.md, report.json")
    assert "too few jobs to say what breaks first" in capsys.readouterr().out


@requires_gpu
def test_a_replayed_graph_holds_memory_that_is_not_allocated() -> None:
    gpu = torch.device("cuda")
    x, before = torch.ones(2**20, device=gpu), graph_memory(gpu)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (x + 1).sum()
    assert graph_memory(gpu) - before >= x.nbytes
    assert peak_of(graph.replay, gpu) == 0
