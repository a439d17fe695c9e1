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
        "attnlab.nn.build_network.Normalization": r"imports Normalization .* defines it: attnlab\.config\.schema\.Norm",
    }.items():
        with pytest.raises(TargetError, match=message):
            read_signature(path)
