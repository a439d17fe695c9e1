"""Official files of every task: what is derived from them follows their content."""

import io
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.official_layout_converters import python2
from support.tiny_data import write, write_data

from attnlab.config.conf_files import group_choices, task_yaml
from attnlab.config.job_config import compose_config
from attnlab.config.shipped_files import CONF
from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import make_task
from attnlab.tasks.mathematics.generator import DIFFICULTIES
from attnlab.tasks.scan.grammar import interpret
from attnlab.tasks.scan.splits import drawing, file_path

Change = Callable[[bytes], bytes]


def swapped(first: bytes, second: bytes) -> Change:
    return lambda content: content.translate(bytes.maketrans(first + second, second + first))


def other_batch(content: bytes) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 3072), dtype=np.uint8)
    return python2.batch(pixels, [0] * 6, [f"{number}.png" for number in range(6)])


def blank_picture(content: bytes) -> bytes:
    picture = io.BytesIO()
    Image.new("L", (32, 32)).save(picture, "PNG")
    return picture.getvalue().ljust(len(content), b"\0")


@dataclass(frozen=True)
class Files:
    """A task with official files: words of its command, its folder below the data folder, a change of a file."""

    words: tuple[str, ...]
    folder: str
    file: str = ""
    change: Change | None = None


ADDITION = ("task.source=official", "task.module=arithmetic__add_or_sub")
FEW_SHOTS = "fewshot_num1_rep1"
BYTE_PAIRS = ("task.vocabulary_size=300",)
TASKS = {
    "pcfg": Files(("task.split=substitutivity",), "am-i-compositional"),
    "cogs": Files((), "cogs"),
    "scan": Files((f"task.split={FEW_SHOTS}",), "SCAN"),
    "cfq": Files(("task.split=mcd1",), "cfq", "dataset.json", lambda text: text.replace(b"direct M1", b"manage M1")),
    "mathematics": Files(ADDITION, "mathematics", "arithmetic__add_or_sub.txt", swapped(b"3", b"4")),
    "lra_listops": Files(("task.source=official",), "listops", "basic_train.tsv", swapped(b"3", b"4")),
    "lra_text": Files((), "aclImdb", "10_2.txt", swapped(b"a", b"o")),
    "lra_retrieval": Files((), "lra_release", "new_aan_pairs.eval.tsv", swapped(b"a", b"o")),
    "lra_pathfinder": Files((), "pathfinder32", "sample_3.png", blank_picture),
    "lra_image": Files((), "cifar-10-batches-py", "data_batch_2", other_batch),
    "wikitext2": Files(BYTE_PAIRS, "wikitext-2", "wiki.valid.tokens", swapped(b"a", b"o")),
    "wikitext103": Files((), "wikitext-103", "wiki.valid.tokens", swapped(b"a", b"o")),
    "wikitext103_masked": Files(BYTE_PAIRS, "wikitext-103-raw", "wiki.valid.raw", swapped(b"a", b"o")),
    "glue": Files(BYTE_PAIRS, "GLUE", "dev.tsv", swapped(b"0", b"1")),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of every task, which no test changes."""
    folder = tmp_path_factory.mktemp("official")
    write_data(folder)
    for part in (*DIFFICULTIES, "interpolate"):
        write(folder / f"mathematics/mathematics_dataset-v1.0/{part}/arithmetic__add_or_sub.txt", f"{part}3?\n3\n")
    for part in ("train", "val", "test"):
        write(folder / f"listops/basic_{part}.tsv", "Source\tTarget\n( ( ( [MAX 2 ) 3 ) ] )\t3\n")
    law = drawing(FEW_SHOTS)
    for part, commands in (("train", law.always | {min(law.pool)}), ("test", law.tested)):
        lines = (f"IN: {command} OUT: {' '.join(interpret(command.split()))}\n" for command in commands)
        write(folder / "SCAN" / file_path(FEW_SHOTS, part), "".join(lines))
    return folder


def data_hash(task: str, data: Path, cache: Path) -> str:
    words = [f"task={task}", *TASKS[task].words]
    return make_task(compose_config(words)["task"]).prepare(Folders(data, cache)).data_hash()


def test_every_task_with_files_is_here() -> None:
    nodes = {name: task_yaml(name, CONF) for name in group_choices()["task"]}
    assert {name for name, node in nodes.items() if make_task(node).sources()} <= TASKS.keys()


@pytest.mark.parametrize("task", [task for task, files in TASKS.items() if files.change])
def test_equal_names_sizes_and_times_share_no_cache(data: Path, tmp_path: Path, task: str) -> None:
    files = TASKS[task]
    for folder in ("one", "two"):
        shutil.copytree(data / files.folder, tmp_path / folder / files.folder)
    changed = next(path for path in sorted((tmp_path / "two").rglob("*")) if path.name == files.file)
    status, content = changed.stat(), changed.read_bytes()
    changed.write_bytes(files.change(content))
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert changed.stat().st_size == status.st_size and changed.read_bytes() != content
    shared = [data_hash(task, tmp_path / folder, tmp_path / "cache") for folder in ("one", "two")]
    assert shared == [data_hash(task, tmp_path / folder, tmp_path / f"cache of {folder}") for folder in ("one", "two")]
    assert shared[0] != shared[1]


def folder_there(path: Path) -> None:
    path.mkdir()


def pipe_there(path: Path) -> None:
    os.mkfifo(path)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def unreadable_file(path: Path) -> None:
    """It can be opened, also by root, and its first byte cannot be read."""
    path.symlink_to("/proc/self/mem")


def one_of_each_kind(folder: Path) -> list[Path]:
    """The files of a folder; of more than ten that lie side by side the first one."""
    files: list[Path] = []
    for path in sorted({path.parent for path in folder.rglob("*") if path.is_file()}):
        inside = sorted(file for file in path.iterdir() if file.is_file())
        files += inside if len(inside) <= 10 else inside[:1]
    return files


@pytest.mark.parametrize("place", [folder_there, pipe_there, dangling_link, unreadable_file])
@pytest.mark.parametrize("task", TASKS)
def test_what_stands_in_the_place_of_an_official_file_is_named(
    data: Path, tmp_path: Path, task: str, place: Callable[[Path], None]
) -> None:
    copy = tmp_path / TASKS[task].folder
    shutil.copytree(data / TASKS[task].folder, copy)
    for file in one_of_each_kind(copy):
        away = file.rename(tmp_path / "away")
        place(file)
        with pytest.raises(DataError, match=f"{re.escape(file.name)}.* in its place|{re.escape(file.name)}.*read"):
            data_hash(task, tmp_path, tmp_path / "cache")
        file.rmdir() if file.is_dir() else file.unlink()
        away.rename(file)
    assert data_hash(task, tmp_path, tmp_path / "cache")


@pytest.mark.parametrize("place", [pipe_there, dangling_link, unreadable_file])
@pytest.mark.parametrize("task", TASKS)
def test_what_stands_in_the_place_of_all_official_files_is_named(
    tmp_path: Path, task: str, place: Callable[[Path], None]
) -> None:
    words = [f"task={task}", *TASKS[task].words]
    (source,) = make_task(compose_config(words)["task"]).sources()
    for number, name in enumerate(source.paths):
        path = tmp_path / f"data{number}" / name
        path.parent.mkdir(parents=True)
        place(path)
        with pytest.raises(DataError, match=re.escape(str(path))):
            data_hash(task, tmp_path / f"data{number}", tmp_path / "cache")
