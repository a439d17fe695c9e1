"""Grey pictures as token sequences."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from attnlab.data.batch import LabelledBatch
from attnlab.data.batch_gathering import index_tensors, take_rows
from attnlab.data.examples import Examples

SIDE = 32
N_GREYS = 256
PAD_ID = N_GREYS
"""id of padding, above the grey values: a token is the grey value itself, and black (0) is a colour"""


class GreyPictures(Examples):
    """Grey pictures as sequences of 1,024 grey values 0 to 255, row by row, each with a class; all of one length.

    Args:
        images: [all, 32, 32] uint8, pictures of all subsets; may be mapped from a file.
        answers: [all] their classes.
        rows: [n] rows of this subset.
    """

    pad_id = PAD_ID
    held = ("all_images", "all_answers")

    def __init__(self, images: np.ndarray, answers: np.ndarray, rows: np.ndarray) -> None:
        self.all_images, self.all_answers, self.rows = images, answers, rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def answers(self) -> np.ndarray:
        """The classes [n] of this subset."""
        return self.all_answers[self.rows]

    def pictures(self, numbers: np.ndarray) -> np.ndarray:
        """The pictures of these numbers [B]: [B, 32, 32] uint8."""
        return self.all_images[self.rows[numbers]]

    def batch(self, numbers: np.ndarray) -> LabelledBatch:
        """The pictures of these numbers [B] as token sequences [B, 1024], without padding."""
        numbers = np.array(numbers, dtype=np.int64)
        images = self.stored("all_images")
        index, rows = index_tensors(images, numbers, self.rows[numbers])
        tokens = take_rows(images, rows).flatten(1).long()
        return LabelledBatch(
            index=index,
            inputs=tokens,
            input_lengths=torch.full_like(index, tokens.shape[1]),
            answers=take_rows(self.stored("all_answers"), rows).long(),
        )

    def extents(self) -> np.ndarray:
        return np.broadcast_to(self.all_images[0].size, (len(self), 1))

    def identities(self) -> list[bytes]:
        return [
            hashlib.blake2b(self.all_images[row].tobytes() + bytes([self.all_answers[row]]), digest_size=16).digest()
            for row in self.rows
        ]

    def arrays(self) -> list[np.ndarray]:
        return [self.pictures(np.arange(len(self))), self.answers]

    def example(self, number: int, classes: Sequence[str]) -> str:
        """Text about a picture: its first and last grey values and its class."""
        image, answer = self.pictures(np.array([number])).ravel(), int(self.all_answers[self.rows[number]])
        first, last = (" ".join(map(str, part)) for part in (image[:8].tolist(), image[-3:].tolist()))
        values = f"grey values, row by row: {first} ... {last}   ({image.size:,} in all)"
        return f"{values}\nclass: {answer} ({classes[answer]})"
