"""The sheet of sample pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attnlab.data.sample_sheet import sample_grid
from attnlab.launch.tasks_cli import main


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


def test_pictures_in_colour_are_enlarged_by_whole_numbers(tmp_path: Path) -> None:
    image = np.zeros((75, 75, 3), dtype=np.uint8)
    image[10, 20] = 255, 156, 0
    sample_grid([image], ["orange"], tmp_path / "grid.png")
    sheet = np.array(Image.open(tmp_path / "grid.png"))
    assert sheet.shape == (150 + 14 + 8, 150 + 8, 3)
    assert (sheet[4 + 20 : 4 + 22, 4 + 40 : 4 + 42] == (255, 156, 0)).all()
    assert (sheet[4 : 4 + 20, 4 : 4 + 150] == 0).all()


def test_every_picture_has_a_title(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        sample_grid([np.zeros((32, 32), dtype=np.uint8)], [], tmp_path / "grid.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", ["lra_pathfinder", "lra_image"])
def test_the_list_of_tasks_draws_a_sheet(task: str, tiny_data: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    words = [task, f"paths.data={tiny_data / 'data'}", f"paths.cache={tiny_data / 'cache'}", f"pictures={sheet}"]
    assert main(words) == 0
    assert Image.open(sheet).size[0] > 128


def test_a_task_without_pictures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", f"pictures={tmp_path / 'sheet.png'}", f"paths.cache={tmp_path}"]) == 1
    assert "this task has none" in capsys.readouterr().err
