"""Draw a SCAN run, loss and accuracy by output length: `python experiments/draw_run.py <run folder> <png>`."""

import csv
import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(run: Path, picture: Path) -> None:
    """Two panels from metrics.csv and result.json, legible in grey."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(2, 3), layout="constrained")
    with (run / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "train/loss"]
    left.plot([int(row["step"]) for row in rows], [float(row["value"]) for row in rows], color="black")
    left.set(xlabel="optimiser step", ylabel="training loss (nats per token)", yscale="log")
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    styles = {
        ("iid", "sequence_accuracy"): {"color": "0.15", "marker": "o", "label": "IID"},
        ("ood", "sequence_accuracy"): {"color": "0.15", "marker": "s", "mfc": "white", "label": "OOD"},
        ("ood", "sequence_accuracy_oracle_end"): {
            "color": "0.6",
            "marker": "^",
            "label": "OOD, end given by an oracle",
        },
    }
    for (subset, name), style in styles.items():
        pattern = re.compile(rf"test/{subset}/length_(\d+)/{name}")
        points = sorted((int(m[1]), 100 * value) for key, value in metrics.items() if (m := pattern.fullmatch(key)))
        right.plot(*zip(*points, strict=True), linestyle="-", linewidth=1, markersize=4, **style)
    right.set(xlabel="actions in the right output", ylabel="sequence accuracy (%)", ylim=(-4, 104))
    right.legend(frameon=False, loc="center left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
