"""WikiText-103 (Merity et al. 2017, arXiv 1609.07843): every next word of Wikipedia's good and featured articles.

The first tokens of the validation text, `wiki.valid.tokens`, at word level. A line end is `<eos>`; blank lines count:

    reads    <eos><eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common
    predicts <eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common lobster

The text is one stream, cut into blocks without regard to lines or articles (fairseq: `--sample-break-mode none`); a
block sees nothing of the one before it. Word level: every word of the training text is in the vocabulary, 267,735 of
them with the line end, as published; ours has two special ids more (fairseq rounds up to 267,744).

`word_perplexity` counts a word for each line end, so byte pairs and words can be compared; `token_perplexity` is per
token, whatever that is. At word level the two are equal.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from attnlab.data.files.archive import Source
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import TextBlocks
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.wikitext.files import CORPORA, find_text
from attnlab.tasks.wikitext.tokens import Level, Tokens, load_vocabulary, read_tokens, spell


class Wikitext103(Task):
    """WikiText-103 as a causal language model.

    Args:
        tokens: words, as published; or byte pairs.
        vocabulary_size: ids of the byte-pair vocabulary, trained on the training text.
        tokenizer: path of a `tokenizer.json` to use instead of a trained one.
        length: tokens a block in training.
        eval_length: tokens a block scores in validation and test; null = `length`.
        eval_context: tokens that a block of validation and test reads besides, before those it scores; 0 as published.
        source: files: plain files or their archive, downloaded if they are nowhere; hub: Hugging Face `datasets`; auto:
            files where they are, else the hub.
    """

    kind = "language_model"
    modality = "tokens"
    version = 1
    has_validation = True
    subsets = ("train", "val", "test")
    published = "words with line ends: train 103,227,021, val 217,646, test 245,569"
    corpus = "wikitext-103"

    def __init__(
        self,
        tokens: Literal["words", "byte_pairs"] = "words",
        vocabulary_size: Annotated[int, "[260, inf) up to 1e7"] = 50265,
        tokenizer: str | None = None,
        length: Annotated[int, "[1, inf)"] = 512,
        eval_length: Annotated[int, "[1, inf)"] | None = None,
        eval_context: Annotated[int, "[0, inf)"] = 0,
        source: Literal["auto", "files", "hub"] = "auto",
    ) -> None:
        self.tokens, self.vocabulary_size, self.tokenizer = tokens, vocabulary_size, tokenizer
        self.length, self.eval_length, self.eval_context = length, eval_length or length, eval_context
        self.source = source

    def sources(self) -> list[Source]:
        return [CORPORA[self.corpus].source]

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        batch = prepared.subsets[subset].batch(np.array([number]))
        (vocabulary,) = map(load_vocabulary, prepared.keep.values())
        inputs, targets = (spell(vocabulary, row.tolist()) for row in (batch.inputs[0], batch.targets[0]))
        return f"reads    {inputs}\npredicts {targets}"

    def prepare(self, folders: Folders) -> Prepared:
        if self.tokens == "words" and self.tokenizer is not None:
            raise DataError("task.tokenizer is for task.tokens=byte_pairs; with task.tokens=words there is none to use")
        tokenizer = None if self.tokenizer is None else Path(self.tokenizer).expanduser()
        count_words = self.tokens == "byte_pairs"
        level = Level(kind=self.tokens, size=self.vocabulary_size, tokenizer=tokenizer, count_words=count_words)
        read = read_tokens(find_text(self.corpus, self.source, folders), level, self.version, folders.cache)
        longest = max(self.length, self.eval_context + self.eval_length)
        spec = TaskSpec(
            kind=self.kind,
            modality=self.modality,
            input_vocabulary=len(read.vocabulary),
            output_vocabulary=len(read.vocabulary),
            pad_id=read.vocabulary.pad_id,
            end_id=read.vocabulary.end_id,
            n_special=read.vocabulary.n_special,
            never_targets=read.vocabulary.never_targets,
            max_input_length=longest,
            max_output_length=longest,
            metrics=("word_perplexity", "token_perplexity"),
        )
        subsets = {part: self._blocks(read, part, spec) for part in read.tokens}
        return Prepared(spec=spec, subsets=subsets, about=read.about, keep={read.file.name: read.file})

    def _blocks(self, read: Tokens, part: str, spec: TaskSpec) -> TextBlocks:
        length, context = (self.length, 0) if part == "train" else (self.eval_length, self.eval_context)
        return TextBlocks(read.tokens[part], length, spec, context, read.words.get(part))
