"""PCFG SET's official files: the table of them, and the parser of their lines."""

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from attnlab.data.files.fetch import DataError
from attnlab.data.files.folder_or_archive import bad_line, text_lines
from attnlab.data.files.official_files import FileContent, read_table
from attnlab.data.files.progress import track
from attnlab.tasks.pcfg.interpreter import MAX_INPUT, MAX_OUTPUT, WORDS, exceptions, interpret

OFFICIAL = read_table(__file__)

Readings = Callable[[Sequence[str]], Iterator[list[str]]]
"""a function from an input to its possible outputs"""


def regular(words: Sequence[str]) -> Iterator[list[str]]:
    """The output by the rules."""
    yield interpret(words)


def exceptional(words: Sequence[str]) -> Iterator[list[str]]:
    """The outputs with exceptional pairs of functions replaced; none for an input without such a pair."""
    interpret(words)
    for changed in exceptions(words):
        yield interpret(changed)


def regular_or_exceptional(words: Sequence[str]) -> Iterator[list[str]]:
    """The outputs in training files of the overgeneralisation test: by the rules, or as exceptions."""
    yield from regular(words)
    yield from exceptional(words)


def read_pairs(
    inputs: FileContent, targets: FileContent, readings: Readings, data_name: str
) -> Iterator[tuple[list[int], list[int]]]:
    """The pairs of two line-aligned files as ids of `WORDS`, without framing; every target is checked.

    Raises:
        DataError: the first line with an invalid expression, an unknown word, more words than any official line, or a
            wrong target; or the files are empty or of unequal length.
    """
    columns = [list(text_lines(io.BytesIO(content.data), content.where)) for content in (inputs, targets)]
    if len(columns[0]) != len(columns[1]):
        counts = " and ".join(
            f"{content.where} has {len(lines)} lines" for content, lines in zip((inputs, targets), columns, strict=True)
        )
        raise DataError(f"{counts}: line n of one belongs to line n of the other. One is cut short; replace both.")
    if not columns[0]:
        raise DataError(f"{inputs.where} is empty: no pair can be read from it")
    for (number, line), (_, answer) in track(zip(*columns, strict=True), f"checking {data_name}", len(columns[0])):
        words, symbols = line.split(" "), answer.split(" ")
        where = inputs.where
        try:
            pair_input, right = _encode(words, MAX_INPUT), any(symbols == reading for reading in readings(words))
            where = targets.where
            pair_target = _encode(symbols, MAX_OUTPUT)
            if not right:
                raise ValueError(_wrong(words, symbols, readings))
        except (ValueError, DataError) as error:
            raise bad_line(where, number, str(error)) from None
        yield pair_input, pair_target


def _encode(words: Sequence[str], longest: int) -> list[int]:
    if len(words) > longest:
        raise ValueError(f"{len(words)} words, more than the {longest} of the longest official line")
    return WORDS.encode(words)


def _wrong(words: Sequence[str], symbols: Sequence[str], readings: Readings) -> str:
    expected = list(islice(readings(words), 3))
    if not expected:
        return f"{_cut(words)} holds no pair of functions that have an exception"
    shared = range(min(len(symbols), len(expected[0])))
    first = next((i for i in shared if symbols[i] != expected[0][i]), len(shared)) + 1
    meant = " or ".join(map(_cut, expected))
    return f"{_cut(words)} means {meant}, found {_cut(symbols)} (wrong from symbol {first})"


def _cut(words: Sequence[str]) -> str:
    text = " ".join(words)
    return repr(text if len(text) <= 80 else text[:77] + "...")
