"""What the sequence tasks of the Long Range Arena (Tay et al. 2021) share: finding, reading, caching, describing.

LRA's release is one archive, `lra_release.gz` (7.7 GB; a gzipped tar in spite of its name), for ListOps, the retrieval
pairs and Pathfinder. It is read as it is, or any of its folders where that was unpacked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attnlab.config.suggest import listed
from attnlab.data.examples import Examples
from attnlab.data.files.archive import Source, Tree
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError
from attnlab.data.files.progress import say
from attnlab.data.labelled_sequences import LabelledPairs, LabelledSequences
from attnlab.data.ragged_arrays import Ragged, RaggedWriter
from attnlab.data.task_spec import Modality, TaskSpec

RELEASE = "https://storage.googleapis.com/long-range-arena/lra_release.gz (7.7 GB, a tar archive, read as it is"
SIDES = ("inputs", "others")
TEXT_BINS = (0, 250, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000)
"""ranges of lengths, in bytes, that results on texts are broken down by"""


def release_source(what: str, folder: str, *elsewhere: str) -> Source:
    """One folder of the release: in the archive, unpacked with all of it, by itself, or at a place of `elsewhere`."""
    archives = ("lra_release.gz", "lra_release.tar.gz", "lra_release/lra_release.gz")
    above = ("lra_release/lra_release/lra_release/", "lra_release/lra_release/", "lra_release/", "")
    unpacked = (*(f"{place}{folder}" for place in above), *elsewhere)
    # 7.7 GB are not downloaded unasked
    offer = f"{RELEASE}; of an unpacked copy the folder {folder} is enough)"
    return Source(what=what, places=archives + unpacked, offers=(offer,))


def named(files: Iterable[str], folder: str) -> Callable[[str], bool]:
    """Which names in a tree are one of these files, at its top or directly in a folder of that name."""
    files = set(files)

    def wanted(name: str) -> bool:
        above, _, last = name.rpartition("/")
        return last in files and above.rpartition("/")[2] in ("", folder)

    return wanted


def announce(tree: Tree) -> None:
    """Says so before an archive of the size of the release is read."""
    if tree.path.is_file() and (size := tree.path.stat().st_size) > 2**30:
        say(f"reading {tree.path} ({size / 1e9:.1f} GB) once; this takes some minutes")


def byte_spec(modality: Modality, max_length: int) -> TaskSpec:
    """What a network must know of a task with two classes of texts, read byte by byte (`byte_tokens`)."""
    return TaskSpec(
        kind="classification",
        modality=modality,
        input_vocabulary=256,
        n_classes=2,
        pad_id=0,
        max_input_length=max_length,
    )


def each_file(tree: Tree, folder: str, files: Mapping[str, str]) -> Iterator[tuple[str, str, BinaryIO]]:
    """Subset, where it lies in words, and the open file, of each of the files (name: subset), as stored.

    Raises:
        DataError: one of them is not there.
    """
    left = dict(files)
    announce(tree)
    for name, where, file in tree.walk(named(files, folder)):
        subset = left.pop(name.rpartition("/")[2], None)
        if subset is not None:
            yield subset, where, file
        if not left:
            return
    raise DataError(f"{tree.path} lacks {listed(left)} of LRA's folder {folder}. Put the whole folder in its place.")


def write_subset(folder: Path, subset: str, rows: Iterable[tuple[Sequence[bytes], int]], n_sides: int = 1) -> None:
    """Writes sequences (one or two a row) and their classes into a cache folder, one row after another.

    Raises:
        DataError: no row.
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


def read_subsets(folder: Path, subsets: Iterable[str], pad_id: int, length_bins: Sequence[int]) -> dict[str, Examples]:
    """What `write_subset` wrote, mapped into memory."""
    arrays, found = load_arrays(folder), {}
    for subset in subsets:
        sides = [
            Ragged.from_arrays(arrays, f"{subset}_{side}") for side in SIDES if f"{subset}_{side}_values" in arrays
        ]
        kind = LabelledSequences if len(sides) == 1 else LabelledPairs
        found[subset] = kind(*sides, arrays[f"{subset}_answers"], pad_id, length_bins=length_bins)
    return found


def counted(sizes: Mapping[str, int], official: Mapping[str, int], otherwise: str) -> str:
    """Sizes in words; with `otherwise` in front and the official size behind where one is another."""
    other = {name: f" (official: {official[name]:,})" for name, size in sizes.items() if size != official[name]}
    return (otherwise if other else "") + ", ".join(
        f"{name} {size:,}{other.get(name, '')}" for name, size in sizes.items()
    )


def shortened(text: str, most: int = 300) -> str:
    """A text for a reader, its middle left out when long."""
    return text if len(text) <= most else f"{text[: most - 60]} ... {text[-60:]}"


def byte_tokens(text: bytes, max_length: int) -> bytes:
    """The first bytes of a text, each its own token id; 0 pads, so that a NUL byte, should there be one, is a blank."""
    return text[:max_length].replace(b"\0", b" ")
