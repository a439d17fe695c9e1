"""Readers of the WikiText corpora (Merity et al. 2017, arXiv 1609.07843): plain files, or Hugging Face `datasets`.

Both give the same lines; on the hub, blank lines are empty strings and parts are named train, validation and test.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Literal

from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.files.file_tree import DataSource, FileTree, Folder, find_tree, open_archive, text_lines
from attnlab.data.files.hugging_face import load_from_hub

HUB = "Salesforce/wikitext"
REVISION = "b08601e04326c79dfdd32d625aee71d232d685c3"
"""commit of the hub's repository"""
# site of the data set's first author; the publisher's address no longer exists
SITE = "https://wikitext.smerity.com/"
PARTS = {"train": "train", "val": "valid", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus as its authors publish it: `<name>/wiki.{train,valid,test}.<ending>` in `<name>-v1.zip`.

    ending: ending of the files: `tokens`, with `<unk>` for rare words, or `raw`, the same text with all words.
    size, sha256: size and checksum of the archive (github huggingface/datasets, datasets/wikitext/dataset_infos.json).
    sha1:   checksums of the files by part (github dmlc/gluon-nlp, its WikiText corpora).
    lines:  number of lines by part (same origin as sha256).
    """

    name: str
    ending: Literal["tokens", "raw"]
    size: int
    sha256: str
    sha1: Mapping[str, str]
    lines: Mapping[str, int]

    def file(self, part: str) -> str:
        """Name of a part's file."""
        return f"wiki.{PARTS[part]}.{self.ending}"

    @property
    def files(self) -> set[str]:
        """Names of all files."""
        return {self.file(part) for part in PARTS}

    @property
    def archive(self) -> OfficialFile:
        """The archive of all files."""
        path = f"{self.name}-v1.zip"
        return OfficialFile(path=path, url=SITE + path, size=self.size, sha256=self.sha256)

    @property
    def source(self) -> DataSource:
        """Locations and addresses of the files."""
        return DataSource(
            what=f"the text of {self.name}",
            paths=(self.name, self.archive.path, f"{self.name}/{self.archive.path}"),
            archive=self.archive,
            offers=(f"Hugging Face datasets ({HUB}, {self.name}-v1)",),
        )


CORPORA = {
    "wikitext-103": Corpus(
        name="wikitext-103",
        ending="tokens",
        size=190229076,
        sha256="242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
        sha1={
            "train": "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211",
            "val": "c326ac59dc587676d58c422eb8a03e119582f92b",
            "test": "8a5befc548865cec54ed4273cf87dbbad60d1e47",
        },
        lines={"train": 1801350, "val": 3760, "test": 4358},
    ),
    "wikitext-103-raw": Corpus(
        name="wikitext-103-raw",
        ending="raw",
        size=191984949,
        sha256="91c00ae287f0d699e18605c84afc9e45c192bc6b7797ff8837e5474655a33794",
        sha1={
            "train": "3d06627c15e834408cfee91293f862c11c1cc9ef",
            "val": "db78d4db83700cba1b1bf4a9381087043db2876d",
            "test": "6f1fe2054a940eebfc76b284b09680763b37f5ea",
        },
        lines={"train": 1801350, "val": 3760, "test": 4358},
    ),
    "wikitext-2": Corpus(
        name="wikitext-2",
        ending="tokens",
        size=4475746,
        sha256="92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
        sha1={
            "train": "863f29c46ef9d167fff4940ec821195882fe29d1",
            "val": "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422",
            "test": "c7b8ce0aa086fb34dab808c5c49224211eb2b172",
        },
        lines={"train": 36718, "val": 3760, "test": 4358},
    ),
}


class FileText:
    """A corpus in plain files or the official archive.

    origin:   location for messages.
    where:    origin for results, without folders of this machine.
    identity: part of the cache key; changes when the text may have changed.

    Args:
        tree: contains the files of all three parts.
    """

    def __init__(self, corpus: Corpus, tree: FileTree) -> None:
        self.corpus, self.tree, self.origin = corpus, tree, str(tree.path)
        self.where = "plain files" if isinstance(tree, Folder) else tree.path.name
        self.identity = tree.identity(lambda name: name in corpus.files)

    def lines(self, part: str) -> Iterator[str]:
        """The lines of train, val or test without their ends; can be read repeatedly.

        Raises:
            DataError: the text is cut short or invalid.
        """
        for where, file in self._open(part):
            for _, line in text_lines(file, where):
                yield line

    def is_official(self, part: str) -> bool:
        """Whether a part is the published one; reads its text."""
        digests = [hashlib.file_digest(file, "sha1") for _, file in self._open(part)]
        return [digest.hexdigest() for digest in digests] == [self.corpus.sha1[part]]

    def _open(self, part: str) -> Iterator[tuple[str, BinaryIO]]:
        wanted = self.corpus.file(part)
        for _, where, file in self.tree.walk(lambda name: name == wanted):
            yield where, file


class HubText:
    """A corpus from Hugging Face, through the package `datasets` and its cache; attributes as in `FileText`."""

    origin = where = f"Hugging Face {HUB} at {REVISION[:12]}"

    def __init__(self, corpus: Corpus, folders: Folders) -> None:
        self.corpus, self.folders = corpus, folders
        self.identity = [HUB, REVISION, f"{corpus.name}-v1"]

    def lines(self, part: str) -> Iterator[str]:
        """As in `FileText`.

        Raises:
            DataError: the hub or the package is not available.
        """
        for row in self._rows(part):
            yield row.rstrip("\r\n")

    def is_official(self, part: str) -> bool:
        """As in `FileText`."""
        digest = hashlib.sha1()
        for row in self._rows(part):
            # a blank line is a blank in the files, an empty row here
            digest.update((row or " \n").encode())
        return digest.hexdigest() == self.corpus.sha1[part]

    def _rows(self, part: str) -> Iterator[str]:
        """Lines with their ends; an empty string for a blank line."""
        for batch in self._parts[{"val": "validation"}.get(part, part)].iter(batch_size=1000):
            yield from batch["text"]

    @cached_property
    def _parts(self) -> Mapping[str, Any]:
        name = f"{self.corpus.name}-v1"
        try:
            return load_from_hub(HUB, name, REVISION)
        except Exception as error:
            # the advice is the same for all causes (no network, no package, a full disk)
            archive = self.corpus.archive
            raise DataError(
                f"{HUB}, {name} could not be had from Hugging Face ({type(error).__name__}: {error}). Get "
                f"{archive.url} ({archive.size / 1e6:.1f} MB) and put it at {self.folders.data / archive.path}, or its "
                f"files into {self.folders.data / self.corpus.name} (another data folder: paths.data or ATTNLAB_DATA)."
            ) from error


Text = FileText | HubText


def find_text(name: str, source: Literal["auto", "files", "hub"], folders: Folders) -> Text:
    """The corpus of this name.

    Args:
        source: files: plain files or the archive, downloaded if both are missing; hub: Hugging Face `datasets`; auto:
            files if they exist, else the hub (contacted at the first read).

    Raises:
        DataError: files are incomplete, or they are missing and cannot be downloaded.
    """
    corpus = CORPORA[name]
    if source == "hub":
        return HubText(corpus, folders)
    locations = [(folders.data, path) for path in corpus.source.paths]
    for folder, path in [*locations, (folders.cache / "downloads", corpus.archive.path)]:
        tree = find_tree(folder, [path])
        if tree is not None and _has_files(corpus, tree):
            return FileText(corpus, tree)
    if source == "auto":
        return HubText(corpus, folders)
    tree = open_archive(fetch(corpus.archive, folders.data, folders.cache))
    _has_files(corpus, tree)
    return FileText(corpus, tree)


def _has_files(corpus: Corpus, tree: FileTree) -> bool:
    """Whether the files of all parts exist; a folder may have none of them.

    Raises:
        DataError: some files are missing, or an archive has none of them.
    """
    there = {name for name, _, _ in tree.walk(lambda name: name in corpus.files)}
    if there < corpus.files and (there or not isinstance(tree, Folder)):
        absent, found = (", ".join(sorted(names)) or "none of them" for names in (corpus.files - there, there))
        raise DataError(f"{tree.path} lacks {absent}; there: {found}. Put the official {corpus.name} in its place.")
    return bool(there)
