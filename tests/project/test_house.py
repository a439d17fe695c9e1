"""House rules: import directions, sizes of files and functions, names, targets, modules that stay unloaded."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.composed_configs import composed
from support.small_runs import ROOT, environment

import attnlab
from attnlab.config import schema
from attnlab.config.conf_files import group_choices

SOURCE = ROOT / "src" / "attnlab"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}
"""every file by its module: `data.batch`"""
MAX_LINES, MAX_FUNCTION = 400, 45

# Rooms and what each of them imports; what a room may use, the rooms above it may use as well:
# launch, report -> run -> analysis -> learn -> tasks -> nn -> attention, data -> kernels, config.
ROOMS = {
    "config": (),
    "plots": (),
    "run_script": (),
    "data": ("config",),
    "kernels": (),
    "attention": ("kernels", "config"),
    "nn": ("attention", "data"),
    "tasks": ("nn", "run_script"),
    "learn": ("tasks",),
    "analysis": ("learn", "plots"),
    "run": ("analysis",),
    "report": ("run",),
    "launch": ("run",),
}
LARGEST_ROOM = 0.2
"""of the package's lines"""


def imports(file: Path) -> Iterator[str]:
    """Modules of this package that a file imports, at the top or inside functions: `data.batch`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnlab"):
            inside = node.module.removeprefix("attnlab").strip(".")
            names = [f"{inside}.{alias.name}".strip(".") for alias in node.names]
            yield from [name for name in names if name in MODULES] or [inside]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".", 1)[1] for a in node.names if a.name.startswith("attnlab."))


def below(room: str) -> set[str]:
    """Returns a room and all rooms that it may import."""
    return {room}.union(*map(below, ROOMS[room]))


def wrong_imports(file: Path) -> Iterator[str]:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    for module in set(imports(file)) if parts != ("__init__",) else ():
        there = module.split(".")
        if there[0] not in below(parts[0]):
            yield f"{parts[0]} may not import {module}"
        if there[0] == parts[0] == "attention" and there[1] not in {"base", "core", "positions"}:
            yield f"imports {module}; attention files share only base, core and positions"


def test_the_picture_of_the_architecture_has_these_rooms_and_arrows() -> None:
    """docs/images/architecture.svg, without `run_script`, which only starts the commands."""
    picture = (ROOT / "docs" / "images" / "architecture.svg").read_text()
    shown = {room: imported for room, imported in ROOMS.items() if room != "run_script"}
    assert set(re.findall(r'class="room"[^>]*>(\w+)<', picture)) == set(shown)
    arrows = {(room, other) for room, imported in shown.items() for other in imported if other in shown}
    assert set(re.findall(r'data-from="(\w+)" data-to="(\w+)"', picture)) == arrows
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def wrong_sizes(file: Path) -> Iterator[str]:
    text = file.read_text()
    if len(text.splitlines()) > MAX_LINES:
        yield f"{len(text.splitlines())} lines: which part belongs in another file?"
    if not re.fullmatch(r"[a-z0-9_]+", file.stem):
        yield "file names are lower snake case"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.end_lineno - node.body[0].lineno + 1
            if body > MAX_FUNCTION:
                yield f"{node.name} has {body} lines"


@pytest.mark.parametrize("wrong", [wrong_imports, wrong_sizes])
def test_every_file_keeps_the_rules(wrong: Callable[[Path], Iterator[str]]) -> None:
    """Which way imports point; sizes of files and functions; names. Every breach is listed."""
    collected = [f"{file.relative_to(SOURCE)}: {problem}" for file in FILES for problem in wrong(file)]
    assert len(FILES) > 100 and not collected, "\n".join(collected)


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in turn, at the top or inside functions; empty without a circle."""
    done: set[str] = set()
    way: list[str] = []

    def follow(module: str) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        way.append(module)
        result = next(filter(None, (follow(other) for other in sorted(graph[module] - done))), [])
        way.pop()
        done.add(module)
        return result

    return next(filter(None, map(follow, sorted(graph))), [])


@cache
def import_graph() -> dict[str, set[str]]:
    return {module: set(imports(file)) & MODULES.keys() for module, file in MODULES.items()}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = import_graph()
    assert sum(map(len, graph.values())) > 300
    assert not (result := circle(graph)), " -> ".join(result)
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


@pytest.mark.parametrize("room", sorted(ROOMS.keys() - {"run_script"}))
def test_rooms_have_few_floors(room: str) -> None:
    """At most 7 floors: modules that import each other in a row, counted inside the room."""
    inside = {
        module: graph & MODULES.keys() for module, graph in import_graph().items() if module.startswith(f"{room}.")
    }

    @cache
    def floor(module: str) -> int:
        return 1 + max((floor(other) for other in inside[module] if other in inside), default=0)

    assert max(map(floor, inside)) <= 7


def test_folders_have_few_files() -> None:
    folders = Counter(file.parent for file in FILES if file.name != "__init__.py")
    assert max(folders.values()) <= 20, folders.most_common(3)


@pytest.mark.parametrize(("room", "most"), [("run", 2700), ("learn", 3100), ("launch", 3000)])
def test_rooms_of_a_run_are_small(room: str, most: int) -> None:
    assert sum(len(file.read_text().splitlines()) for file in FILES if file.is_relative_to(SOURCE / room)) <= most


def test_no_room_is_larger_than_a_fifth() -> None:
    lines = {file: len(file.read_text().splitlines()) for file in FILES}
    for room in ROOMS:
        share = sum(n for file, n in lines.items() if file.is_relative_to(SOURCE / room)) / sum(lines.values())
        assert share <= LARGEST_ROOM, f"{room} holds {share:.1%} of the package"


def test_names_of_yamls_are_their_files() -> None:
    for group in ("task", "model"):
        files = sorted((ROOT / "conf" / group).rglob("[!_]*.yaml"))
        for file in files:
            text = yaml.safe_load(file.read_text())
            name = text["task"]["name"] if group == "task" else text["name"]
            assert name == file.stem and re.fullmatch(r"[a-z0-9_]+", name)
        assert len({file.stem for file in files}) == len(files), "run folders have the name without the folder"


def test_every_task_sets_every_key_it_owns() -> None:
    """So each key can be set without a plus; keys that a network of the kind does not read are optional."""
    optional = {"pooling", "d_classifier"}
    for task in group_choices()["task"]:
        chosen = composed("linear", task)
        for section in (schema.Backbone, schema.Optim, schema.Train, schema.Cost):
            missing = {field.name for field in fields(section)} - set(chosen[section.__name__.lower()]) - optional
            assert not missing, f"{task}: {section.__name__} lacks {sorted(missing)}"


def targets(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "_target_" else targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from targets(value)


def test_every_target_resolves() -> None:
    collected = {t for file in (ROOT / "conf").rglob("*.yaml") for t in targets(yaml.safe_load(file.read_text()))}
    assert len(collected) > 1
    for target in collected - {"???", "${model.mechanism._target_}"}:
        module, _, name = target.rpartition(".")
        assert hasattr(importlib.import_module(module), name), target


@pytest.mark.parametrize(
    "code",
    [
        "import attnlab",
        "from attnlab.launch.train_cli import train_main; assert train_main(['--help']) == 0",
        "from attnlab.launch.train_cli import train_main; assert train_main(['modle=linear', 'seed=x']) == 2",
        "from attnlab.launch.evaluate_cli import evaluate_main; assert evaluate_main(['run=nowhere']) == 2",
        "from attnlab.report.diagnose.cli import diagnose_main; assert diagnose_main(['diagnose=nowhere']) == 2",
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    check = "import sys; heavy = {'torch', 'pytorch_lightning', 'wandb', 'numpy', 'matplotlib'} & set(sys.modules)"
    line = [sys.executable, "-c", f"{code}; {check}; assert not heavy, heavy"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_no_path_of_a_machine_and_no_data_is_committed() -> None:
    machine = re.compile(r"(?<![A-Za-z0-9_.<{-])/(home|root|work|Users)/[a-z]")
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, done.stdout.split("\0")):
        file = ROOT / name
        if file.exists():
            assert file.stat().st_size < 2**20, f"{name} is a large file"
            assert not name.startswith("data/") or name == "data/README.md"
            if file.suffix in {".py", ".md", ".yaml", ".toml", ".txt", ".json", ""}:
                assert not machine.search(file.read_text()), f"{name} names a path of a machine"


def test_the_version_is_one() -> None:
    text = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert text["project"]["version"] == attnlab.__version__
