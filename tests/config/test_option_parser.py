"""Options of commands: words `key=value` become a dataclass; every problem is named, with the nearest right word."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attnlab.config.command_line.option_parser import CommandOptions, options_help, read_options, unknown_options
from attnlab.config.validation.ranges import Count


@dataclass(frozen=True, kw_only=True)
class Options(CommandOptions):
    """Options of an example."""

    run: Path = field(metadata={"missing": "<run folder>"})
    """the run folder"""
    kinds: list[Literal["norms", "values"]] = field(default_factory=list)
    """some of norms,values"""
    rows: list[str] = field(default_factory=list)
    """keys"""
    examples: Count = 64
    """how many
    are read"""
    weights: Literal["last", "best"] | None = None
    """last, best"""
    data: Path | None = field(default=None, metadata={"key": "paths.data", "value": "<folder>"})
    """folder of the data"""

    def problems(self) -> Iterator[str]:
        """Two options that do not go together."""
        if self.weights == "best" and self.rows:
            yield "weights=best: not with rows="


def test_values_have_the_types_of_their_fields() -> None:
    words = ["run=a=b,c", "kinds=norms,values", "rows=a,b", "examples=3", "weights=last", "paths.data=x"]
    line = read_options(Options, ["task.split=simple", *words])
    assert line.problems == [] and line.others == ["task.split=simple"] and line.words == words
    assert line.options == Options(
        run=Path("a=b,c"), kinds=["norms", "values"], rows=["a", "b"], examples=3, weights="last", data=Path("x")
    )
    assert read_options(Options, ["run=a"]).options == Options(run=Path("a"))


def test_every_problem_is_named() -> None:
    words = ["kinds=norm,values", "examples=0", "weights=bset", "rows", "paths.data="]
    line = read_options(Options, words)
    assert line.options is None and line.problems == [
        "kinds=norm: expected one of norms, values; nearest: norms",
        "examples=0: expected a whole number >= 1",
        "weights=bset: expected one of last, best; nearest: best",
        "rows: expected rows=value",
        "paths.data=: empty; expected paths.data=<folder>",
        "run: missing; give run=<run folder>",
    ]
    assert read_options(Options, ["run=a", "run=b"]).problems == ["run: given twice"]
    twice = read_options(Options, ["run=a", "kinds=norms,norms", "rows=a,b,a"]).problems
    assert twice == ["kinds=norms,norms: norms comes twice", "rows=a,b,a: a comes twice"]
    (problem,) = read_options(Options, ["run=a", "examples=99999999999"]).problems
    assert "taken for a slip" in problem
    assert read_options(Options, ["run=a", "weights=best", "rows=a"]).problems == ["weights=best: not with rows="]


def test_a_word_without_its_key_stands_for_a_missing_option() -> None:
    line = read_options(Options, ["folder"], {"folder": "run=folder"})
    assert line.problems == ["folder: write run=folder"] and line.others == []


def test_unknown_words_get_the_nearest_key() -> None:
    (problem,) = unknown_options(Options, ["exampels=3"], ("task.",))
    expected = "run, kinds, rows, examples, weights, paths.data, task."
    assert problem == f"exampels: unknown key; nearest: examples; allowed: {expected}"


def test_help_shows_the_docstrings_of_fields() -> None:
    lines = options_help(Options, 25).splitlines()
    assert lines[0] == "  run=...                the run folder" and lines[3].endswith("how many are read")
    assert lines[-1] == "  paths.data=<folder>    folder of the data"
