"""Targets of speed and memory, and whether the csv files of the other benchmarks meet them.

Reads benchmarks/results, or the folder that BENCHMARK_RESULTS names. A row stays open until it is measured on the
machine it is about. The newest result counts.

    python -m benchmarks.targets
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.results import CPU, Found, Results
from benchmarks.harness.step_targets import against_commit, paired_ortho, published_step
from benchmarks.harness.tables import ENVIRONMENT, RESULTS, cell, show

H200 = "H200"
CLEVR_STEPS = 459_300
GROWING = ("attnlab transnormer", "attnlab flash")
LINEAR = ("linear", "performer", "transnormer_t2")


@dataclass(frozen=True)
class Target:
    """A target: its measure, the required value, and a function that reads it from results (None: not measured)."""

    measure: str
    aim: str
    find: Callable[[Results], Found | None]


def published(task: str, way: str, **wanted: str) -> dict[str, str]:
    """Returns the values of a row of `benchmarks.packed` at published sizes, whose title names no other settings."""
    title = {"processes": "Several processes on one device"}.get(way, "Packed training steps")
    return {"way": way, "compiled": "yes", "title": f"{title}, {task} linear_l2_ortho", **wanted}


def packed(members: int, least: float) -> Callable[[Results], Found | None]:
    """Packed compiled steps against compiled single steps in sequence."""

    def find(results: Results) -> Found | None:
        row = results.last("packed_scan", H200, **published("scan", "packed", members=str(members)))
        if row is None:
            return None
        faster = float(row["times as fast as one after another"])
        return Found(f"{faster:.2f} x", faster >= least, row)

    return find


def compiled(task: str, least: float) -> Callable[[Results], Found | None]:
    """A compiled single step against an eager step."""

    def find(results: Results) -> Found | None:
        row = results.last(f"packed_{task}", H200, **published(task, "single"))
        if row is None or "times as fast as eager" not in row:
            return None
        faster = float(row["times as fast as eager"])
        return Found(f"{faster:.2f} x", faster >= least, row)

    return find


def clevr(results: Results) -> Found | None:
    """Minutes for all steps of five packed seeds."""
    row = results.last("packed_sort_of_clevr", H200, **published("sort_of_clevr", "packed", members="5"))
    if row is None:
        return None
    minutes = float(row["ms a step of all"]) * CLEVR_STEPS / 60_000
    return Found(f"{minutes:.1f} minutes ({cell(row['ms a step of all'])} ms a step of all five)", minutes <= 12, row)


def simple_way(results: Results) -> Found | None:
    """Best packing against best of several processes: compiled steps a second of all members."""
    best = {}
    for way, name in (("packed", "packed_scan"), ("processes", "processes_scan")):
        rows = [results.last(name, H200, **published("scan", way, members=str(n))) for n in (1, 2, 4, 5, 8, 16, 32)]
        best[way] = max(filter(None, rows), key=lambda row: float(row["steps/s of all"]), default=None)
    if None in best.values():
        return None
    ratio = float(best["packed"]["steps/s of all"]) / float(best["processes"]["steps/s of all"])
    text = f"{ratio:.2f} x ({best['packed']['members']} packed, {best['processes']['members']} processes)"
    return Found(text, ratio >= 1.3, best["packed"])


def cpu_step(results: Results) -> Found | None:
    """Training step of SCAN on two cores at published sizes."""
    rows = [
        results.last("train_step_scan", CPU, model=model, batch="256", threads="2", title="Training step, scan")
        for model in ("vanilla", "linear_l2_ortho")
    ]
    if None in rows:
        return None
    times = {row["model"]: float(row["ms a step"]) for row in rows}
    text = ", ".join(f"{model} {ms:.0f} ms" for model, ms in times.items())
    return Found(text, max(times.values()) <= 500, rows[0])


def ortho(name: str, key: str, machine: str, least: int) -> Callable[[Results], Found | None]:
    """Largest share of a step that the orthogonality loss adds, over tasks or lengths.

    Args:
        least: rows that a whole measurement has.
    """

    def find(results: Results) -> Found | None:
        rows = results.newest(name, machine)
        if not rows:
            return None
        worst = max(rows, key=lambda row: float(row["adds %"]))
        text = f"{float(worst['adds %']):+.1f} % at most ({key} {worst[key]}, of {len(rows)})"
        met = float(worst["adds %"]) <= 5
        return Found(text, met if len(rows) >= least or not met else None, worst)

    return find


def decoding(results: Results) -> Found | None:
    """Time of the last tokens against the first tokens, for linear mechanisms."""
    rows = [row for row in results.newest("decode_step") if row["model"] in LINEAR and "ms at 705 to 736" in row]
    if not rows:
        return None
    ratios = {row["model"]: float(row["last / first"]) for row in rows}
    text = ", ".join(f"{model} {ratio:.2f}" for model, ratio in ratios.items())
    return Found(f"last / first: {text}", all(0.8 <= ratio <= 1.2 for ratio in ratios.values()), rows[0])


def growth(results: Results) -> Found | None:
    """Largest factor of time and memory from a length to its double, for TransNormer and FLASH in both modes."""
    largest, newest = {}, []
    for mode in ("bidirectional", "causal"):
        for row in results.newest(f"attention_{mode}_growth", CPU):
            if row["form"].startswith(GROWING) and row.get("longest N") == "16384":
                newest.append(row)
                form = f"{mode} {row['form'].removeprefix('attnlab ')}"
                largest |= {(form, part): float(row[f"{part}, largest 2N / N"]) for part in ("time", "memory")}
    if not largest:
        return None
    form, part = worst = max(largest, key=lambda key: largest[key])
    found = f"{largest[worst]:.2f} at most ({part} of {form}, of {len(newest)} forms)"
    met = largest[worst] <= 2.3
    # four attentions of TransNormer and FLASH, each in two modes
    return Found(found, met if len(newest) >= 10 or not met else None, newest[0])


def published_performer(results: Results) -> Found | None:
    """Smallest ratio of our bidirectional Performer to performer-pytorch's, forward and with gradients."""
    rows = results.newest("attention_bidirectional_pairs", CPU)
    rows = [r for r in rows if (r["ours"], r["yardstick"]) == ("attnlab performer", "performer, performer-pytorch")]
    ratios = [float(x) for row in rows for key, x in row.items() if key.startswith("N=") and x not in ("", "-")]
    return Found(f"{min(ratios):.2f} x at least", min(ratios) >= 1, rows[0]) if ratios else None


def at_most(name: str, column: str, limit: float, **wanted: str) -> Callable[[Results], Found | None]:
    """Seconds of one row."""

    def find(results: Results) -> Found | None:
        row = results.last(name, CPU, **wanted)
        return row and Found(f"{float(row[column]):.2f} s", float(row[column]) <= limit, row)

    return find


def sweep(results: Results) -> Found | None:
    """A sweep of quickstart runs in processes against one run after the other."""
    row = results.last("sweep", CPU, jobs="12 at once", cores="2", words="")
    if row is None:
        return None
    faster = float(row["times as fast"])
    return Found(f"{faster:.2f} x", faster >= 1.7, row)


HELP, WRONG = "python train.py --help", "python train.py model=linar (config error)"
TARGETS = (
    Target("SCAN, published width, H200: 5 packed seeds against 5 compiled runs in a row", "3.3 x", packed(5, 3.3)),
    Target("the same, 16 members", "6 x", packed(16, 6.0)),
    Target("SCAN, H200: packing against several processes, best of each", "1.3 x", simple_way),
    Target("compiled against eager single step, SCAN, H200", "2 x", compiled("scan", 2.0)),
    Target("compiled against eager single step, sort-of-CLEVR, H200", "2 x", compiled("sort_of_clevr", 2.0)),
    Target("sort-of-CLEVR, 5 packed seeds, H200, 459,300 steps", "at most 12 minutes", clevr),
    Target("SCAN step, batch 256, two CPU cores", "at most 500 ms", cpu_step),
    Target(
        "SCAN step against the published step, same batches, two cores", "1.3 x", published_step("as published", 1.3)
    ),
    Target("the same with train.bucket_window=32", "2.5 x", published_step("train.bucket_window=32", 2.5)),
    Target("linear_l2_ortho against linear_l2, steps in turn, CPU", "at most +5 % (interval)", paired_ortho),
    Target(
        "sort-of-CLEVR, width 64, one thread, against commit 484d96368f",
        "2 x",
        against_commit("sort_of_clevr", "484d96368f", 2.0),
    ),
    Target("orthogonality loss in a step, every task, CPU", "at most +5 %", ortho("ortho_tasks", "task", CPU, 12)),
    Target("orthogonality loss, lengths to 16,384, CPU", "at most +5 %", ortho("ortho_lengths", "N", CPU, 9)),
    Target("orthogonality loss in a step, every task, H200", "at most +5 %", ortho("ortho_tasks", "task", H200, 12)),
    Target("orthogonality loss, lengths to 16,384, H200", "at most +5 %", ortho("ortho_lengths", "N", H200, 9)),
    Target("decoding 736 tokens of PCFG SET, linear mechanisms", "within 20 %", decoding),
    Target("from N to 2N, up to 16,384, TransNormer and FLASH, time and memory, CPU", "at most 2.3", growth),
    Target("bidirectional Performer against performer-pytorch, CPU", "1 x", published_performer),
    Target("python train.py --help", "at most 1.5 s", at_most("startup", "seconds", 1.5, started=HELP)),
    Target("a config error", "at most 1.5 s", at_most("startup", "seconds", 1.5, started=WRONG)),
    Target("a run of one step on SCAN", "at most 12 s", at_most("startup_runs", "one run s", 12, task="scan")),
    Target("12 quickstart runs in a sweep, two CPU cores, against one after the other", "1.7 x", sweep),
    Target(
        "one more job of a sweep, flip-flop (overhead alone)",
        "at most 1 s",
        at_most("startup_runs", "one more job s", 1, task="flip_flop"),
    ),
)


def summary(folder: Path) -> list[dict[str, object]]:
    """Returns a row per target."""
    rows = []
    for target in TARGETS:
        found = target.find(Results(folder))
        row = {} if found is None else found.row
        machine = row.get("cpu", "") if row.get("device") == CPU else row.get("device", "")
        rows.append(
            {
                "measure": target.measure,
                "at least": target.aim,
                "measured": found.text if found else "-",
                "met": "open" if found is None or found.met is None else "yes" if found.met else "no",
                "where": f"{machine}, {row['threads']} threads, load {row['load_before']}" if found else "",
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.parse_args(arguments)
    rows = summary(RESULTS)
    show("targets", "Targets", rows, dict.fromkeys(ENVIRONMENT, ""))


if __name__ == "__main__":
    main()
