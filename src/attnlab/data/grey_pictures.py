"""Grey pictures as token sequences, and a sheet of sample pictures."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from attnlab.data.batch import LabelledBatch
from attnlab.data.batch_gathering import index_tensors, take_rows
from attnlab.data.examples import Examples
from attnlab.data.files.fetch import DataError

SIDE = 32
N_GREYS = 256
PAD_ID = N_GREYS
"""id of padding, above the grey values: a token is the grey value itself, and black (0) is a colour"""
TILE, CAPTION = 128, 14
"""pixels: minimum size of a sample picture, height of its title"""


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
        return [self.pictures(np.arange(len(self))), self.all_answers[self.rows]]

    def example(self, number: int, classes: Sequence[str]) -> str:
        """Text about a picture: its first and last grey values and its class."""
        image, answer = self.pictures(np.array([number])).ravel(), int(self.all_answers[self.rows[number]])
        first, last = (" ".join(map(str, part)) for part in (image[:8].tolist(), image[-3:].tolist()))
        values = f"grey values, row by row: {first} ... {last}   ({image.size:,} in all)"
        return f"{values}\nclass: {answer} ({classes[answer]})"


def sample_grid(images: Sequence[np.ndarray], titles: Sequence[str], path: Path) -> None:
    """Writes a PNG file with a grid of pictures, each above its title.

    Args:
        images: each [height, width] (grey) or [height, width, 3] (red, green, blue), uint8, all of one size.

    Raises:
        DataError: torchvision (the extra `vision`) is not installed or does not fit the installed torch.
    """
    from PIL import Image

    make_grid = _make_grid()
    tiles = [_tile(image, title) for image, title in zip(images, titles, strict=True)]
    grid = make_grid(torch.stack(tiles), nrow=int(np.ceil(len(tiles) ** 0.5)), padding=4, pad_value=255)
    Image.fromarray(grid.permute(1, 2, 0).numpy()).save(path, format="PNG")


def _make_grid() -> Callable[..., torch.Tensor]:
    try:
        from torchvision.utils import make_grid
    except ImportError as error:
        raise DataError(
            "sample grids need torchvision, which is not installed: pip install 'attnlab[vision]'. Nothing else does."
        ) from error
    except RuntimeError as error:
        # raised by a torchvision for CUDA with a torch for the CPU
        raise DataError(
            f"sample grids need a torchvision that fits torch {torch.__version__}; the one installed does not "
            f"({error}). Install its build for the same device from where torch came, or remove it."
        ) from error
    return make_grid


def _tile(image: np.ndarray, title: str) -> torch.Tensor:
    """A picture, enlarged by an integer factor, above its title: [3, height, width] uint8."""
    from PIL import Image, ImageDraw

    scale = max(1, -(-TILE // max(image.shape[:2])))
    height, width = (scale * size for size in image.shape[:2])
    tile = Image.new("RGB", (width, height + CAPTION), "white")
    tile.paste(Image.fromarray(image).convert("RGB").resize((width, height), Image.Resampling.NEAREST))
    ImageDraw.Draw(tile).text((2, height + 1), title, fill="black")
    return torch.from_numpy(np.array(tile)).permute(2, 0, 1)
