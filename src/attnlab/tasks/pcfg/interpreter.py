"""PCFG SET's language: its words, and an interpreter of the ten functions of Hupkes et al. 2020.

An input is an expression in prefix notation without brackets: a function before its arguments, a comma between the two
arguments of a binary function, and strings of symbols at the leaves.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, groupby
from string import ascii_uppercase

from attnlab.data.vocabulary import Vocabulary

Symbols = list[str]

UNARY: dict[str, Callable[[Symbols], Symbols]] = {
    "copy": lambda x: x,
    "reverse": lambda x: x[::-1],
    "shift": lambda x: x[1:] + x[:1],
    "swap_first_last": lambda x: x[-1:] + x[1:-1] + x[:1] if len(x) > 1 else x,
    "repeat": lambda x: x + x,
    "echo": lambda x: x + x[-1:],
}
BINARY: dict[str, Callable[[Symbols, Symbols], Symbols]] = {
    "append": lambda x, y: x + y,
    "prepend": lambda x, y: y + x,
    "remove_first": lambda x, y: y,
    "remove_second": lambda x, y: x,
}
FUNCTIONS = (*UNARY, *BINARY)
TWINNED = ("swap_first_last", "repeat", "append", "remove_second")
"""functions that have a synonym in the substitutivity test, `<name>_twin`"""
TWINS = tuple(f"{name}_twin" for name in TWINNED)
UNARY |= {f"{name}_twin": UNARY[name] for name in TWINNED if name in UNARY}
BINARY |= {f"{name}_twin": BINARY[name] for name in TWINNED if name in BINARY}

COMMA = ","
OPERATORS = {*UNARY, *BINARY, COMMA}
SYMBOLS = tuple(f"{letter}{number}" for letter in ascii_uppercase for number in range(1, 21))
WORDS = Vocabulary((*FUNCTIONS, *TWINS, COMMA, *SYMBOLS))
"""vocabulary of inputs and outputs; the ids of functions come first"""
MAX_INPUT, MAX_OUTPUT = 71, 736
"""words of the longest input and symbols of the longest output in the official files"""
LARGEST = 2**16
"""limit for the symbols of a part of an expression: 60 times `repeat` would exhaust any memory"""

EXCEPTIONS = {
    ("reverse", "echo"): ("echo", "copy"),
    ("prepend", "remove_first"): ("remove_second", "append"),
    ("echo", "remove_first"): ("copy", "append"),
    ("prepend", "reverse"): ("remove_second", "echo"),
}
"""pairs of neighbouring functions of the overgeneralisation test, and the functions that replace them"""


def interpret(words: Sequence[str]) -> Symbols:
    """The output of an expression; any word other than a function or comma counts as a symbol.

    The words are read from right to left, so that the arguments come before their function.

    Raises:
        ValueError: the words are not an expression, or a part of it is too long.
    """
    values: list[Symbols] = []
    complete = False  # whether an argument begins right after this item
    for item in reversed(_items(words)):
        if isinstance(item, list):
            if complete:
                raise ValueError(f"a comma or the end is missing behind {item[-1]!r}")
            values.append(item)
        elif not complete:
            raise ValueError(f"an argument is missing behind {item!r}")
        elif item in UNARY:
            values.append(_small(UNARY[item](values.pop())))
        elif item in BINARY:
            if len(values) < 2:
                raise ValueError(f"{item!r} takes two arguments, there is one")
            values.append(_small(BINARY[item](values.pop(), values.pop())))
        complete = item != COMMA
    if len(values) != 1 or not complete:
        raise ValueError("a comma without a function of two arguments before it" if values else "no word at all")
    return values[0]


def _items(words: Sequence[str]) -> list[str | Symbols]:
    """Functions and commas one by one, strings of symbols as lists."""
    items: list[str | Symbols] = []
    for is_operator, run in groupby(words, key=OPERATORS.__contains__):
        members = list(run)
        items += members if is_operator else [members]
    return items


def _small(value: Symbols) -> Symbols:
    if len(value) > LARGEST:
        raise ValueError(f"a part of it has {len(value)} symbols, more than {LARGEST}")
    return value


def exceptions(words: Sequence[str]) -> Iterator[list[str]]:
    """The input with every non-empty choice of its exceptional pairs replaced.

    The paper does not define the case of several pairs in an input; pairs after the eighth are never replaced.
    """
    starts = [start for start in range(len(words) - 1) if tuple(words[start : start + 2]) in EXCEPTIONS][:8]
    for size in range(1, len(starts) + 1):
        for chosen in combinations(starts, size):
            changed = list(words)
            for start in chosen:
                changed[start : start + 2] = EXCEPTIONS[words[start], words[start + 1]]
            yield changed
