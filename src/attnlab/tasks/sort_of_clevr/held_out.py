"""Splits of sort-of-CLEVR with combinations that only `test/ood` has (`task.split`); ours, not published.

`question_pairs`: 12 of the 54 pairs of a colour and one of the nine kinds of question (kind and subtype) are asked in
`test/ood` alone, about the pictures of `test/iid`. Every colour loses two of its nine, binary questions and one other:

| subtype | unary  | binary      | ternary |
| 0       | yellow | red, orange | blue    |
| 1       | orange | green, grey | red     |
| 2       | grey   | blue, yellow| green   |

A ternary question is held out if either of its two colours is in its row (8 of its 20 ordered pairs of colours). It
never asks about yellow, as published, so that 51 of the 54 pairs are ever asked. Within a kind, the three subtypes have
the same share in every subset.

`object_pairs`, after the conditions A and B of CLEVR-CoGenT (Johnson et al. 2017, arXiv 1612.06890): in
training, validation and `test/iid` red and blue objects are squares, green and orange ones discs; `test/ood` shows the
pictures of `test/iid` with these four shapes exchanged. Grey and yellow objects have both shapes everywhere. So colour
is a shortcut to the shape of four objects in training, and wrong in `test/ood`. Ternary questions are about places
alone: their accuracy has no reason to fall, which makes them a control.
"""

from typing import Literal

import numpy as np

from attnlab.tasks.sort_of_clevr.scene import COLORS, NO_COLOR, draw_questions

Split = Literal["original", "question_pairs", "object_pairs"]
IN_WORDS = {
    "question_pairs": "12 of 54 pairs of colour and kind of question are asked in test/ood alone",
    "object_pairs": "4 of 12 pairs of colour and shape are in test/ood alone",
}
UNARY, BINARY, TERNARY = range(3)
OF_ONE_SHAPE = 4
"""colours that have one shape in training: the first ones, red to orange"""


def _held_out_pairs() -> np.ndarray:
    """[kind, subtype, colour or NO_COLOR]: whether `question_pairs` asks this pair in test/ood alone."""
    pairs = np.zeros((3, 3, NO_COLOR + 1), dtype=bool)
    for colour in range(len(COLORS)):
        pairs[BINARY, colour % 3, colour] = True
        # ternary questions are about the first five colours
        pairs[TERNARY if colour < 3 else UNARY, (colour + 1) % 3, colour] = True
    return pairs


HELD_OUT_PAIRS = _held_out_pairs()


def is_held_out(questions: np.ndarray) -> np.ndarray:
    """Whether each question [..., 4] (first colour, second colour or NO_COLOR, kind, subtype) has a held-out pair."""
    first, second, kind, subtype = np.moveaxis(questions, -1, 0)
    return HELD_OUT_PAIRS[kind, subtype, first] | HELD_OUT_PAIRS[kind, subtype, second]


def draw_allowed_questions(rng: np.random.Generator, per_kind: int, held_out: bool) -> np.ndarray:
    """As `draw_questions`, of the held-out pairs alone or of the others: others are drawn again."""
    questions = draw_questions(rng, per_kind)
    while (wrong := is_held_out(questions) != held_out).any():
        questions[wrong] = draw_questions(rng, per_kind)[wrong]
    return questions


def with_one_shape(shapes: np.ndarray, exchanged: bool) -> np.ndarray:
    """Shapes [6] with the training shape of the colours that have one, or with the other one."""
    fixed = np.arange(OF_ONE_SHAPE) % 2
    return np.concatenate([1 - fixed if exchanged else fixed, shapes[OF_ONE_SHAPE:]])
