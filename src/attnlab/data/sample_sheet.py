"""A sheet of sample pictures with titles, as a PNG file."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from attnlab.data.files.fetch import DataError

TILE, CAPTION = 128, 14
"""pixels: minimum size of a sample picture, height of its title"""


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
