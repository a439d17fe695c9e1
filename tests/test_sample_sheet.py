"""The sheet of sample pictures, with a stand-in for the optional torchvision."""

import builtins
import math
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import pad

from attnlab.data.files.fetch import DataError
from attnlab.data.sample_sheet import sample_grid
from attnlab.launch.tasks_cli import main


def make_grid(tiles: torch.Tensor, nrow: int, padding: int, pad_value: float) -> torch.Tensor:
    """As torchvision.utils.make_grid: `nrow` tiles a row, `padding` pixels of `pad_value` around each."""
    rows = math.ceil(len(tiles) / nrow)
    blank = torch.full_like(tiles[:1], pad_value).expand(rows * nrow - len(tiles), -1, -1, -1)
    tiles = pad(torch.cat([tiles, blank]), (padding, 0, padding, 0), value=pad_value)
    lines = [torch.cat(list(tiles[row * nrow : (row + 1) * nrow]), dim=2) for row in range(rows)]
    return pad(torch.cat(lines, dim=1), (0, padding, 0, padding), value=pad_value)


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = types.ModuleType("torchvision.utils")
    utils.make_grid = make_grid
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.utils", utils)


@pytest.mark.usefixtures("torchvision")
def test_grey_pictures_with_titles(tmp_path: Path) -> None:
    images = [np.full((32, 32), 40 * number, dtype=np.uint8) for number in range(5)]
    sample_grid(images, ["ship", "cat", "dog", "", "a rather long title"], tmp_path / "grid.png")
    sheet = np.array(Image.open(tmp_path / "grid.png"))
    # three tiles a row of 128 pixels, a title of 14 below each, 4 pixels between
    assert sheet.shape == (2 * (128 + 14 + 4) + 4, 3 * (128 + 4) + 4, 3)
    for number in range(5):
        row, column = divmod(number, 3)
        top, left = 4 + row * (128 + 14 + 4), 4 + column * (128 + 4)
        assert (sheet[top : top + 128, left : left + 128] == 40 * number).all()
        title = sheet[top + 128 : top + 142, left : left + 128]
        assert (title.min() < 128) == (number != 3)


@pytest.mark.usefixtures("torchvision")
def test_pictures_in_colour_are_enlarged_by_whole_numbers(tmp_path: Path) -> None:
    image = np.zeros((75, 75, 3), dtype=np.uint8)
    image[10, 20] = 255, 156, 0
    sample_grid([image], ["orange"], tmp_path / "grid.png")
    sheet = np.array(Image.open(tmp_path / "grid.png"))
    assert sheet.shape == (150 + 14 + 8, 150 + 8, 3)
    assert (sheet[4 + 20 : 4 + 22, 4 + 40 : 4 + 42] == (255, 156, 0)).all()
    assert (sheet[4 : 4 + 20, 4 : 4 + 150] == 0).all()


@pytest.mark.usefixtures("torchvision")
def test_every_picture_has_a_title(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        sample_grid([np.zeros((32, 32), dtype=np.uint8)], [], tmp_path / "grid.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (ImportError("No module named 'torchvision'"), r"not installed: pip install 'attnlab\[vision\]'"),
        (RuntimeError("operator torchvision::nms does not exist"), r"fits torch .*nms does not exist"),
    ],
)
def test_without_torchvision_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str
) -> None:
    importing = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.startswith("torchvision"):
            raise error
        return importing(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=complaint):
        sample_grid([np.zeros((32, 32), dtype=np.uint8)], ["black"], tmp_path / "grid.png")


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("task", ["lra_pathfinder", "lra_image"])
def test_the_list_of_tasks_draws_a_sheet(task: str, tiny_data: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    words = [task, f"paths.data={tiny_data / 'data'}", f"paths.cache={tiny_data / 'cache'}", f"pictures={sheet}"]
    assert main(words) == 0
    assert Image.open(sheet).size[0] > 128


def test_a_task_without_pictures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", f"pictures={tmp_path / 'sheet.png'}", f"paths.cache={tmp_path}"]) == 1
    assert "this task has none" in capsys.readouterr().err
