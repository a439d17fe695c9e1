"""Sort-of-CLEVR (Santoro et al. 2017, arXiv 1706.01427): questions about pictures of six coloured squares and discs.

It has ternary questions, as in github kimhc6028/relational-networks and sarthmit/Compositional-Attention. One example,
number 13 of `train` at data_seed 1:

    picture   75 x 75 pixels: a red square around (35, 38), nearest to it an orange disc around (21, 25), four others
    question  1 0 0 0 0 0 | 0 0 0 0 0 0 | 0 1 0 | 1 0 0   (red, no second colour, binary, shape of the closest?)
    answer    3                                           (disc)

A question has 18 bits: colour (red, green, blue, orange, grey, yellow), second colour (ternary questions), kind (unary,
binary, ternary), subtype. Answers: 0 yes, 1 no, 2 square, 3 disc, 4 to 9 the numbers 0 to 5.

| kind    | subtype 0                        | subtype 1                      | subtype 2                             |
| unary   | its shape                        | in the left half?              | in the upper half?                    |
| binary  | shape of the closest             | shape of the furthest          | how many others of its shape          |
| ternary | how many others in the box of    | any other within 12 pixels of  | how many others make an obtuse or     |
|         | the two                          | the line through the two?      | right triangle with the two           |

Published is one test set of new pictures (`split=original`); two splits of ours hold combinations out, of colours and
kinds of question or of colours and shapes (tasks/sort_of_clevr/held_out.py).

Properties of the published generator that are kept on purpose: ternary questions never ask about yellow; an object is
its own closest object if no other is within 31.6 pixels; distances to the line are measured vertically; some right
angles are lost to rounding (details in tasks/sort_of_clevr/scene.py). Pictures are RGB here, BGR in the published code.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from attnlab.data.batch import ImageQuestionBatch
from attnlab.data.batch_gathering import index_tensors, take_rows
from attnlab.data.examples import Examples
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.progress import track
from attnlab.data.user_inputs import Form, encoded, picture
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.shortcuts import Shortcut, most_frequent
from attnlab.tasks.sort_of_clevr import held_out
from attnlab.tasks.sort_of_clevr.held_out import Split, draw_allowed_questions, with_one_shape
from attnlab.tasks.sort_of_clevr.pixel_scaling import IN_WORDS, Pixels, scaled
from attnlab.tasks.sort_of_clevr.scene import (
    N_ANSWERS,
    NO_COLOR,
    SIZE,
    answer_questions,
    draw_questions,
    draw_scene,
    paint,
    question_bits,
)

KINDS = ("unary", "binary", "ternary")
COLOURS = ("red", "green", "blue", "orange", "grey", "yellow")
ANSWERS = ("yes", "no", "square", "disc", *map(str, range(6)))
STREAMS = {"train": 0, "val": 1, "test": 2}
Question = tuple[str, str | None, str, int]
"""colour, second colour (None unless ternary), kind, subtype"""
CHUNK = 256
"""pictures whose answers are computed together"""


def generate(
    subset: str, images: int, questions_per_kind: int, data_seed: int, split: Split = "original"
) -> dict[str, np.ndarray]:
    """Generates the arrays of a subset.

    Picture k and its questions have their own random stream, (data_seed, subset, k): a larger subset keeps its first
    pictures and does not change the other subsets. `test/iid` and `test/ood` have the stream of `test`.

    Returns:
        images [n, 75, 75, 3] uint8 RGB; centers [n, 6, 2] and shapes [n, 6] uint8 (0 square, 1 disc) by colour;
        questions [n, q, 4] uint8 (first colour, second colour or 6, kind, subtype) and answers [n, q] uint8 with
        q = 3 * questions_per_kind: unary, then binary, then ternary.
    """
    n_questions = len(KINDS) * questions_per_kind
    arrays = {
        "images": np.empty((images, SIZE, SIZE, 3), dtype=np.uint8),
        "centers": np.empty((images, 6, 2), dtype=np.uint8),
        "shapes": np.empty((images, 6), dtype=np.uint8),
        "questions": np.empty((images, n_questions, 4), dtype=np.uint8),
        "answers": np.empty((images, n_questions), dtype=np.uint8),
    }
    beyond = subset == "test/ood"
    for number in track(range(images), f"drawing sort-of-CLEVR {subset}", images):
        rng = np.random.default_rng((data_seed, STREAMS[subset.partition("/")[0]], number))
        centers, shapes = draw_scene(rng)
        if split == "object_pairs":
            shapes = with_one_shape(shapes, exchanged=beyond)
        arrays["centers"][number], arrays["shapes"][number] = centers, shapes
        if split == "question_pairs":
            arrays["questions"][number] = draw_allowed_questions(rng, questions_per_kind, held_out=beyond)
        else:
            arrays["questions"][number] = draw_questions(rng, questions_per_kind)
        arrays["images"][number] = paint(centers, shapes)
    for start in range(0, images, CHUNK):
        part = slice(start, start + CHUNK)
        scenes = arrays["centers"][part], arrays["shapes"][part], arrays["questions"][part]
        arrays["answers"][part] = answer_questions(*scenes)
    return arrays


def _numbers(question: Question) -> list[int]:
    """First colour, second colour (or `NO_COLOR`), kind and subtype, as numbers.

    Raises:
        DataError: it is no question; says how one is written.
    """
    colour, other, kind, subtype = question if len(question) == 4 else (None,) * 4
    known = colour in COLOURS and kind in KINDS and subtype in range(3)
    if not known or other not in (COLOURS if kind == "ternary" else (None,)):
        raise DataError(
            f"{question}: a question is a colour, a second colour (None unless ternary), a kind and a subtype 0 to 2; "
            f"colours: {', '.join(COLOURS)}; kinds: {', '.join(KINDS)}"
        )
    return [COLOURS.index(colour), NO_COLOR if other is None else COLOURS.index(other), KINDS.index(kind), subtype]


class ImageQuestions(Examples):
    """A subset: example `picture * q + i` is question i of the q questions about that picture.

    Args:
        arrays: the result of `generate`; may be mapped from files.
        pixels: scaling of the pictures in batches.
    """

    turns = ("ternary", "binary", "unary")
    held = ("images", "bits", "questions", "answers")

    def __init__(self, arrays: dict[str, np.ndarray], pixels: Pixels = "white_is_one") -> None:
        self.pixels = pixels
        self.images, self.centers, self.shapes = arrays["images"], arrays["centers"], arrays["shapes"]
        self.questions = arrays["questions"].reshape(-1, 4)
        self.bits = question_bits(self.questions)
        self.answers = arrays["answers"].reshape(-1)
        self.per_image = arrays["answers"].shape[1]
        by_kind = np.arange(len(self.answers)).reshape(len(self.images), len(KINDS), -1)
        self.groups = {kind: by_kind[:, i].ravel() for i, kind in enumerate(KINDS)}

    def __len__(self) -> int:
        return len(self.answers)

    def batch(self, numbers: np.ndarray) -> ImageQuestionBatch:
        """The questions of these numbers [B] with their pictures."""
        numbers = np.array(numbers, dtype=np.int64)
        images = self.stored("images")
        index, pictures = index_tensors(images, numbers, numbers // self.per_image)
        return ImageQuestionBatch(
            index=index,
            images=scaled(take_rows(images, pictures), self.pixels),
            questions=take_rows(self.stored("bits"), index),
            answers=take_rows(self.stored("answers"), index).long(),
            groups=take_rows(self.stored("questions"), index)[:, 2].long(),
        )

    def pictures(self, numbers: np.ndarray) -> np.ndarray:
        return self.images[np.asarray(numbers) // self.per_image]

    def identities(self) -> list[bytes]:
        pictures = [hashlib.sha256(image.tobytes()).digest() for image in self.images]
        return [pictures[i // self.per_image] + question.tobytes() for i, question in enumerate(self.questions)]

    def arrays(self) -> list[np.ndarray]:
        # the network reads other numbers with another scaling; the published one adds nothing to the hash
        scaling = [] if self.pixels == "white_is_one" else [np.frombuffer(self.pixels.encode(), dtype=np.uint8)]
        return [self.images, self.questions, self.answers, *scaling]


class SortOfClevr(Task):
    """Sort-of-CLEVR, generated on first use and kept in the cache folder (174 MB at the default sizes).

    Args:
        train_images, val_images, test_images: number of pictures of each subset.
        questions_per_kind: number of questions of each kind about every picture.
        data_seed: seed of pictures and questions.
        pixels: input scaling, a control (measured in tasks/sort_of_clevr/pixel_scaling.py): white_is_one: bytes divided
            by 255, as published; ink_is_one: 1 minus that; standardised: mean 0 and standard deviation 1 in each
            channel. Stored pictures are the same for all three.
        split: `original`: as published, new pictures in `test`; `question_pairs`, `object_pairs`: combinations that
            `test/ood` alone has, with `test/iid` beside it (tasks/sort_of_clevr/held_out.py).
    """

    kind = "classification"
    modality = "image_question"
    version = 1
    has_groups = True
    subsets = ("train", "val", "test")
    subsets_with: ClassVar = {
        "split": {
            "question_pairs": ("train", "val", "test/iid", "test/ood"),
            "object_pairs": ("train", "val", "test/iid", "test/ood"),
        }
    }
    published = "pictures: train 9,800, val 200, test 200, with 30 questions each"

    def __init__(
        self,
        train_images: Annotated[int, "[1, inf)"] = 9800,
        val_images: Annotated[int, "[1, inf)"] = 200,
        test_images: Annotated[int, "[1, inf)"] = 200,
        questions_per_kind: Annotated[int, "[1, inf)"] = 10,
        data_seed: Annotated[int, "[0, inf)"] = 1,
        pixels: Pixels = "white_is_one",
        split: Split = "original",
    ) -> None:
        self.pixels, self.split = pixels, split
        self.images = {"train": train_images, "val": val_images, "test": test_images}
        self.questions_per_kind, self.data_seed = questions_per_kind, data_seed

    def example(self, prepared: Prepared[ImageQuestions], subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        picture = number // part.per_image
        colour, other, kind, subtype = part.questions[number].tolist()
        objects = zip(COLOURS, part.shapes[picture].tolist(), part.centers[picture].tolist(), strict=True)
        scene = ", ".join(f"{name} {('square', 'disc')[shape]} at ({x}, {y})" for name, shape, (x, y) in objects)
        about = COLOURS[colour] if other == len(COLOURS) else f"{COLOURS[colour]} and {COLOURS[other]}"
        answer = ANSWERS[part.answers[number]]
        return (
            f"picture {picture}: {scene}\nquestion: {KINDS[kind]}, subtype {subtype}, about {about}\nanswer: {answer}"
        )

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[tuple[np.ndarray, Question]]) -> ImageQuestionBatch:
        """Inputs are pairs of a picture, uint8 [75, 75, 3], and a question: `("red", None, "binary", 0)`."""
        form = Form("a picture and a question", (object, Sequence))
        pairs = encoded(inputs, form, lambda item: (picture(item[0], (SIZE, SIZE, 3)), _numbers(item[1])))
        images, questions = np.stack([image for image, _ in pairs]), np.array([numbers for _, numbers in pairs])
        return ImageQuestionBatch(
            index=torch.arange(len(inputs)),
            images=scaled(torch.from_numpy(images), self.pixels),
            questions=torch.from_numpy(question_bits(questions)),
            answers=torch.zeros(len(inputs), dtype=torch.long),
            groups=torch.from_numpy(questions[:, 2]),
        )

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[int]) -> list[str]:
        return [ANSWERS[output] for output in outputs]

    def shortcuts(self, prepared: Prepared[ImageQuestions]) -> Mapping[str, Shortcut]:
        """Also the most frequent answer to the same question, and to questions of its subtype, without the picture."""
        train = prepared.subsets["train"]
        # as an array in memory: rows of a mapped array take long
        by_question = most_frequent(train, lambda part: map(bytes, np.asarray(part.questions)))
        by_subtype = most_frequent(train, lambda part: map(bytes, np.asarray(part.questions)[:, 2:]))
        return {
            **super().shortcuts(prepared),
            "most frequent answer by question": by_question,
            "most frequent answer by subtype of question": by_subtype,
        }

    def prepare(self, folders: Folders) -> Prepared[ImageQuestions]:
        spec = self.task_spec(
            n_classes=N_ANSWERS,
            image_shape=(SIZE, SIZE, 3),
            question_size=18,
        )
        names = self.subsets_with["split"].get(self.split, self.subsets)
        stored = {subset: load_arrays(self._folder(subset, folders.cache)) for subset in names}
        subsets = {subset: ImageQuestions(arrays, self.pixels) for subset, arrays in stored.items()}
        about = (
            f"sort-of-CLEVR generated by attnlab with data_seed {self.data_seed}; task.pixels={self.pixels}: "
            f"{IN_WORDS[self.pixels]}"
        )
        if self.split != "original":
            about += f"; task.split={self.split}: {held_out.IN_WORDS[self.split]}"
        return Prepared(spec=spec, subsets=subsets, about=about)

    def _folder(self, subset: str, cache: Path) -> Path:
        options: dict[str, Any] = {
            "images": self.images[subset.partition("/")[0]],
            "questions_per_kind": self.questions_per_kind,
            "data_seed": self.data_seed,
        }
        if self.split != "original":
            options["split"] = self.split
        name = f"sort_of_clevr_{subset.replace('/', '_')}"
        return self.cached(cache, name, options, lambda folder: save_arrays(folder, **generate(subset, **options)))
