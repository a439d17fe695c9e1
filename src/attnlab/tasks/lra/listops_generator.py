"""Expressions of ListOps: their values, and a generator with the distribution of LRA's generator.

A tree is drawn from the root down: a node is an operation with probability 1/4 (never at depth `max_depth`) and a digit
otherwise; an operation has 2 to `max_args` arguments; operators, digits and numbers of arguments are uniform. Trees of
other lengths are rejected (github google-research/long-range-arena, lra_benchmarks/data/listops.py). Only one tree in
twelve is accepted at the published lengths, so blocks of trees are drawn together, level by level.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from attnlab.data.files.fetch import DataError
from attnlab.data.vocabulary import Vocabulary

DIGITS, OPERATORS, CLOSE = tuple("0123456789"), ("[MIN", "[MAX", "[MED", "[SM"), "]"
TOKENS = Vocabulary([*DIGITS, *OPERATORS, CLOSE])
ZERO, MIN, CLOSE_ID = TOKENS.encode(["0", "[MIN", CLOSE])
OPERATION_SHARE = 0.25
BLOCK = 4096
"""trees drawn together; another value gives other expressions"""
FRUITLESS = 100
"""successive blocks without a new expression, after which the search ends"""
DEEPEST = 1000
"""limit for nested operations; the official expressions have at most 9"""


def _median(digits: Sequence[int]) -> int:
    """Rounded down, as in LRA."""
    ordered = sorted(digits)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


def _sum_modulo(digits: Sequence[int]) -> int:
    return ZERO + (sum(digits) - ZERO * len(digits)) % 10


_APPLY = (min, max, _median, _sum_modulo)


def evaluate(tokens: bytes) -> int:
    """The value of an expression, given as token ids; in linear time.

    Raises:
        ValueError: the tokens are not an expression, or more than `DEEPEST` operations are nested.
    """
    no_expression = ValueError("no expression: every operator needs arguments and a closing bracket of its own")
    if min(tokens, default=0) < ZERO:
        raise no_expression
    # operator and arguments of the current operation, and a stack of the operations around it
    inner, around = [], []
    for token in tokens:
        if token < MIN:
            inner.append(token)
        elif token < CLOSE_ID:
            around.append(inner)
            inner = [token]
            if len(around) > DEEPEST:
                raise ValueError(f"more than {DEEPEST} operations inside one another; the official ones have at most 9")
        elif around and len(inner) > 1:
            operator, *digits = inner
            inner = around.pop()
            inner.append(_APPLY[operator - MIN](digits))
        else:
            raise no_expression
    if around or len(inner) != 1:
        raise no_expression
    return inner[0] - ZERO


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Limits of drawn expressions: more than `min_length` and fewer than `max_length` tokens, as counted by LRA."""

    min_length: int
    max_length: int
    max_depth: int
    max_args: int


@dataclass(frozen=True)
class _Level:
    """The nodes at one depth of many trees; children follow one another in the order of their parents.

    tree: [n] tree of each node. value: [n] token id. n_args: [number of operations] number of arguments.
    """

    tree: np.ndarray
    value: np.ndarray
    n_args: np.ndarray

    @property
    def is_operation(self) -> np.ndarray:
        return self.value >= MIN

    def of(self, wanted: np.ndarray) -> "_Level":
        """The nodes of some trees; `wanted` is a mask over trees."""
        keep = wanted[self.tree]
        return _Level(self.tree[keep], self.value[keep], self.n_args[keep[self.is_operation]])


def expressions(shape: Shape, data_seed: int, stream: int, seen: set[bytes]) -> Iterator[bytes]:
    """Endless iterator over new expressions as token ids; their digests are added to `seen`.

    Expressions of another `stream` are independent.

    Raises:
        DataError: no more expressions of these lengths are found.
    """
    fruitless = 0
    for block in count():
        before = len(seen)
        for tokens in _block(shape, np.random.default_rng((data_seed, stream, block))):
            identity = hashlib.blake2b(tokens, digest_size=16).digest()
            if identity not in seen:
                seen.add(identity)
                yield tokens
        fruitless = 0 if len(seen) > before else fruitless + 1
        if fruitless == FRUITLESS:
            raise DataError(
                f"ListOps: {before} different expressions of more than task.min_length={shape.min_length} and fewer "
                f"than task.max_length={shape.max_length} tokens were found, and none among {FRUITLESS * BLOCK} more "
                "trees; ask for fewer (task.train_size, task.val_size, task.test_size) or for other lengths"
            )


def _block(shape: Shape, rng: np.random.Generator) -> Iterator[bytes]:
    """The expressions of a block of trees with accepted lengths."""
    levels, lengths = _draw(shape, rng)
    wanted = (lengths > shape.min_length) & (lengths < shape.max_length)
    values = _write([level.of(wanted) for level in levels])
    start = 0
    for length in lengths[wanted].tolist():
        yield values[start : start + length].tobytes()
        start += length


def _draw(shape: Shape, rng: np.random.Generator) -> tuple[list[_Level], np.ndarray]:
    """A block of trees by level, and the length of each tree; a tree that is too long does not grow further."""
    tree, lengths, levels = np.arange(BLOCK), np.ones(BLOCK, dtype=np.int64), []
    for depth in range(1, shape.max_depth + 1):
        value = rng.integers(ZERO, ZERO + 10, size=len(tree), dtype=np.uint8)
        inner = rng.random(len(tree), dtype=np.float32) < (OPERATION_SHARE if depth < shape.max_depth else 0)
        parents = tree[inner]
        value[inner] = rng.integers(MIN, CLOSE_ID, size=len(parents), dtype=np.uint8)
        n_args = rng.integers(2, shape.max_args + 1, size=len(parents))
        # an operation has one bracket and its arguments more than a digit
        lengths += np.bincount(parents, n_args + 1, minlength=BLOCK).astype(np.int64)
        n_args[lengths[parents] >= shape.max_length] = 0
        levels.append(_Level(tree, value, n_args))
        tree = np.repeat(parents, n_args)
        if not len(tree):
            break
    return levels, lengths


def _write(levels: list[_Level]) -> np.ndarray:
    """The concatenated tokens of whole trees."""
    sizes = [np.ones(len(level.tree), dtype=np.int64) for level in levels]
    for level, size, below in zip(levels[-2::-1], sizes[-2::-1], sizes[:0:-1], strict=True):
        # every operation has arguments, so no segment is empty
        if len(level.n_args):
            size[level.is_operation] = 2 + np.add.reduceat(below, np.cumsum(level.n_args) - level.n_args)
    tokens = np.full(sizes[0].sum(), CLOSE_ID, dtype=np.uint8)
    starts = np.cumsum(sizes[0]) - sizes[0]
    for number, level in enumerate(levels):
        tokens[starts] = level.value
        if not len(level.n_args):
            break
        size = sizes[number + 1]
        before = np.cumsum(size) - size
        firsts = np.cumsum(level.n_args) - level.n_args
        # a child begins after its parent's first token and its earlier siblings
        starts = before + np.repeat(starts[level.is_operation] + 1 - before[firsts], level.n_args)
    return tokens
