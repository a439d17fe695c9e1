"""Scenes of sort-of-CLEVR: drawing, and the answers to all possible questions.

Written from the description of the published generator (github kimhc6028/relational-networks) and checked against a
sample of its output, pixel by pixel and question by question. Colours are numbered red, green, blue, orange, grey,
yellow; kinds unary 0, binary 1, ternary 2; centres are (x, y), x to the right, y down.
"""

import numpy as np

SIZE, HALF = 75, 5
"""pixels: side of an image; half of the width of a square and radius of a disc"""
COLORS = np.array(
    [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 156, 0), (128, 128, 128), (255, 255, 0)], dtype=np.uint8
)
"""red, green and blue values of the six objects' colours"""
SQUARE, DISC = 0, 1
YES, NO, ANSWER_SQUARE, ANSWER_DISC, COUNT = 0, 1, 2, 3, 4
"""answers; COUNT + n means the number n, 0 to 5"""
N_ANSWERS = 10
NO_COLOR = 6
"""second colour of a question with one colour"""
OWN_DISTANCE = 999
"""squared pixels: an object's distance to itself in the search for the closest object, as published"""
BAND = 12
"""pixels: largest vertical distance to a line"""
ROUNDED_RIGHT = 1.72e-16
"""largest cosine whose arccos is 90 degrees in double precision"""

_offset = np.arange(-HALF, HALF + 1)
MASKS = np.stack([np.ones((2 * HALF + 1,) * 2, dtype=bool), _offset[:, None] ** 2 + _offset**2 <= HALF**2])
"""[shape, row, column] pixels of an object around its centre: a square of 11 x 11, a disc of dx^2 + dy^2 <= 25"""


def draw_scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One random scene.

    Returns:
        centers [6, 2]: integers 5 to 69, drawn again while nearer than 10 pixels to an earlier center;
        shapes [6]: square or disc with equal chance.
    """
    centers: list[tuple[int, int]] = []
    while len(centers) < len(COLORS):
        x, y = rng.integers(HALF, SIZE - HALF, size=2).tolist()
        if all((x - a) ** 2 + (y - b) ** 2 >= (2 * HALF) ** 2 for a, b in centers):
            centers.append((x, y))
    return np.array(centers), rng.integers(2, size=len(COLORS))


def draw_questions(rng: np.random.Generator, per_kind: int) -> np.ndarray:
    """Random questions [3 * per_kind, 4]: first colour, second colour (or NO_COLOR), kind, subtype; kinds in order.

    As published, ternary questions use only the first five colours, not yellow.
    """
    questions = np.full((3, per_kind, 4), NO_COLOR, dtype=np.uint8)
    questions[:2, :, 0] = rng.integers(6, size=(2, per_kind))
    first, second = rng.integers(5, size=per_kind), rng.integers(4, size=per_kind)
    questions[2, :, 0], questions[2, :, 1] = first, second + (second >= first)
    questions[:, :, 2] = np.arange(3)[:, None]
    questions[:, :, 3] = rng.integers(3, size=(3, per_kind))
    return questions.reshape(-1, 4)


def paint(centers: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """The picture [75, 75, 3] uint8 (rows, columns, RGB; white ground) of centers [6, 2] and shapes [6].

    Objects may touch or overlap by a row; a later colour covers an earlier one.
    """
    image = np.full((SIZE, SIZE, 3), 255, dtype=np.uint8)
    for (x, y), shape, color in zip(centers.tolist(), shapes.tolist(), COLORS, strict=True):
        image[y - HALF : y + HALF + 1, x - HALF : x + HALF + 1][MASKS[shape]] = color
    return image


def question_bits(questions: np.ndarray) -> np.ndarray:
    """Question vectors [B, 18] uint8 of questions [B, 4]: colour (6), second colour (6), kind (3), subtype (3)."""
    colors = np.eye(NO_COLOR + 1, NO_COLOR, dtype=np.uint8)
    three = np.eye(3, dtype=np.uint8)
    first, second, kind, subtype = questions.T
    return np.concatenate([colors[first], colors[second], three[kind], three[subtype]], axis=1)


def answer_questions(centers: np.ndarray, shapes: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Answers [n, q] uint8 to questions [n, q, 4] about n scenes, centers [n, 6, 2] and shapes [n, 6]."""
    centers, shapes = centers.astype(np.int64), shapes.astype(np.int64)
    tables = np.empty((len(centers), 3, 3, 6, 6), dtype=np.uint8)
    tables[:, 0] = _unary(centers, shapes)[..., None]
    tables[:, 1] = _binary(centers, shapes)[..., None]
    tables[:, 2] = _ternary(centers)
    first, second, kind, subtype = np.moveaxis(questions, -1, 0)
    return tables[np.arange(len(centers))[:, None], kind, subtype, first, second % NO_COLOR]


def _squared_distances(centers: np.ndarray) -> np.ndarray:
    return ((centers[:, :, None] - centers[:, None]) ** 2).sum(-1)


def _unary(centers: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """[n, 3, 6]: shape of the object; is it in the left half; is it in the upper half."""
    left, upper = np.moveaxis(np.where(centers < SIZE / 2, YES, NO), -1, 0)
    return np.stack([ANSWER_SQUARE + shapes, left, upper], axis=1)


def _binary(centers: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """[n, 3, 6]: shape of the closest; shape of the furthest; number of others of its shape.

    Among equal distances the first object in the order of colours counts. As published, an object's distance to itself
    is 999 squared pixels in the search for the closest: it is its own closest if no other is within 31.6 pixels.
    """
    far = _squared_distances(centers)
    near = far + OWN_DISTANCE * np.eye(6, dtype=np.int64)
    closest, furthest = (np.take_along_axis(shapes, index, axis=1) for index in (near.argmin(-1), far.argmax(-1)))
    same = (shapes[:, :, None] == shapes[:, None]).sum(-1) - 1
    return np.stack([ANSWER_SQUARE + closest, ANSWER_SQUARE + furthest, COUNT + same], axis=1)


def _ternary(centers: np.ndarray) -> np.ndarray:
    """[n, 3, 6, 6], for ordered pairs of colours: others in the box spanned by the two centres (edges included); is any
    other near the line through them; others that make an obtuse or right triangle with them."""
    a, b, c = centers[:, :, None, None], centers[:, None, :, None], centers[:, None, None, :]
    # [6, 6, 6]: the third object is neither of the two
    other = ~(np.eye(6, dtype=bool)[:, None] | np.eye(6, dtype=bool)[None])
    boxed = ((np.minimum(a, b) <= c) & (c <= np.maximum(a, b))).all(-1)
    on_line = np.where((_near_line(a, b, c) & other).any(-1), YES, NO)
    obtuse = _obtuse(centers)
    return np.stack([COUNT + (boxed & other).sum(-1), on_line, COUNT + (obtuse & other).sum(-1)], axis=1)


def _near_line(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """[n, 6, 6, 6]: c within 12 pixels, measured vertically, of the endless line through a and b.

    As published, the slope is dy / (dx + 1e-10) in floating point: for a vertical line, only objects exactly on it and
    within 12 pixels of the first object count, and rounding may exclude a distance of exactly 12.
    """
    slope = (b - a)[..., 1] / ((b - a)[..., 0] + 1e-10)
    height = slope * c[..., 0] + (a[..., 1] - slope * a[..., 0])
    return np.abs(c[..., 1] - height) <= BAND


def _obtuse(centers: np.ndarray) -> np.ndarray:
    """[n, 6, 6, 6]: the largest angle of the triangle of three objects is at least 90 and below 180 degrees.

    As published, cosines are computed from sides in floating point, so that some right angles are missed: an angle
    counts if arccos rounds to 90 degrees or more, which is a cosine of at most ROUNDED_RIGHT. Three centres on one line
    never count (their angle is 180). There the published code computes arccos of about -1, which is 180, slightly less
    (and counts) or NaN (and the result depends on the argument order of Python's `max`): of 80,000 such questions, 244
    had a line and 70 (0.09 %) got another answer; in the reference sample 2 of 798 had a line and none differed.
    """
    side = np.sqrt(_squared_distances(centers).astype(np.float64))
    sides = np.stack(np.broadcast_arrays(side[:, :, :, None], side[:, :, None, :], side[:, None, :, :]))
    short, middle, longest = np.sort(sides, axis=0)
    with np.errstate(invalid="ignore"):
        # 0 / 0 where the third object is one of the two
        cosine = (short * short + middle * middle - longest * longest) / (2 * short * middle)
    to = centers[:, None] - centers[:, :, None]
    cross = to[:, :, :, None, 0] * to[:, :, None, :, 1] - to[:, :, :, None, 1] * to[:, :, None, :, 0]
    return (cosine <= ROUNDED_RIGHT) & (cross != 0)
