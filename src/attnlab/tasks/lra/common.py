"""Shared code of the tasks of the Long Range Arena (Tay et al. 2021): files, cache, descriptions.

LRA's release is one archive, `lra_release.gz` (7.7 GB; a gzipped tar in spite of its name), with ListOps, the retrieval
pairs and Pathfinder. It is read without unpacking; unpacked folders are read as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.batch import LabelledBatch
from attnlab.data.examples import LabelledPairs, LabelledSequences
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree
from attnlab.data.files.progress import say, track
from attnlab.data.picture_sequences import N_GREYS, PAD_ID, SIDE, GreyPictures
from attnlab.data.ragged_arrays import Ragged, RaggedWriter
from attnlab.data.task_spec import Modality
from attnlab.data.user_inputs import Form, encoded, picture
from attnlab.tasks.base import Prepared, Task

RELEASE = "https://storage.googleapis.com/long-range-arena/lra_release.gz (7.7 GB, a tar archive, read as it is"
SIDES = ("inputs", "others")
Labelled = TypeVar("Labelled", LabelledSequences, LabelledPairs)
Row = tuple[Sequence[bytes], int]
"""one or two sequences, and their class"""
TEXT_BINS = (0, 250, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000)
"""lower edges of the length ranges in results on texts, in bytes"""


class LraTask(Task):
    """Base class: a classification with training, validation and test set."""

    kind = "classification"
    modality: ClassVar[Modality] = "tokens"
    subsets = ("train", "val", "test")

    def read_once(
        self,
        folders: Folders,
        name: str,
        wanted: Callable[[str], bool],
        build: Callable[[FileTree, Path], None],
        **options: object,
    ) -> tuple[FileTree, Path]:
        """The official files, and the cache folder that `build` fills from them.

        Args:
            name: beginning of the folder's name.
            wanted: condition for the files that are read.
            options: all options that the content of the folder depends on.
        """
        (source,) = self.sources()
        tree = source.open(folders)
        options["files"] = tree.identity(wanted, folders.cache)
        return tree, self.cached(folders.cache, name, options, partial(build, tree), source.title)


class LraPictures(LraTask):
    """Base class: grey pictures, read pixel by pixel.

    classes: names of the classes.
    """

    classes: ClassVar[Sequence[str]]

    def example(self, prepared: Prepared[GreyPictures], subset: str, number: int) -> str:
        return prepared.subsets[subset].example(number, self.classes)

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[np.ndarray]) -> LabelledBatch:
        """Inputs are grey pictures, uint8 [32, 32]."""
        form = Form("a picture", (object,))
        images = np.stack(encoded(inputs, form, lambda pixels: picture(pixels, (SIDE, SIDE))))
        rows = np.arange(len(images))
        return GreyPictures(images, np.zeros(len(images), dtype=np.uint8), rows).batch(rows)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[int]) -> list[str]:
        return [self.classes[output] for output in outputs]

    def prepared(
        self, arrays: Mapping[str, np.ndarray], rows: Mapping[str, np.ndarray], about: str
    ) -> Prepared[GreyPictures]:
        """The task with its TaskSpec and the pictures of each subset, which are rows of all `images` and `answers`."""
        spec = self.task_spec(
            input_vocabulary=N_GREYS + 1, n_classes=len(self.classes), pad_id=PAD_ID, max_input_length=SIDE**2
        )
        images, answers = arrays["images"], arrays["answers"]
        subsets = {name: GreyPictures(images, answers, part) for name, part in rows.items()}
        return Prepared(spec=spec, subsets=subsets, about=about)


def release_source(title: str, folder: str, *elsewhere: str) -> DataSource:
    """Source of one folder of the release: in the archive, unpacked, or at one of the paths `elsewhere`."""
    archives = ("lra_release.gz", "lra_release.tar.gz", "lra_release/lra_release.gz")
    unpacked = (*(f"{'lra_release/' * depth}{folder}" for depth in (3, 2, 1, 0)), *elsewhere)
    # no automatic download of 7.7 GB
    offer = f"{RELEASE}; of an unpacked copy the folder {folder} is enough)"
    return DataSource(title=title, paths=archives + unpacked, offers=(offer,))


def named(files: Iterable[str], folder: str) -> Callable[[str], bool]:
    """Condition for names in a FileTree: one of these files, at the top or directly in a folder of that name."""
    files = set(files)

    def wanted(name: str) -> bool:
        above, _, last = name.rpartition("/")
        return last in files and above.rpartition("/")[2] in ("", folder)

    return wanted


def announce(tree: FileTree) -> None:
    """Prints a message before a large archive such as the release is read."""
    if tree.path.is_file() and (size := tree.path.stat().st_size) > 2**30:
        say(f"reading {tree.path} ({size / 1e9:.1f} GB) once; this takes some minutes")


def write_files(
    tree: FileTree,
    cache_folder: Path,
    folder: str,
    files: Mapping[str, str],
    parse: Callable[[BufferedIOBase, str], Iterable[Row]],
    n_sides: int = 1,
) -> None:
    """Writes each of the files (name: subset) of a folder of the release into a cache folder.

    Args:
        cache_folder: where the arrays are written.
        parse: the rows of an open file, whose location for messages is the second argument.

    Raises:
        DataError: a file is missing or cannot be parsed.
    """
    left = dict(files)
    announce(tree)
    for name, where, file in tree.walk(named(files, folder)):
        subset = left.pop(name.rpartition("/")[2], None)
        if subset is not None:
            write_subset(cache_folder, subset, track(parse(file, where), f"reading {where}", None), n_sides)
        if not left:
            return
    raise DataError(f"{tree.path} lacks {listed(left)} of LRA's folder {folder}. Put the whole folder in its place.")


def write_subset(folder: Path, subset: str, rows: Iterable[Row], n_sides: int = 1) -> None:
    """Writes rows of one or two sequences and a class into a cache folder, one row at a time.

    Raises:
        DataError: there are no rows.
    """
    answers = []
    with ExitStack() as stack:
        sides = [RaggedWriter(folder, f"{subset}_{side}", largest=255) for side in SIDES[:n_sides]]
        writers = [stack.enter_context(side) for side in sides]
        for sequences, answer in rows:
            for writer, sequence in zip(writers, sequences, strict=True):
                writer.append(sequence)
            answers.append(answer)
    if not answers:
        raise DataError(f"{subset} is empty: there is not one example in its files. Put the official ones in place.")
    save_arrays(folder, **{f"{subset}_answers": np.array(answers, dtype=np.uint8)})


def read_subsets(
    kind: type[Labelled], folder: Path, subsets: Iterable[str], pad_id: int, length_bins: Sequence[int]
) -> dict[str, Labelled]:
    """The subsets that `write_subset` wrote, mapped into memory: of one side or of two, as their class says."""
    arrays, read = load_arrays(folder), dict[str, Labelled]()
    for subset in subsets:
        columns: dict[str, Any] = {"answers": arrays[f"{subset}_answers"]}
        columns |= {side: Ragged.from_arrays(arrays, f"{subset}_{side}") for side in SIDES if side in kind.held}
        read[subset] = kind(**columns, pad_id=pad_id, length_bins=length_bins)
    return read


def counted(sizes: Mapping[str, int], official: Mapping[str, int], otherwise: str) -> str:
    """Text about the sizes of subsets; names other official sizes, and then begins with `otherwise`."""
    other = {name: f" (official: {official[name]:,})" for name, size in sizes.items() if size != official[name]}
    return (otherwise if other else "") + ", ".join(
        f"{name} {size:,}{other.get(name, '')}" for name, size in sizes.items()
    )


def shortened(text: str, most: int = 300) -> str:
    """A text without its middle if it is long."""
    return text if len(text) <= most else f"{text[: most - 60]} ... {text[-60:]}"


def byte_tokens(text: bytes, max_length: int) -> bytes:
    """The first bytes of a text as token ids; 0 is padding, so a NUL byte becomes a blank."""
    return text[:max_length].replace(b"\0", b" ")


def text_ids(text: str, max_length: int) -> list[int]:
    """Token ids of a text that a user gives."""
    return list(byte_tokens(text.encode(), max_length))
