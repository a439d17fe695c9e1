"""Parts of the configuration check: signatures, types, intervals, layer plans, composition, help."""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from omegaconf import OmegaConf

from attnlab.config.compose import (
    CONF,
    choice_named,
    compose_node,
    group_choices,
    hydra_session,
    merged_yaml,
    unresolved,
)
from attnlab.config.help import help_text
from attnlab.config.job_config import compose_config
from attnlab.config.layer_plan import layer_plan
from attnlab.config.signatures import TargetError, read_signature
from attnlab.config.type_check import Record, accepts, build, conform, describe, record_problem

MODULE = """
raise RuntimeError("imported")
from typing import Annotated, Literal
from attnlab.attention.base import Attention, Initialization
import something_missing

Size = Annotated[int, "[1, inf)"]


class Middle(Attention):
    supports_cross: bool = False

    def __init__(
        self, d_model: int, *, size: Size, kind: Literal["a", "b"] | None = None, other: "list[float]" = (),
        odd: dict[str, Foo] = {}, start: Initialization = "torch",
    ):
        pass


class Leaf(Middle):
    supports_step = False
    weird = open("nowhere")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that must not be imported; returns its name."""
    (tmp_path / "standin").mkdir()
    (tmp_path / "standin" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "standin" / "mechanism.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "standin")
    return "standin"


def test_signatures_are_read_through_base_classes_without_an_import(package: str) -> None:
    signature = read_signature(f"{package}.mechanism.Leaf")
    assert list(signature.arguments) == ["d_model", "size", "kind", "other", "odd", "start"]
    kinds = {name: argument.annotation for name, argument in signature.arguments.items()}
    assert kinds["size"] == Annotated[int, "[1, inf)"]
    assert kinds["kind"] == Literal["a", "b"] | None
    assert (kinds["other"], kinds["odd"], kinds["start"]) == (list[float], dict, Literal["xavier", "torch"])
    assert [name for name, argument in signature.arguments.items() if argument.required] == ["d_model", "size"]
    assert signature.attributes["supports_step"] is False
    assert signature.attributes["supports_cross"] is False
    assert signature.attributes["supports_causal"] is True
    assert package not in sys.modules


def test_targets_that_are_not_there(package: str) -> None:
    for path, message in {
        f"{package}.mechanism.Leef": "nearest: Leaf",
        f"{package}.mechanisms.Leaf": f"nearest: {package}.mechanism",
        "nowhere.at_all.Thing": "no module nowhere.at_all",
        "Thing": "names no module; expected <package>.<module>.<class>",
        "attnlab.attention.linear.Normalization": r"imports Normalization .* defines it: attnlab\.config\.schema\.Norm",
    }.items():
        with pytest.raises(TargetError, match=message):
            read_signature(path)


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (3, int, True),
        (3.0, int, False),
        (True, int, False),
        (3, float, True),
        (True, float, False),
        (float("nan"), float, False),
        ("3", float, False),
        (1, bool, False),
        (None, int | None, True),
        ("epoch", int | Literal["epoch"] | None, True),
        ("x", int | Literal["epoch"] | None, False),
        (True, Literal[1], False),
        (0.0, Annotated[float, "(0, 1]"], False),
        (1.0, Annotated[float, "(0, 1]"], True),
        (1.0, Annotated[float, "[0, 1)"], False),
        (0, Annotated[int, "[0, inf)"], True),
        (-5, Annotated[int, "(-inf, 3]"], True),
        (5, Annotated[int, "[1, 3]"] | None, False),
        (5, Annotated[int, "[1, inf) up to 4"], False),
        (4, Annotated[int, "[1, inf) up to 4"], True),
        (10**15, Annotated[int, "[1, 1e15]"], True),
        (10**400, int, False),
        (float("inf"), float, False),
        ([1, 2], list[int], True),
        (3, list[int], False),
        ({"a": 1}, dict[str, Any], True),
        ("anything", Any, True),
        (object(), Path, True),
        (10**400, Integral, True),
        (float("nan"), Real, True),
        (True, Real, False),
        ([1, 0.5], tuple[int, float], True),
        ([1, 2, 3], tuple[int, float], False),
        ([1, "x"], tuple[int, float] | None, False),
    ],
)
def test_values_fit_their_types(value: Any, kind: Any, fits: bool) -> None:
    assert (not conform(value, kind, "key")) == fits
    assert accepts(value, kind) == fits or isinstance(value, list)


@dataclass(frozen=True)
class Line(Record):
    name: str
    ends: tuple[int, Real] | None = None


@dataclass(frozen=True)
class Content(Record):
    lines: list[Line]
    first: Line | None = None


def test_records_of_files_are_checked_and_built() -> None:
    """The first misfit is named, unknown keys are left out, missing keys get their defaults."""
    known = {"lines": [{"name": "a", "ends": [1, 2.5], "colour": "red"}], "first": None, "version": 2}
    assert record_problem(known, Content) is None
    assert build(Content, known) == Content(lines=[Line("a", [1, 2.5])])
    for content, problem in (
        ([], "the file: expected an object"),
        ({"lines": None}, "lines: expected a list"),
        ({"lines": [{"name": "a"}, {}]}, "lines.1.name: missing"),
        ({"lines": [3]}, "lines.0: expected an object"),
        ({"lines": [{"name": 3}]}, "lines.0.name: expected text, found 3"),
        (
            known | {"first": {"name": "b", "ends": [1]}},
            "first.ends: expected [a whole number, a number] or null, found [1]",
        ),
    ):
        assert record_problem(content, Content) == problem


def test_types_are_described_in_words() -> None:
    assert describe(Annotated[int, "[1, 47]"]) == "a whole number >= 1 and <= 47"
    assert describe(Annotated[int, "[1, inf) up to 1e4"]) == "a whole number >= 1", "no limit unless it is exceeded"
    assert describe(int | Literal["epoch"] | None) == "a whole number or epoch or null"
    assert describe(list[float]) == "a list, each a number"
    assert conform([1, "x"], list[int], "a") == ["a.1=x: expected a whole number"]


@pytest.mark.parametrize(
    ("shares", "pattern", "n_layers", "plan"),
    [
        ([1.0], "sequential", 3, [(0,), (0,), (0,)]),
        ([0.5, 0.5], "sequential", 5, [(0,), (0,), (1,), (1,), (1,)]),
        ([0.5, 0.5], "alternating", 5, [(0,), (1,), (0,), (1,), (1,)]),
        ([0.25, 0.75], "alternating", 4, [(0,), (1,), (1,), (1,)]),
        ([0.5, 0.5], "parallel", 2, [(0, 1), (0, 1)]),
        ([0.5, 0.5], "sequential", 1, [(1,)]),
        ([0.25, None], "sequential", 4, [(0,), (1,), (1,), (1,)]),
        ([None, 0.25], "sequential", 4, [(0,), (0,), (0,), (1,)]),
        ([None, 0.7, 0.2], "sequential", 10, [(0,)] + [(1,)] * 7 + [(2,)] * 2),
        ([0.5, 0.5, 0], "sequential", 3, [(0,), (1,), (1,)]),
        ([0, None], "alternating", 2, [(1,), (1,)]),
        ([1, None], "parallel", 2, [(0,), (0,)]),
        ([0.5, 0.5], "sequential_reversed", 5, [(1,), (1,), (1,), (0,), (0,)]),
        ([0.5, 0.5], "alternating_reversed", 5, [(1,), (0,), (1,), (0,), (1,)]),
    ],
)
def test_groups_get_their_layers_by_share_and_pattern(
    shares: list[float | None], pattern: str, n_layers: int, plan: list[tuple[int, ...]]
) -> None:
    assert layer_plan(shares, pattern, n_layers) == plan


def test_layer_counts_survive_floating_point() -> None:
    for pattern in ("sequential", "alternating"):
        assert Counter(layer_plan([0.1, 0.2, 0.7], pattern, 30)) == {(0,): 3, (1,): 6, (2,): 21}
    assert Counter(layer_plan([1 / 3, 1 / 3, 1 / 3], "sequential", 3)) == {(0,): 1, (1,): 1, (2,): 1}
    for pattern in ("random", "parallel_reversed"):
        with pytest.raises(ValueError, match=f"pattern={pattern}"):
            layer_plan([1.0], pattern, 1)


def test_files_for_defaults_lists_are_no_choices_and_models_in_folders_are(tmp_path: Path) -> None:
    for name in ("model/plain.yaml", "model/_part.yaml", "model/paper/mixed.yaml", "model/paper/_part.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert group_choices(tmp_path) == {"model": ["paper/mixed", "plain"]}
    assert choice_named("model", "mixed", tmp_path) == "paper/mixed"
    assert choice_named("model", "plain", tmp_path) == "plain"


@pytest.mark.parametrize("group", ["task", "model"])
def test_yamls_are_merged_as_hydra_merges_them(group: str) -> None:
    for name in group_choices()[group]:
        with hydra_session():
            composed = unresolved(compose_node([f"{group}={name}"])[0])
        merged = unresolved(merged_yaml(group, name))
        assert merged == ({key: composed[key] for key in merged} if group == "task" else composed["model"]), name


def test_a_defaults_list_is_merged_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    texts = {
        "_base": "{a: 0, b: 0, c: 0}",
        "last": "{defaults: [_base, _self_], a: 1}",
        "first": "{defaults: [_base], a: 1}",
    }
    texts["no_such"] = "{defaults: [_base, /model/_part@_here_, _self_, {/model: 3}], a: 1}"
    for name, text in texts.items():
        (tmp_path / "model" / f"{name}.yaml").write_text(text)
    assert (
        merged_yaml("model", "last", tmp_path) == merged_yaml("model", "no_such", tmp_path) == {"a": 1, "b": 0, "c": 0}
    )
    assert merged_yaml("model", "first", tmp_path) == {"a": 0, "b": 0, "c": 0}


def test_a_value_by_case() -> None:
    node = OmegaConf.create({"kind": "glu", "width": "${choose:${kind},{glu:85,relu:64},128}"})
    widths = []
    for node.kind in ("glu", "relu", "gelu", None):
        widths.append(node.width)
    assert widths == [85, 64, 128, 128]


def test_composition_works_inside_a_running_hydra_job() -> None:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with initialize_config_dir(str(CONF), version_base="1.3"):
        running = GlobalHydra.instance().hydra
        assert compose_config(["seed=7"])["seed"] == 7
        assert GlobalHydra.instance().hydra is running
    assert not GlobalHydra.instance().is_initialized()


def test_help_names_every_group_and_fits() -> None:
    text = help_text()
    for group, choices in group_choices().items():
        assert group in text
        assert all(part in text for choice in choices for part in re.sub("_(small|ortho)$", "", choice).split("/"))
    assert "table4_scan[_small]" in text and "linear_l2[_ortho]" in text
    assert "peak learning rate" in text, "meanings come from the schema"
    assert all(len(line) <= 100 for line in text.splitlines())
    assert len(text.splitlines()) < 80
