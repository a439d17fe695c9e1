"""Readers of the WikiText corpora (Merity et al. 2017, arXiv 1609.07843): plain files, or Hugging Face `datasets`.

Both give the same lines; on the hub, blank lines are empty strings and parts are named train, validation and test.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Literal

from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.files.folder_or_archive import FileTree, Folder, open_archive, text_lines
from attnlab.data.files.hugging_face import HubData
from attnlab.data.files.official_files import OfficialFiles, read_table

HUB = "Salesforce/wikitext"
REVISION = "b08601e04326c79dfdd32d625aee71d232d685c3"
"""commit of the hub's repository"""
PARTS = {"train": "train", "val": "valid", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class Corpus(OfficialFiles):
    """A corpus as its authors publish it: `<name>/wiki.{train,valid,test}.<ending>` in `<name>-v1.zip`.

    ending: ending of the files: `tokens`, with `<unk>` for rare words, or `raw`, the same text with all words.
    """

    ending: Literal["tokens", "raw"]
    archive: OfficialFile

    @property
    def name(self) -> str:
        """Name of the corpus, and of the folder of its files."""
        return self.paths[0]

    def text_file(self, part: str) -> str:
        """Name of a part's file."""
        return f"wiki.{PARTS[part]}.{self.ending}"

    @property
    def text_files(self) -> set[str]:
        """Names of all files."""
        return {self.text_file(part) for part in PARTS}


CORPORA = read_table(__file__, Corpus)


class FileText:
    """A corpus in plain files or the official archive.

    origin:   location for messages.
    where:    origin for results, without folders of this machine.
    identity: part of the cache key: the content of the files.

    Args:
        tree: contains the files of all three parts.
        cache: where the hashes of large files are remembered.
    """

    def __init__(self, corpus: Corpus, tree: FileTree, cache: Path) -> None:
        self.corpus, self.tree, self.origin = corpus, tree, str(tree.path)
        self.where = "plain files" if isinstance(tree, Folder) else tree.path.name
        self.identity = tree.identity(lambda name: name in corpus.text_files, cache)

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
        return [digest.hexdigest() for digest in digests] == [self.corpus.digests[part]]

    def _open(self, part: str) -> Iterator[tuple[str, BufferedIOBase]]:
        wanted = self.corpus.text_file(part)
        for _, where, file in self.tree.walk(lambda name: name == wanted):
            yield where, file


class HubText(HubData):
    """A corpus from Hugging Face, through the package `datasets` and its cache; attributes as in `FileText`."""

    def __init__(self, corpus: Corpus, folders: Folders) -> None:
        archive = corpus.archive
        advice = (
            f"Get {archive.url}{archive.size_note} and put it at {folders.data / archive.path}, or its "
            f"files into {folders.data / corpus.name} (another data folder: paths.data or ATTNLAB_DATA)."
        )
        super().__init__(HUB, f"{corpus.name}-v1", REVISION, advice)
        self.corpus, self.origin = corpus, self.where

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
        return digest.hexdigest() == self.corpus.digests[part]

    def _rows(self, part: str) -> Iterator[str]:
        """Lines with their ends; an empty string for a blank line."""
        for batch in self.splits[{"val": "validation"}.get(part, part)].iter(batch_size=1000):
            yield from batch["text"]


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
    for tree in corpus.trees(folders):
        if _has_files(corpus, tree):
            return FileText(corpus, tree, folders.cache)
    if source == "auto":
        return HubText(corpus, folders)
    tree = open_archive(fetch(corpus.archive, folders))
    _has_files(corpus, tree)
    return FileText(corpus, tree, folders.cache)


def _has_files(corpus: Corpus, tree: FileTree) -> bool:
    """Whether the files of all parts exist; a folder may have none of them.

    Raises:
        DataError: some files are missing, or an archive has none of them.
    """
    present_files = {name for name, _, _ in tree.walk(lambda name: name in corpus.text_files)}
    if present_files < corpus.text_files and (present_files or not isinstance(tree, Folder)):
        absent, present = (
            ", ".join(sorted(names)) or "none of them" for names in (corpus.text_files - present_files, present_files)
        )
        raise DataError(f"{tree.path} lacks {absent}; there: {present}. Put the official {corpus.name} in its place.")
    return bool(present_files)
