"""WikiText-103 (Merity et al. 2017, arXiv 1609.07843), masked: words of Wikipedia articles that were hidden (RoBERTa).

The first block of the validation text where tokens are bytes (`task.vocabulary_size=260`):

    reads    <start><eos> <mask> Homarus <mask>a<mask>mar<mask>s =<eos><eos>
    predicts '=', 'g', 'm', 'u'

Blocks are as many complete lines as fit (fairseq: `--sample-break-mode complete`), blank ones included, with a start
token in front and each line's end behind it. 15 % of the tokens are predicted; of these 80 % read `<mask>`, 10 % a
random token, 10 % stay (Liu et al. 2019, arXiv 1907.11692). In training they are drawn anew at every step; those of
validation and test are fixed.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from attnlab.data.files.archive import Source
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import MaskedBlocks, line_bounds
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.wikitext.files import CORPORA, find_text
from attnlab.tasks.wikitext.tokens import SHOWN, Level, Tokens, load_vocabulary, read_tokens, spell

STREAMS = {"val": 1, "test": 2}


class Wikitext103Masked(Task):
    """WikiText-103 as a masked language model on byte pairs.

    Args:
        text: raw: all words, as published; tokens: rare words are `<unk>`, the text of the causal task.
        vocabulary_size: ids of the byte-pair vocabulary, trained on the training text.
        tokenizer: path of a `tokenizer.json` to use instead of a trained one.
        length: most tokens a block in training, start token included.
        eval_length: likewise in validation and test; null = `length`.
        mask_share: share of the tokens that are predicted.
        source: files: plain files or their archive, downloaded if they are nowhere; hub: Hugging Face `datasets`; auto:
            files where they are, else the hub.
        data_seed: draws what is hidden in validation and test.
    """

    kind = "masked_language_model"
    modality = "tokens"
    version = 1
    has_validation = True
    subsets = ("train", "val", "test")
    published = "words with line ends: train 103,227,021, val 217,646, test 245,569"

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

    def sources(self) -> list[Source]:
        return [CORPORA[self.corpus].source]

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        batch = prepared.subsets[subset].batch(np.array([number]))
        (vocabulary,) = map(load_vocabulary, prepared.keep.values())
        hidden = batch.targets[0, :SHOWN][batch.scored[0, :SHOWN]].tolist()
        predicted = ", ".join(repr(vocabulary.decode([i])) for i in hidden)
        if subset not in STREAMS:
            predicted = f"{self.mask_share:.0%} of them, hidden anew at every step"
        return f"reads    {spell(vocabulary, batch.inputs[0].tolist())}\npredicts {predicted}"

    def prepare(self, folders: Folders) -> Prepared:
        tokenizer = None if self.tokenizer is None else Path(self.tokenizer).expanduser()
        level = Level(kind="byte_pairs", size=self.vocabulary_size, tokenizer=tokenizer)
        read = read_tokens(find_text(self.corpus, self.source, folders), level, self.version, folders.cache)
        longest = max(self.length, self.eval_length)
        spec = TaskSpec(
            kind=self.kind,
            modality=self.modality,
            input_vocabulary=len(read.vocabulary),
            output_vocabulary=len(read.vocabulary),
            pad_id=read.vocabulary.pad_id,
            end_id=read.vocabulary.end_id,
            mask_id=read.vocabulary.mask_id,
            n_special=read.vocabulary.n_special,
            never_targets=tuple(range(read.vocabulary.n_special)),
            mask_share=self.mask_share,
            max_input_length=longest,
            max_output_length=longest,
            metrics=("masked_token_perplexity",),
        )
        subsets = {part: self._blocks(read, part, spec) for part in read.tokens}
        return Prepared(spec=spec, subsets=subsets, about=read.about, keep={read.file.name: read.file})

    def _blocks(self, read: Tokens, part: str, spec: TaskSpec) -> MaskedBlocks:
        length = self.length if part == "train" else self.eval_length
        bounds = line_bounds(read.tokens[part], spec.end_id, length - 1)
        draw = (self.data_seed, STREAMS[part]) if part in STREAMS else None
        return MaskedBlocks(read.tokens[part], bounds, read.vocabulary.start_id, spec, draw)
