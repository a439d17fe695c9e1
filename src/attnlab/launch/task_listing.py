"""Output of `python -m attnlab.tasks`: all tasks, or one task with its prepared data."""

import inspect
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from attnlab.config.message_text import listed, show
from attnlab.config.targets import read_signature
from attnlab.data.examples import Examples
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.sample_sheet import sample_grid
from attnlab.learn.metric_units import headlines, shortcut_lines
from attnlab.learn.metrics import shortcut_scores
from attnlab.tasks.base import Prepared, Task, make_task

WIDEST = 120
SHEET = 36
"""pictures on a sheet"""
LONGEST_EXAMPLE = 1000
"""characters of an example that are shown"""

Config = Mapping[str, Any]


def show_all(configs: Sequence[Config]) -> None:
    """Print every task, without preparing or downloading data."""
    console = _console()
    ready: list[str] = []
    lacking: list[str] = []
    for config in configs:
        task, folders = make_task(config["task"]), _folders(config)
        console.print(*_head(config, task), _facts(_description(config, task, folders)), "", sep="\n")
        complete = all(source.find(folders) for source in task.sources())
        (ready if complete else lacking).append(config["task"]["name"])
    state = _facts([("ready", listed(ready)), ("files missing", listed(lacking))])
    console.print("With their default options:", state, sep="\n")
    console.print("\nOne of them, prepared and counted: python -m attnlab.tasks <task>; more: --help", highlight=False)


def show_task(config: Config, pictures: Path | None) -> None:
    """Prepare one task and print its subsets, sizes and examples.

    Args:
        pictures: a PNG file for a sheet of the first pictures of `train`, or None.

    Raises:
        DataError: its data cannot be had, or it has no pictures.
    """
    console, task, folders = _console(), make_task(config["task"]), _folders(config)
    rows = [*_published(task), *_files([("", "", task)], folders)]
    console.print(*_head(config, task), _facts(rows), "", sep="\n")
    start = time.monotonic()
    prepared = task.prepare(folders)
    seconds = time.monotonic() - start
    if pictures is not None:
        _draw(task, prepared, pictures)
    console.print(_subsets(prepared), "", _facts(_outcome(task, prepared, seconds)), "", sep="\n")
    for name, subset in prepared.subsets.items():
        text = task.example(prepared, name, 0) if len(subset) else "(empty)"
        console.print(Text(f"{name}, number 0", style="bold"), Padding(Text(_cut(text)), (0, 0, 1, 2)), sep="\n")


def _draw(task: Task, prepared: Prepared, path: Path) -> None:
    """Write a sheet of pictures with their labels.

    Raises:
        DataError: the task has no pictures.
    """
    numbers = np.arange(min(SHEET, len(prepared.subsets["train"])))
    images = prepared.subsets["train"].pictures(numbers)
    if images is None:
        raise DataError("pictures: this task has none; lra_image, lra_pathfinder and sort_of_clevr have")
    sample_grid(list(images), [task.example(prepared, "train", n).splitlines()[-1] for n in numbers.tolist()], path)
    print(f"{path}: the first {len(numbers)} pictures of train")


def _console() -> Console:
    return Console(highlight=False, width=min(Console().width, WIDEST))


def _folders(config: Config) -> Folders:
    data, cache = (Path(config["paths"][name]) for name in ("data", "cache"))
    return Folders(data, cache)


def _facts(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Two columns: names and their contents."""
    table = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, content in rows:
        table.add_row(f"  {name}", Text(content) if isinstance(content, str) else content)
    return table


def _head(config: Config, task: Task) -> Iterator[RenderableType]:
    """Name and kind of a task, and the first paragraph of the docstring of its module."""
    yield Text.assemble((config["task"]["name"], "bold"), f"  {task.kind} of {task.modality}")
    paragraph = _docstring(task).partition("\n\n")[0]
    yield Padding(Text(" ".join(paragraph.split())), (0, 0, 0, 2))


def _description(config: Config, task: Task, folders: Folders) -> Iterator[tuple[str, RenderableType]]:
    if config["task"]["label"]:
        yield "splits", _splits(config["task"])
    yield from _published(task)
    yield from _files(list(_settings(config["task"])), folders)
    yield "example", _cut(example(_docstring(task)))


def _published(task: Task) -> list[tuple[str, str]]:
    return [("published", task.published)] if task.published else []


def _docstring(task: Task) -> str:
    return inspect.cleandoc(sys.modules[type(task).__module__].__doc__ or "")


def example(docstring: str) -> str:
    """The first indented block of a docstring."""
    lines = dropwhile(lambda line: not line.startswith("    "), docstring.splitlines())
    block = takewhile(lambda line: not line or line.startswith("    "), lines)
    return textwrap.dedent("\n".join(block)).strip("\n")


def _cut(text: str) -> str:
    left = len(text) - LONGEST_EXAMPLE
    return text if left <= 0 else f"{text[:LONGEST_EXAMPLE]} ... ({left:,} characters more)"


def choices(options: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Options that name a split, each with all its values, the configured one first; only that one for an open set."""
    arguments = read_signature(options["_target_"]).arguments
    values = {}
    for name in options["label"]:
        annotation = arguments[name].annotation if name in arguments else None
        others = get_args(annotation) if get_origin(annotation) is Literal else ()
        values[name] = list(dict.fromkeys([options[name], *others]))
    return values


def _splits(options: Mapping[str, Any]) -> str:
    lines = []
    for name, (present, *others) in choices(options).items():
        rest = f", {listed(map(show, others))}" if others else ""
        lines.append(f"task.{name}: {show(present)} (default){rest}")
    return "\n".join(lines)


def _settings(options: Mapping[str, Any]) -> Iterator[tuple[str, str, Task]]:
    """The task with every value of each option that names a split, as (option, value, task); else as configured."""
    values_of = choices(options)
    for name, values in values_of.items():
        for value in values:
            yield name, show(value), make_task({**options, name: value})
    if not values_of:
        yield "", "", make_task(options)


def _files(settings: Iterable[tuple[str, str, Task]], folders: Folders) -> Iterator[tuple[str, RenderableType]]:
    """A row for each set of official files, with the options that read it if they differ."""
    groups: dict[tuple, tuple[dict[str, list[str]], list[Sequence[DataSource]]]] = {}
    for option, value, task in settings:
        sources = task.sources()
        key = tuple((source.paths, source.archive, source.offers) for source in sources)
        values, source_lists = groups.setdefault(key, (defaultdict(list), []))
        values[option].append(value)
        source_lists.append(sources)
    for number, (values, source_lists) in enumerate(groups.values()):
        # split=simple, length; language=en:
        readers = "; ".join(f"{option}={listed(names)}" for option, names in values.items())
        parts: list[RenderableType] = [Text(f"{readers}:")] if len(groups) > 1 else []
        for same in zip(*source_lists, strict=True):
            prefix = f"{same[0].title}: " if len({source.title for source in same}) == 1 else ""
            parts.append(_state(same[0], folders, prefix))
        parts += [] if source_lists[0] else [Text("none needed: generated", style="green")]
        yield "" if number else "files", Group(*parts)


def _state(source: DataSource, folders: Folders, prefix: str) -> RenderableType:
    """Where files were found; for missing files, where to get them and where to put them."""
    if tree := source.find(folders):
        return Text.assemble(prefix, ("found", "green"), f" at {tree.path}")
    how = "; downloaded when needed" if source.archive is not None else ""
    ways = _facts(row for offer, path in source.ways(folders) for row in (("get", offer), ("put", str(path))))
    return Group(Text.assemble(prefix, ("missing", "red"), how), ways)


def _subsets(prepared: Prepared) -> Table:
    """Table of subsets and groups: examples, their lengths, and how many of them are in the training set."""
    heads = [Column(title, justify="right") for title in ("examples", "length", "also in train")]
    table = Table(
        Column("  subset", overflow="fold"), *heads, box=None, padding=(0, 4, 0, 0), pad_edge=False, header_style="dim"
    )
    trained = set(prepared.subsets["train"].identities())
    for name, subset in prepared.subsets.items():
        seen = sum(identity in trained for identity in subset.identities()) if name != "train" else None
        table.add_row(f"  {name}", f"{len(subset):,}", _range(subset), "" if seen is None else f"{seen:,}")
        for group, numbers in subset.groups.items():
            table.add_row(f"    {group}", f"{len(numbers):,}", "", "")
    return table


def _range(subset: Examples) -> str:
    if subset.lengths is None or not len(subset):
        return ""
    low, high = int(np.min(subset.lengths)), int(np.max(subset.lengths))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _outcome(task: Task, prepared: Prepared, seconds: float) -> Iterator[tuple[str, RenderableType]]:
    if prepared.about:
        yield "about", prepared.about
    yield "data", f"version {task.version}, hash {prepared.data_hash()}"
    scores = shortcut_scores(task, prepared)
    if lines := shortcut_lines(scores, headlines(scores)):
        yield "shortcuts", "\n".join(lines)
    kept = list(kept_folders(prepared))
    size = sum(file.stat().st_size for folder in kept for file in folder.rglob("*") if file.is_file())
    room = [f"{size / 1e6:.1f} MB in the cache", *map(str, kept)] if kept else []
    yield "prepared", "; ".join([f"in {seconds:.1f} s", *room])


def kept_folders(prepared: Prepared) -> Iterator[Path]:
    """Cache folders of memory-mapped arrays and of files that runs keep."""
    folders = {file.parent: None for file in prepared.keep.values()}
    for subset in prepared.subsets.values():
        for array in subset.arrays():
            while array is not None:
                if isinstance(array, np.memmap) and array.filename:
                    folders[Path(array.filename).parent] = None
                array = getattr(array, "base", None)
    yield from folders
