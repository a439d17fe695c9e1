"""A sheet of sample pictures with titles, as a PNG file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.nn.functional import pad

TILE, CAPTION = 128, 14
"""pixels: minimum size of a sample picture, height of its title"""


def sample_grid(images: Sequence[np.ndarray], titles: Sequence[str], path: Path) -> None:
    """Writes a PNG file with a grid of pictures, each above its title.

    Args:
        images: each [height, width] (grey) or [height, width, 3] (red, green, blue), uint8, all of one size.
    """
    from PIL import Image

    tiles = torch.stack([_tile(image, title) for image, title in zip(images, titles, strict=True)])
    grid = grid_of_tiles(tiles, nrow=int(np.ceil(len(tiles) ** 0.5)), padding=4, pad_value=255)
    Image.fromarray(grid.permute(1, 2, 0).numpy()).save(path, format="PNG")


def grid_of_tiles(tiles: UInt8[Tensor, "n 3 H W"], nrow: int, padding: int, pad_value: float) -> UInt8[Tensor, "3 _ _"]:
    """As `torchvision.utils.make_grid`: `nrow` tiles a row, `padding` pixels of `pad_value` around each."""
    rows = -(-len(tiles) // nrow)
    blank = torch.full_like(tiles[:1], pad_value).expand(rows * nrow - len(tiles), -1, -1, -1)
    tiles = pad(torch.cat([tiles, blank]), (padding, 0, padding, 0), value=pad_value)
    lines = [torch.cat(list(row), dim=2) for row in tiles.split(nrow)]
    return pad(torch.cat(lines, dim=1), (0, padding, 0, padding), value=pad_value)


def _tile(image: np.ndarray, title: str) -> torch.Tensor:
    """A picture, enlarged by an integer factor, above its title: [3, height, width] uint8."""
    from PIL import Image, ImageDraw

    scale = max(1, -(-TILE // max(image.shape[:2])))
    height, width = (scale * size for size in image.shape[:2])
    tile = Image.new("RGB", (width, height + CAPTION), "white")
    tile.paste(Image.fromarray(image).convert("RGB").resize((width, height), Image.Resampling.NEAREST))
    ImageDraw.Draw(tile).text((2, height + 1), title, fill="black")
    return torch.from_numpy(np.array(tile)).permute(2, 0, 1)
