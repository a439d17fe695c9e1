"""Base class of the WikiText tasks, causal and masked."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

from attnlab.config.user_path import user_path
from attnlab.data.examples import Examples
from attnlab.data.files.fetch import Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.task_spec import TaskSpec
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.wikitext.files import CORPORA, find_text
from attnlab.tasks.wikitext.tokens import Level, Tokens, read_tokens, write_tokens


class WikitextTask(Task):
    """Base class of the causal and the masked task.

    corpus: name in `CORPORA`; the other attributes are options.
    """

    modality = "tokens"
    subsets = ("train", "val", "test")
    published = "words with line ends: train 103,227,021, val 217,646, test 245,569"
    metrics: ClassVar[tuple[str, ...]]
    corpus: str = "wikitext-103"
    source: Literal["auto", "files", "hub"]
    tokenizer: str | None
    vocabulary_size: int

    def sources(self) -> list[DataSource]:
        return [CORPORA[self.corpus]]

    def read(self, folders: Folders, kind: Literal["words", "byte_pairs"], count_words: bool = False) -> Tokens:
        """The corpus as tokens."""
        tokenizer = None if self.tokenizer is None else user_path("task.tokenizer", self.tokenizer)
        level = Level(kind=kind, size=self.vocabulary_size, tokenizer=tokenizer, count_words=count_words)
        text = find_text(self.corpus, self.source, folders)
        options = {"text": text.identity, "level": level.identity()}
        build = partial(write_tokens, text=text, level=level)
        return read_tokens(self.cached(folders.cache, f"{self.corpus}_{kind}", options, build), text, level)

    def prepared(self, read: Tokens, longest: int, never_targets: Sequence[int], **masking: float) -> Prepared:
        """The task with its TaskSpec and the blocks of each part."""
        spec = self.task_spec(
            input_vocabulary=len(read.vocabulary),
            output_vocabulary=len(read.vocabulary),
            pad_id=read.vocabulary.pad_id,
            end_id=read.vocabulary.end_id,
            n_special=read.vocabulary.n_special,
            never_targets=tuple(never_targets),
            max_input_length=longest,
            max_output_length=longest,
            metrics=self.metrics,
            **masking,
        )
        subsets = {part: self.blocks(read, part, spec) for part in read.tokens}
        return Prepared(spec=spec, subsets=subsets, about=read.about, keep={read.file.name: read.file})

    @abstractmethod
    def blocks(self, read: Tokens, part: str, spec: TaskSpec) -> Examples:
        """The examples of a part."""
