"""The 15 tasks of Deletang et al. 2023: for each the symbols, the distribution of inputs, and the outputs.

Inputs and outputs are tables of numbers [n, N], all rows of one length, as in the published code (github
google-deepmind/neural_networks_chomsky_hierarchy, tasks/); a task's outputs follow from its inputs alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from attnlab.tasks.formal_language import binary_numbers as binary
from attnlab.tasks.formal_language.expressions import MODULUS, Signs, draw_expressions, linear_values

Table = Int[np.ndarray, "n N"]
Outputs = Int[np.ndarray, "n M"]
Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""(generator, number of inputs, length) -> inputs"""
END = 2
"""output that ends a shorter output; what follows it is 0 and not tested"""
DIGITS = tuple(map(str, range(MODULUS)))
BRACKETS, EQUATIONS = Signs(opening=8, closing=9, times=7), Signs(opening=7, closing=8, unknown=9, equals=10)
CYCLE = 5
"""positions on the circle of cycle_navigation"""


@dataclass(frozen=True)
class Language:
    """A task.

    inputs, outputs: words of the symbols, by their numbers.
    draw:     draws inputs.
    answer:   outputs of inputs; the last axis may be missing for one output.
    size:     number of outputs by the length of the input.
    ends:     whether outputs end in `END`.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    draw: Draw
    answer: Callable[[np.ndarray], np.ndarray]
    size: Callable[[int], int] = lambda length: 1
    ends: bool = False


def uniform(symbols: int) -> Draw:
    """Inputs of independent symbols, all equally likely."""
    return lambda rng, number, length: rng.integers(0, symbols, (number, length), dtype=np.int32)


def draw_sums(rng: np.random.Generator, number: int, length: int) -> Table:
    """Digits with +, - or * between them; of even lengths one symbol less."""
    table = np.zeros((number, length - (length + 1) % 2), dtype=np.int32)
    table[:, ::2] = rng.integers(0, MODULUS, table[:, ::2].shape)
    table[:, 1::2] = rng.integers(MODULUS, MODULUS + 3, table[:, 1::2].shape)
    return table


def sums(table: Table) -> np.ndarray:
    """Values modulo 5; products before sums."""
    minus, times = MODULUS + 1, MODULUS + 2
    total, product = np.zeros(len(table), dtype=np.int64), table[:, 0].astype(np.int64)
    for operator, digit in zip(table.T[1::2], table.T[2::2], strict=True):
        total = np.where(operator == times, total, total + product)
        signed = np.where(operator == minus, -digit, digit)
        product = np.where(operator == times, product * digit % MODULUS, signed)
    return (total + product) % MODULUS


def draw_stacks(rng: np.random.Generator, number: int, length: int) -> Table:
    """A stack of 1 to length - 1 bits, then instructions; of length 1 a bit alone."""
    bits = rng.integers(0, 2, (number, length), dtype=np.int32)
    stack = rng.integers(1, length, number)[:, None] if length > 1 else np.ones((number, 1), dtype=np.int64)
    return np.where(np.arange(length) < stack, bits, rng.integers(2, 5, (number, length), dtype=np.int32))


def stacks(table: Table) -> Outputs:
    """The last stack from its top, then `END`; taking from an empty stack does nothing."""
    number, length = table.shape
    rows, height = np.arange(number), np.zeros(number, dtype=np.int64)
    stack = np.zeros((number, length + 1), dtype=np.int32)
    for symbol in table.T:
        pop = symbol == 2
        stack[rows, height] = np.where(pop, stack[rows, height], symbol % 3)
        height = np.where(pop, np.maximum(height - 1, 0), height + 1)
    places = height[:, None] - 1 - np.arange(length + 1)
    outputs = np.where(places >= 0, np.take_along_axis(stack, np.maximum(places, 0), axis=1), 0)
    outputs[rows, height] = END
    return outputs


def draw_equations(rng: np.random.Generator, number: int, length: int) -> Table:
    """An expression, one digit of which is unknown, and its value; below length 3 zeros."""
    if length < 3:
        return np.zeros((number, length), dtype=np.int32)
    table = draw_expressions(rng, number, length - 2, EQUATIONS)
    values = linear_values(table, EQUATIONS)[0] % MODULUS
    # the first digit at or behind a random place, going round at the end
    columns, start = np.arange(length - 2), rng.integers(0, length - 2, number)[:, None]
    distance = np.where(table < MODULUS, (columns - start) % (length - 2), length)
    table[np.arange(number), distance.argmin(1)] = EQUATIONS.unknown
    equals = np.full((number, 1), EQUATIONS.equals, dtype=np.int32)
    return np.concatenate((table, equals, values[:, None].astype(np.int32)), axis=1)


def solutions(table: Table) -> np.ndarray:
    """The unknown digit, whose factor is 1 or -1; 0 below length 3."""
    constant, factor = linear_values(table, EQUATIONS)
    return -constant * factor % MODULUS


def draw_missing(rng: np.random.Generator, number: int, length: int) -> Table:
    """A string twice with one symbol missing (2), of odd lengths with 3 at the end; of length 1 a one."""
    if length == 1:
        return np.ones((number, 1), dtype=np.int32)
    half = rng.integers(0, 2, (number, length // 2), dtype=np.int32)
    table = np.concatenate((half, half, np.full((number, length % 2), 3, dtype=np.int32)), axis=1)
    table[np.arange(number), rng.integers(0, length - length % 2, number)] = 2
    return table


def missing(table: Table) -> np.ndarray:
    """The missing symbol; of length 1 the symbol."""
    half = table.shape[1] // 2
    place = (table == 2).argmax(1)
    return table[np.arange(len(table)), np.where(place < half, place + half, place - half)] if half else table[:, 0]


def draw_numbers(rng: np.random.Generator, number: int, length: int) -> Table:
    """Numbers above 0, the highest bit first."""
    table = rng.integers(0, 2, (number, length), dtype=np.int32)
    while (zero := ~table.any(1)).any():
        table[zero] = rng.integers(0, 2, (int(zero.sum()), length), dtype=np.int32)
    return table


def square_roots(table: Table) -> Outputs:
    """Square roots, rounded down, the highest bit first."""
    roots = map(math.isqrt, binary.numbers_of(table[:, ::-1]))
    return binary.bits_of(roots, math.ceil(table.shape[1] / 2))[:, ::-1]


def added(table: Table) -> Outputs:
    first, second = binary.pairs_of(table)
    return binary.ended([a + b for a, b in zip(first, second, strict=True)], table.shape[1] + 1, 1)


def multiplied(table: Table) -> Outputs:
    """Products; 0 up to length 2, with one bit less than the input."""
    first, second = binary.pairs_of(table)
    return binary.ended([a * b for a, b in zip(first, second, strict=True)], table.shape[1], table.shape[1] - 1)


BIT = ("0", "1")
ENDED = (*BIT, "end")
LANGUAGES = {
    "even_pairs": Language(BIT, BIT, uniform(2), lambda x: (x[:, 0] + x[:, -1]) % 2),
    "modular_arithmetic": Language((*DIGITS, "+", "-", "*", "_"), DIGITS, draw_sums, sums),
    "parity_check": Language(BIT, BIT, uniform(2), lambda x: x.sum(1) % 2),
    "cycle_navigation": Language(("back", "stay", "on"), DIGITS, uniform(3), lambda x: (x - 1).sum(1) % CYCLE),
    "stack_manipulation": Language(
        (*BIT, "pop", "push0", "push1"), ENDED, draw_stacks, stacks, lambda length: length + 1, True
    ),
    "reverse_string": Language(BIT, BIT, uniform(2), lambda x: x[:, ::-1], int),
    "modular_arithmetic_brackets": Language(
        (*DIGITS, "+", "-", "*", "(", ")", "x"),
        DIGITS,
        lambda rng, number, length: draw_expressions(rng, number, length, BRACKETS),
        lambda x: linear_values(x, BRACKETS)[0] % MODULUS,
    ),
    "solve_equation": Language((*DIGITS, "+", "-", "(", ")", "x", "="), DIGITS, draw_equations, solutions),
    "duplicate_string": Language(BIT, BIT, uniform(2), lambda x: np.tile(x, 2), lambda length: 2 * length),
    "missing_duplicate_string": Language((*BIT, "?", "."), BIT, draw_missing, missing),
    "odds_first": Language(BIT, BIT, uniform(2), lambda x: np.concatenate((x[:, 1::2], x[:, ::2]), axis=1), int),
    "binary_addition": Language((*BIT, "+"), ENDED, binary.draw_pairs, added, lambda length: length + 1, True),
    "binary_multiplication": Language((*BIT, "*"), ENDED, binary.draw_pairs, multiplied, int, True),
    "compute_sqrt": Language(BIT, BIT, draw_numbers, square_roots, lambda length: math.ceil(length / 2)),
    "bucket_sort": Language(DIGITS, DIGITS, uniform(5), lambda x: np.sort(x, axis=1), int),
}
"""by name: regular, then deterministic context-free, then context-sensitive"""
