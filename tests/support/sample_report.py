"""A folder as report.py writes it, for tests of its readers: a missing and a failed run."""

import json
from pathlib import Path
from typing import Any

VALUES = {
    ("linear", "unary"): [51.2, 98.7, 52.0],
    ("linear", "ternary"): [44.2, 46.0, 48.1],
    ("linear_l2_ortho", "unary"): [98.9, 99.1, 99.0],
    ("linear_l2_ortho", "ternary"): [70.1, 71.5],
}
PUBLISHED = {("linear", "unary"): 74.3, ("linear_l2_ortho", "unary"): 99.2, ("linear_l2_ortho", "ternary"): 73.0}


def cell(row: str, column: str) -> dict[str, Any]:
    """One cell of the table."""
    values = VALUES[row, column]
    mean = sum(values) / len(values)
    sd = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    known = PUBLISHED.get((row, column))
    seeds = [
        {
            "seed": at,
            "value": value,
            "state": "finished",
            "reason": "",
            "folder": f"sort_of_clevr/{row}/default/seed{at}",
        }
        for at, value in enumerate(values)
    ]
    for at in range(len(values), 3):
        seeds.append({"seed": at, "value": None, "state": "failed", "reason": "NonFiniteLoss: step 12", "folder": ""})
    best, worst = (function(enumerate(values), key=lambda pair: pair[1]) for function in (max, min))
    return {
        "column": column,
        "mean": mean,
        "sd": sd,
        "n": len(values),
        "best": list(best),
        "worst": list(worst),
        "chosen": None,
        "published": None if known is None else {"value": known, "spread": None, "text": None},
        "difference": None if known is None else mean - known,
        "difference_in_sd": None if known is None else (mean - known) / sd,
        "seeds": seeds,
    }


def empty(column: str) -> dict[str, Any]:
    """A cell without a run; the published value is text."""
    seeds = [{"seed": at, "value": None, "state": "missing", "reason": "", "folder": ""} for at in range(3)]
    fact = {"value": None, "spread": None, "text": "below 46.9"}
    nothing = dict.fromkeys(("mean", "sd", "best", "worst", "difference", "difference_in_sd"))
    return {"column": column, "n": 0, "published": fact, "seeds": seeds} | nothing


def sample_report(**changes: Any) -> dict[str, Any]:
    """What report.json says."""
    columns = ("unary", "ternary")
    rows = [{"name": row, "cells": [cell(row, name) for name in columns]} for row in ("linear", "linear_l2_ortho")]
    rows.append({"name": "vanilla", "cells": [empty(name) for name in columns]})
    return {
        "experiment": "park2024/table2_sort_of_clevr_small",
        "title": "Sort-of-CLEVR <by kind of question> & norms",
        "protocol": "width 64, 4 heads, 4 layers, 3,000 steps, three seeds",
        "train_command": "python train.py experiment=park2024/table2_sort_of_clevr_small",
        "report_command": "python report.py experiment=park2024/table2_sort_of_clevr_small",
        "made": "2026-11-21T20:00:00+0000",
        "published": {"paper": "Park & Kim 2024", "table": "park2024/table2", "source": "table 2", "trials": 5},
        "columns": [{"name": n, "metric": f"test/{n}/accuracy", "unit": "percent"} for n in columns],
        "rows": rows,
        "comparisons": [
            {"column": "unary", "row": "linear_l2_ortho", "against": "linear", "difference": 31.7, "low": -0.2,
             "high": 47.8, "method": "paired bootstrap, 3 seeds, 95 %"},
            {"column": "ternary", "row": "linear_l2_ortho", "against": "linear", "difference": 25.7, "low": 24.1,
             "high": 27.3, "method": "paired bootstrap, 2 seeds, 95 %"},
        ],
        "problems": ["vanilla: missing, seeds 0, 1, 2", "linear_l2_ortho: failed, seed 2 (NonFiniteLoss: step 12)"],
        "notes": ["tested weights: best_validation"],
        "origin": {
            "commits": ["0123456789"],
            "hardware": ["AMD EPYC, 1 threads"],
            "versions": {"attnlab": "0.1.0", "torch": "2.13.0"},
            "seconds": 1234.5,
            "runs": 5,
        },
        "figures": [{"file": "bars.png", "caption": "Accuracy by kind of question; dots are seeds."}],
    } | changes  # fmt: skip


def draw(path: Path, caption: str = "") -> Path:
    """A small picture."""
    from attnlab.plots.style import panels, save

    figure, axes = panels(2, 2, 2.4)
    for panel, (row, values) in zip(axes, list(VALUES.items())[::2], strict=True):
        panel.bar(range(len(values)), values, color="0.55")
        panel.set(title=row[0], xlabel="seed", ylabel="accuracy (%)")
    return save(figure, path, caption)


def write_report(folder: Path, **changes: Any) -> Path:
    """A report's folder with its picture and csv files."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "bars.png")
    (folder / "bars.csv").write_text("row,value\nlinear,67.3\n")
    (folder / "table.csv").write_text("row,column,mean\nlinear,unary,67.3\n")
    (folder / "seeds.csv").write_text("row,column,seed,value\nlinear,unary,0,51.2\n")
    (folder / "report.json").write_text(json.dumps(sample_report(**changes)))
    return folder
