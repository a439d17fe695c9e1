"""Summary of the files that benchmarks.gpu writes: how parts ended, targets, costs of tables, results, as markdown."""

import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.table_cost import costs
from benchmarks.harness.tables import cell, is_number, markdown
from benchmarks.targets import summary

Part = Mapping[str, Any]


STEPS_OF_A_RATE = 100
"""over fewer steps a time is no measure of a run: it may be one compilation"""


def read_parts(folder: Path, names: Sequence[str]) -> list[Part]:
    """Returns the content of `<folder>/<name>.json` of the parts that are there, in this order.

    Raises:
        SystemExit: a file is damaged.
    """
    found = []
    for file in (folder / f"{name}.json" for name in names):
        if not file.exists():
            continue
        try:
            part = json.loads(file.read_text())
            found.append({key: part[key] for key in ("part", "command", "end", "tables")})
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{file} is no result of benchmarks.gpu ({error}); remove it or measure anew") from None
    return found


def summary_text(parts: Sequence[Part], with_costs: bool) -> str:
    """Returns the text of summary.md."""
    tables = [(name, rows) for part in parts for name, rows in part["tables"].items() if rows]
    with tempfile.TemporaryDirectory(prefix="attnlab-tables-") as name:
        folder = Path(name)
        files = [write(folder / file, rows) for file, rows in tables]
        blocks = [
            "\n".join(f"- {part['part']}: {part['end']} (`{part['command']}`)" for part in parts) or "No results yet.",
            f"**Targets**\n\n{table([row for row in summary(folder) if row['met'] != 'open'])}",
        ]
        if with_costs:
            blocks += cost_blocks([row for file, rows in tables if file.startswith("training_") for row in rows])
        return "\n\n".join([*blocks, *map(markdown, files)]) + "\n"


def cost_blocks(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns a table of costs for every device that has training runs at the tasks' own sizes, over enough steps."""
    measured = [
        row
        for row in rows
        if row["title"] == f"Training runs, {row['task']}" and int(row["over steps"]) >= STEPS_OF_A_RATE
    ]
    devices = dict.fromkeys(row["device"] for row in measured)
    return [
        f"**{COST}; {device}**\n\n{table(costs([row for row in measured if row['device'] == device]))}"
        for device in devices
    ]


COST = (
    "Cost of the published tables: runs x steps x seconds a step, as if every model took as long as the one measured, "
    "without the test at the end of a run"
)


def write(file: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Writes rows as a csv again, as tables.show wrote them."""
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as a markdown table."""
    if not rows:
        return "none measured"
    lines = [
        f"| {' | '.join(rows[0])} |",
        f"|{'|'.join('---:' if is_number(value) else '---' for value in rows[0].values())}|",
    ]
    return "\n".join(lines + [f"| {' | '.join(map(cell, row.values()))} |" for row in rows])
