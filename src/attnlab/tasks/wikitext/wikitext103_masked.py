"""WikiText-103 (Merity et al. 2017, arXiv 1609.07843), masked: words of Wikipedia articles that were hidden (RoBERTa).

The first block of the validation text where tokens are bytes (`task.vocabulary_size=260`):

    reads    <start><eos> <mask> Homarus <mask>a<mask>mar<mask>s =<eos><eos>
    predicts '=', 'g', 'm', 'u'

A block is as many complete lines as fit (fairseq: `--sample-break-mode complete`), with blank lines and line ends,
after a start token. 15 % of the tokens are predicted; of these 80 % become `<mask>`, 10 % a random token, 10 % do not
change (Liu et al. 2019, arXiv 1907.11692). Training draws them at every step; in validation and test they are fixed.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from attnlab.data.batch import LanguageBatch
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import MaskedBlocks, line_bounds
from attnlab.data.user_inputs import TEXT, encoded, language_batch
from attnlab.data.vocabulary import BytePair
from attnlab.tasks.base import Prepared
from attnlab.tasks.wikitext.base import WikitextTask
from attnlab.tasks.wikitext.tokens import SHOWN, SPECIAL, Tokens, encode_text, kept_vocabulary, spell

STREAMS = {"val": 1, "test": 2}


class Wikitext103Masked(WikitextTask):
    """WikiText-103 as a masked language model on byte pairs.

    Args:
        text: raw: all words, as published; tokens: rare words are `<unk>`, the text of the causal task.
        vocabulary_size: size of the byte-pair vocabulary, trained on the training text.
        tokenizer: path of a `tokenizer.json` to use instead of a trained one.
        length: maximum number of tokens per block in training, with the start token.
        eval_length: the same in validation and test; null = `length`.
        mask_share: share of predicted tokens.
        source: files: plain files or their archive, downloaded if missing; hub: Hugging Face `datasets`; auto: files if
            they exist, else the hub.
        data_seed: seed of the masks in validation and test.
    """

    kind = "masked_language_model"
    version = 1
    metrics = ("masked_token_perplexity",)

    def __init__(
        self,
        text: Literal["raw", "tokens"] = "raw",
        vocabulary_size: Annotated[int, "[260, inf) up to 1e7"] = 50265,
        tokenizer: str | None = None,
        length: Annotated[int, "[2, inf)"] = 512,
        eval_length: Annotated[int, "[2, inf)"] | None = None,
        mask_share: Annotated[float, "(0, 1)"] = 0.15,
        source: Literal["auto", "files", "hub"] = "auto",
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.corpus = "wikitext-103-raw" if text == "raw" else "wikitext-103"
        self.vocabulary_size, self.tokenizer = vocabulary_size, tokenizer
        self.length, self.eval_length = length, eval_length or length
        self.mask_share, self.source, self.data_seed = mask_share, source, data_seed

    def example(self, prepared: Prepared[MaskedBlocks], subset: str, number: int) -> str:
        batch = prepared.subsets[subset].batch(np.array([number]))
        vocabulary = kept_vocabulary(prepared.keep)
        hidden = batch.targets[0, :SHOWN][batch.scored[0, :SHOWN]].tolist()
        predicted = ", ".join(repr(vocabulary.decode([i])) for i in hidden)
        if subset not in STREAMS:
            predicted = f"{self.mask_share:.0%} of them, hidden anew at every step"
        return f"reads    {spell(vocabulary, batch.inputs[0].tolist())}\npredicts {predicted}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LanguageBatch:
        """Inputs are texts as in the files, in which `<mask>` stands for each hidden token."""
        vocabulary = kept_vocabulary(prepared.keep)

        def row(text: str) -> list[int]:
            first, *others = (encode_text(vocabulary, part) for part in text.split(SPECIAL[BytePair.mask_id]))
            return [vocabulary.start_id, *first, *(i for part in others for i in (BytePair.mask_id, *part))]

        return language_batch(encoded(inputs, TEXT, row), vocabulary.pad_id, BytePair.mask_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[list[str]]:
        vocabulary = kept_vocabulary(prepared.keep)
        return [[spell(vocabulary, [token]) for token in ids] for ids in outputs]

    def prepare(self, folders: Folders) -> Prepared[MaskedBlocks]:
        read = self.read(folders, "byte_pairs")
        longest, vocabulary = max(self.length, self.eval_length), read.vocabulary
        special = range(vocabulary.n_special)
        return self.prepared(read, longest, special, mask_id=BytePair.mask_id, mask_share=self.mask_share)

    def blocks(self, read: Tokens, part: str, spec: TaskSpec) -> MaskedBlocks:
        length = self.length if part == "train" else self.eval_length
        bounds = line_bounds(read.tokens[part], spec.end_id, length - 1)
        draw = (self.data_seed, STREAMS[part]) if part in STREAMS else None
        return MaskedBlocks(read.tokens[part], bounds, read.vocabulary.start_id, spec, draw)
