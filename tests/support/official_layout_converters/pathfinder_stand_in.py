"""Pictures in the layout of the Long Range Arena release, for tests: the official ones are not to be had here.

They are easier than the official ones, so that a small network learns them in a few hundred steps: two dots, and a
dashed curve that joins them or breaks off on both sides of a wide gap, without any other curves.
"""

from pathlib import Path

import numpy as np

SIDE, DOT, DASH = 32, 255, 191
PIXELS = np.stack(np.indices((SIDE, SIDE)), axis=-1)
ALONG = np.linspace(0, 1, 60)[:, None]
A_FILE = 1000
"""pictures to a metadata file, as in the release"""


def draw(rng: np.random.Generator, joined: bool) -> np.ndarray:
    """One picture [32, 32], uint8."""
    angle = rng.uniform(0, 2 * np.pi)
    half = rng.uniform(9, 11) * np.array([np.cos(angle), np.sin(angle)])
    middle = rng.uniform(14, 17, size=2)
    start, end, bend = middle - half, middle + half, middle + rng.uniform(-8, 8, size=2)
    curve = (1 - ALONG) ** 2 * start + 2 * ALONG * (1 - ALONG) * bend + ALONG**2 * end
    walked = np.hypot(*np.diff(curve, axis=0, prepend=curve[:1]).T).cumsum()
    drawn = walked % 5 < 3
    if not joined:
        drawn &= np.abs(walked / walked[-1] - 0.5) > 0.3
    picture = np.zeros((SIDE, SIDE), dtype=np.uint8)
    for shift in ((0, 0), (0, 1), (1, 0)):
        rows, columns = np.clip(curve[drawn].round().astype(int) + shift, 0, SIDE - 1).T
        picture[rows, columns] = DASH
    for dot in (start, end):
        picture[((PIXELS - dot) ** 2).sum(-1) <= 1.5**2] = DOT
    return picture


def write_layout(data: Path, pictures: int = 2000, difficulty: str = "curv_contour_length_14", seed: int = 0) -> Path:
    """Writes the folder `pathfinder32/<difficulty>` below `data`, half of the pictures joined; returns it."""
    from PIL import Image

    top, rng = data / "pathfinder32" / difficulty, np.random.default_rng(seed)
    (top / "metadata").mkdir(parents=True)
    for first in range(0, pictures, A_FILE):
        number, lines = first // A_FILE, []
        (top / f"imgs/{number}").mkdir(parents=True)
        for sample in range(min(A_FILE, pictures - first)):
            joined = sample % 2
            Image.fromarray(draw(rng, bool(joined))).save(top / f"imgs/{number}/sample_{sample}.png")
            lines.append(f"imgs/{number} sample_{sample}.png {sample} {joined} 1.0 14 4 2 0.5 1 1\n")
        (top / f"metadata/{number}.npy").write_text("".join(lines))
    return top
