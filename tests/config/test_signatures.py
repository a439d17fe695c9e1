"""Arguments and declarations of classes, read from the imported class."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from support.small_runs import config_of

from attnlab.config.job_config import check_config
from attnlab.config.targets import TargetError, read_signature

MODULE = """
from typing import Annotated, Literal, Optional
from attnlab.attention.base import Attention, Initialization

Size = Annotated[int, "[1, inf)"]
FLAG = True


class Middle(Attention):
    supports_cross: bool = FLAG

    def __init__(
        self, d_model: int, *, size: Size, kind: Literal["a", "b"] | None = None, other: "list[float]" = (),
        odd: dict[str, float] = {}, start: Initialization = "torch", width: Optional[int] = None,
    ):
        pass


class Leaf(Middle):
    supports_step = not FLAG
"""
OPTIONS = """
import typing
from typing import TypedDict, Unpack
from attnlab.attention.core.linear_core import FeatureMapOptions
from attnlab.attention.linear import LinearAttention


class Options(FeatureMapOptions, total=False):
    gain: float


class Plain(LinearAttention):
    def __init__(self, d_model, n_heads, **options: Unpack[Options]): ...


class Written(LinearAttention):
    def __init__(self, d_model, n_heads, **options: "typing.Unpack[Options]"): ...


class Untyped(LinearAttention):
    def __init__(self, d_model, n_heads, **options): ...
"""
TASK = """
from dataclasses import dataclass, field
from typing import Optional
from attnlab.tasks.scan.task import Scan


@dataclass
class Drawn(Scan):
    size: int = 5
    limit: Optional[int] = None
    parts: list[int] = field(default_factory=lambda: [1, 2])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An allowed package; returns its name."""
    (tmp_path / "standin").mkdir()
    for name, text in {"mechanism": MODULE, "options": OPTIONS, "drawn": TASK}.items():
        (tmp_path / "standin" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "standin")
    for name in [name for name in sys.modules if name.partition(".")[0] == "standin"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return "standin"


def test_signatures_are_read_through_base_classes(package: str) -> None:
    signature = read_signature(f"{package}.mechanism.Leaf")
    assert list(signature.arguments) == ["d_model", "size", "kind", "other", "odd", "start", "width"]
    kinds = {name: argument.annotation for name, argument in signature.arguments.items()}
    assert kinds["size"] == Annotated[int, "[1, inf)"]
    assert kinds["kind"] == Literal["a", "b"] | None
    assert (kinds["other"], kinds["odd"]) == (list[float], dict[str, float])
    assert (kinds["start"], kinds["width"]) == (Literal["xavier", "torch"], int | None)
    assert [name for name, argument in signature.arguments.items() if argument.required] == ["d_model", "size"]
    assert signature.can("supports_causal") and not signature.can("supports_step")


def test_a_declaration_may_be_computed(package: str) -> None:
    """`supports_cross = FLAG` was once read as *cannot*."""
    assert read_signature(f"{package}.mechanism.Leaf").can("supports_cross")


def test_the_fields_of_a_dataclass_are_options(package: str) -> None:
    arguments = read_signature(f"{package}.drawn.Drawn").arguments
    assert [argument.default for argument in arguments.values()] == [5, None, [1, 2]]
    assert list(arguments) == ["size", "limit", "parts"]
    assert arguments["parts"].annotation == list[int]


@pytest.mark.parametrize(("value", "fits"), [(3, True), (None, True), ("wide", False), (0.5, False)])
def test_an_optional_argument_is_checked(package: str, value: Any, fits: bool, tmp_path: Path) -> None:
    """`Optional[int]` was once unchecked."""
    raw = config_of(tmp_path, "model=linear")
    raw["model"]["cross"] = {"_target_": f"{package}.mechanism.Middle", "size": 1, "width": value}
    problem = f"model.cross.width={value}: expected a whole number or null"
    assert (problem in check_config(raw)) != fits


def test_options_that_are_handed_on_are_arguments(package: str) -> None:
    """The keys of `Unpack[TypedDict]`, with the defaults of the base class; others than a TypedDict's are unknown."""
    collected = {name: read_signature(f"{package}.options.{name}") for name in ("Plain", "Written", "Untyped")}
    options = {
        "bias",
        "initialization",
        "orthogonality",
        "positions",
        "normalization",
        "chunk_size",
        "gain",
        "inner_width",
    }
    for name in ("Plain", "Written"):
        assert collected[name].arguments.keys() == {"d_model", "n_heads", *options}
    assert (
        collected["Plain"].arguments["chunk_size"].default == 64
        and collected["Plain"].arguments["bias"].default is True
    )
    assert (
        collected["Plain"].arguments["gain"].annotation is float and not collected["Plain"].arguments["gain"].required
    )
    assert list(collected["Untyped"].arguments) == ["d_model", "n_heads"]


def test_targets_that_are_not_there(package: str) -> None:
    for path, message in {
        f"{package}.mechanism.Leef": "nearest: Leaf",
        f"{package}.mechanisms.Leaf": f"nearest: {package}.mechanism",
        "nowhere.at_all.Thing": "no module nowhere.at_all",
        "Thing": "names no module; expected <package>.<module>.<class>",
        "attnlab.nn.network_parts.Normalization": r"imports Normalization .* defines it: attnlab\.config\.schema\.Norm",
    }.items():
        with pytest.raises(TargetError, match=message):
            read_signature(path)
