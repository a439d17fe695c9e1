"""Hours of the published tables' presets, from measured training runs: runs x steps x seconds a step."""

from collections.abc import Mapping, Sequence
from functools import cache

from attnlab.config.compose import group_choices
from attnlab.config.job_config import compose_config, job_config
from attnlab.config.schema import Backbone, Config
from attnlab.config.sweep import check_command

Row = Mapping[str, str]


def published_tables() -> list[str]:
    """Returns the presets of Park & Kim's tables at the paper's sizes."""
    names = group_choices()["experiment"]
    return [name for name in names if name.startswith("park2024/table") and not name.endswith("_small")]


@cache
def size_of(task: str) -> tuple[Backbone, int]:
    """Returns the sizes that a task's own settings have, which training runs are measured at: backbone and batch."""
    return _size(job_config(compose_config([f"task={task}"])).typed)


def _size(config: Config) -> tuple[Backbone, int]:
    return config.backbone, config.train.batch_size


def seconds_a_step(rows: Sequence[Row], task: str, way: str) -> float | None:
    """Returns the shortest measured time of a step of one run of a task; a pack's time is divided among its members."""
    found = [
        float(row["ms a step of all"]) / 1000 / int(row["members"])
        for row in rows
        if (row["task"], row["way"]) == (task, way)
    ]
    return min(found, default=None)


def cost(name: str, rows: Sequence[Row]) -> dict[str, object]:
    """Returns the row of a preset.

    Hours are those of the whole table as if every model took as long a step as the measured one; `-` unless all of its
    runs have a task and sizes that were measured.
    """
    configs = [job.typed for job in check_command([f"experiment={name}"]).jobs]
    hours: dict[str, float | None] = {"single": 0.0, "packed": 0.0}
    measured = 0
    for config in configs:
        task = config.task["name"]
        fits = _size(config) == size_of(task)
        times = {way: seconds_a_step(rows, task, way) if fits else None for way in hours}
        measured += any(times.values())
        for way, seconds in times.items():
            known = hours[way] is not None and seconds is not None
            hours[way] = hours[way] + seconds * config.train.max_steps / 3600 if known else None
    return {
        "table": name,
        "runs": len(configs),
        "million steps": sum(config.train.max_steps for config in configs) / 1e6,
        "runs at measured sizes": measured,
        "hours, one after another": "-" if hours["single"] is None else hours["single"],
        "hours, packed": "-" if hours["packed"] is None else hours["packed"],
    }


def costs(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Returns a row for each published table.

    Args:
        rows: of `benchmarks.training_run` on one machine at the tasks' own sizes, as tables.read gives them.
    """
    return [cost(name, rows) for name in published_tables()]
