"""A sheet of sample pictures with titles, as a PNG file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

TILE, CAPTION, BETWEEN = 128, 14, 4
"""pixels: minimum size of a sample picture, height of its title, between tiles"""


def sample_grid(images: Sequence[np.ndarray], titles: Sequence[str], path: Path) -> None:
    """Writes a PNG file with a grid of pictures, enlarged by an integer factor, each above its title.

    Args:
        images: each [height, width] (grey) or [height, width, 3] (red, green, blue), uint8, all of one size.
    """
    from PIL import Image, ImageDraw

    scale = max(1, -(-TILE // max(images[0].shape[:2])))
    height, width = (scale * size for size in images[0].shape[:2])
    columns = int(np.ceil(len(images) ** 0.5))
    across, down = width + BETWEEN, height + CAPTION + BETWEEN
    sheet = Image.new("RGB", (columns * across + BETWEEN, -(-len(images) // columns) * down + BETWEEN), "white")
    for number, (image, title) in enumerate(zip(images, titles, strict=True)):
        tile = Image.new("RGB", (width, height + CAPTION), "white")
        tile.paste(Image.fromarray(image).convert("RGB").resize((width, height), Image.Resampling.NEAREST))
        ImageDraw.Draw(tile).text((2, height + 1), title, fill="black")
        sheet.paste(tile, (BETWEEN + number % columns * across, BETWEEN + number // columns * down))
    sheet.save(path, format="PNG")
