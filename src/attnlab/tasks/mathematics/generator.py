"""Generator of questions of two modules of DeepMind Mathematics, with the published sentences and sizes.

The size of a question is its entropy, the decimal logarithm of the number of choices for its numbers. In training it is
uniform over a range (easy, medium and hard are thirds of the range), `interpolate` has one value inside the range,
`extrapolate` values above it (github google-deepmind/mathematics_dataset, modules/arithmetic.py and numbers.py).

    arithmetic__add_or_sub  two numbers, each an integer or a decimal (1 in 2), share the entropy, at least 1 each
    numbers__place_value    one positive integer and one of its places, uniformly
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from random import Random

from attnlab.config.plain_yaml import table_beside

SENTENCES = table_beside(__file__, "sentences.yaml")
PLACES = (
    "units",
    "tens",
    "hundreds",
    *(f"{size}{name}s" for name, size in product(SENTENCES["powers_of_1000"], ("", "ten ", "hundred "))),
)
"""names of the decimal places of an integer, from the last digit"""

ENTROPY = {
    "arithmetic__add_or_sub": {"train": (4.0, 16.0), "interpolate": (12.0, 12.0), "extrapolate": (16.0, 20.0)},
    "numbers__place_value": {"train": (3.0, 10.0), "interpolate": (8.0, 8.0), "extrapolate": (12.0, 12.0)},
}
"""lowest and highest published entropy by module"""
DIFFICULTIES = ("train-easy", "train-medium", "train-hard")
LARGEST_ENTROPY = 35
"""the names of decimal places end at the 36th"""
LONGEST_ANSWER = LARGEST_ENTROPY + 5
"""characters: two operands have at most one digit more than the entropy; zero before the point, point, sign, carry"""


def entropy_range(module: str, part: str) -> tuple[float, float]:
    """Lowest and highest entropy of a part: a difficulty, `interpolate` or `extrapolate`."""
    ranges = ENTROPY[module]
    if part not in DIFFICULTIES:
        return ranges[part]
    low, high = ranges["train"]
    third, number = (high - low) / len(DIFFICULTIES), DIFFICULTIES.index(part)
    return low + number * third, low + (number + 1) * third


def draw_questions(
    module: str, part: str, count: int, data_seed: int, entropy: float | None = None
) -> Iterator[tuple[str, str]]:
    """Draws questions and their answers; repeats are possible, as in the official files.

    Each part has its own random stream: a larger part keeps its first questions and does not change the other parts.

    Args:
        entropy: entropy of every question, 1 to `LARGEST_ENTROPY`; None: the range of the part.
    """
    draw, ask = Random(f"{module}/{part}/{data_seed}"), ASK[module]
    low, high = entropy_range(module, part) if entropy is None else (entropy, entropy)
    for _ in range(count):
        yield ask(draw, draw.uniform(low, high))


def ask_sum_or_difference(draw: Random, entropy: float) -> tuple[str, str]:
    """A question about p + q or p - q, and its answer."""
    share = max(1.0, draw.uniform(0, entropy))
    (p, p_places), (q, q_places) = _number(draw, share), _number(draw, max(1.0, entropy - share))
    places = max(p_places, q_places)
    p_whole, q_whole = p * 10 ** (places - p_places), q * 10 ** (places - q_places)
    if draw.random() < 0.5:
        sentences, answer = SENTENCES["sums"], p_whole + q_whole
    else:
        answer = p_whole - q_whole
        sentences = SENTENCES["differences"] + (SENTENCES["gaps"] if answer >= 0 else [])
    question = draw.choice(sentences).format(p=_written(p, p_places), q=_written(q, q_places))
    return question, _written(answer, places)


def ask_place_value(draw: Random, entropy: float) -> tuple[str, str]:
    """A question about one digit of an integer, and that digit."""
    digits = str(draw.randint(1, math.ceil(10**entropy)))
    place = draw.randrange(len(digits))
    return f"What is the {PLACES[place]} digit of {digits}?", digits[-1 - place]


ASK: dict[str, Callable[[Random, float], tuple[str, str]]] = {
    "arithmetic__add_or_sub": ask_sum_or_difference,
    "numbers__place_value": ask_place_value,
}


def _number(draw: Random, entropy: float) -> tuple[int, int]:
    """A number as an integer and its decimal places; with decimal places, not all of their digits are zero."""
    largest = math.ceil(10**entropy / 2)
    if draw.random() < 0.5:
        return draw.randint(-largest, largest), 0
    while True:
        digits, places = draw.randint(-largest, largest), draw.randint(1, math.ceil(entropy))
        if digits % 10**places:
            return digits, places


def _written(digits: int, places: int) -> str:
    """digits / 10**places in decimal notation without trailing zeros."""
    if not places:
        return str(digits)
    text = str(abs(digits)).zfill(places + 1)
    sign = "-" if digits < 0 else ""
    return sign + f"{text[:-places]}.{text[-places:]}".rstrip("0").rstrip(".")
