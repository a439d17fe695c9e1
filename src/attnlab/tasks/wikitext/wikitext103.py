"""WikiText-103 (Merity et al. 2017, arXiv 1609.07843): every next word of Wikipedia's good and featured articles.

The first tokens of the validation text, `wiki.valid.tokens`, at word level. A line end is `<eos>`; blank lines count:

    reads    <eos><eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common
    predicts <eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common lobster

The text is one stream, cut into blocks regardless of lines and articles (fairseq: `--sample-break-mode none`); a block
does not read the block before it. At word level the vocabulary is all words of the training text, 267,735 with the line
end, as published, and two special ids (fairseq rounds up to 267,744).

`word_perplexity` counts a word for each line end, so that byte pairs and words can be compared; `token_perplexity` is
per word or byte pair. At word level the two are equal.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from attnlab.data.batch import LanguageBatch
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import TextBlocks
from attnlab.data.user_inputs import TEXT, encoded, language_batch
from attnlab.tasks.base import Prepared
from attnlab.tasks.wikitext.base import WikitextTask
from attnlab.tasks.wikitext.tokens import Tokens, encode_text, kept_vocabulary, spell


class Wikitext103(WikitextTask):
    """WikiText-103 as a causal language model.

    Args:
        tokens: words, as published; or byte pairs.
        vocabulary_size: size of the byte-pair vocabulary, trained on the training text.
        tokenizer: path of a `tokenizer.json` to use instead of a trained one.
        length: tokens per block in training.
        eval_length: scored tokens per block in validation and test; null = `length`.
        eval_context: further tokens that a block of validation and test reads before the scored ones; 0 as published.
        source: files: plain files or their archive, downloaded if missing; hub: Hugging Face `datasets`; auto: files if
            they exist, else the hub.
    """

    kind = "language_model"
    version = 1
    metrics = ("word_perplexity", "token_perplexity")

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

    def example(self, prepared: Prepared[TextBlocks], subset: str, number: int) -> str:
        batch = prepared.subsets[subset].batch(np.array([number]))
        vocabulary = kept_vocabulary(prepared.keep)
        inputs, targets = (spell(vocabulary, row.tolist()) for row in (batch.inputs[0], batch.targets[0]))
        return f"reads    {inputs}\npredicts {targets}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LanguageBatch:
        """Inputs are texts to be continued, as in the files: words between blanks, line ends count."""
        vocabulary = kept_vocabulary(prepared.keep)
        rows = encoded(inputs, TEXT, lambda text: [vocabulary.end_id, *encode_text(vocabulary, text)])
        return language_batch(rows, vocabulary.pad_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[str]:
        vocabulary = kept_vocabulary(prepared.keep)
        return [spell(vocabulary, ids) for ids in outputs]

    def require_possible(self) -> None:
        if self.tokens == "words" and self.tokenizer is not None:
            raise DataError("task.tokenizer is for task.tokens=byte_pairs; with task.tokens=words there is none to use")

    def prepare(self, folders: Folders) -> Prepared[TextBlocks]:
        self.require_possible()
        read = self.read(folders, self.tokens, count_words=self.tokens == "byte_pairs")
        longest = max(self.length, self.eval_context + self.eval_length)
        return self.prepared(read, longest, read.vocabulary.never_targets)

    def blocks(self, read: Tokens, part: str, spec: TaskSpec) -> TextBlocks:
        length, context = (self.length, 0) if part == "train" else (self.eval_length, self.eval_context)
        return TextBlocks(read.tokens[part], length, spec, context, read.words.get(part))
