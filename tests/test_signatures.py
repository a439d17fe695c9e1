"""Signatures of classes, read from their source."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest

from attnlab.config.signatures import TargetError, read_signature

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


class Fixed(LinearAttention):
    def __init__(self, d_model, n_heads, **options: Unpack[Options]):
        super().__init__(d_model, n_heads, chunk_size=8, **options)


class Untyped(LinearAttention):
    def __init__(self, d_model, n_heads, **options): ...
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


def test_options_that_are_handed_on_are_arguments(package: str, tmp_path: Path) -> None:
    """The keys of `Unpack[TypedDict]`, with the defaults of the base class; others than a TypedDict's are unknown."""
    (tmp_path / package / "options.py").write_text(OPTIONS)
    found = {name: read_signature(f"{package}.options.{name}") for name in ("Plain", "Written", "Fixed", "Untyped")}
    given = ["bias", "initialization", "orthogonality", "normalization", "chunk_size", "gain"]
    assert list(found["Plain"].arguments) == list(found["Written"].arguments) == ["d_model", "n_heads", *given]
    assert found["Plain"].arguments["chunk_size"].default == 64 and found["Plain"].arguments["bias"].default is True
    assert found["Plain"].arguments["gain"].annotation is float and not found["Plain"].arguments["gain"].required
    assert "chunk_size" not in found["Fixed"].arguments and "bias" in found["Fixed"].arguments
    assert list(found["Untyped"].arguments) == ["d_model", "n_heads"]


def test_targets_that_are_not_there(package: str) -> None:
    for path, message in {
        f"{package}.mechanism.Leef": "nearest: Leaf",
        f"{package}.mechanisms.Leaf": f"nearest: {package}.mechanism",
        "nowhere.at_all.Thing": "no module nowhere.at_all",
        "Thing": "names no module; expected <package>.<module>.<class>",
        "attnlab.nn.build_network.Normalization": r"imports Normalization .* defines it: attnlab\.config\.schema\.Norm",
    }.items():
        with pytest.raises(TargetError, match=message):
            read_signature(path)
