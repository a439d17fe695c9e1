"""Byte-pair tokens (Sennrich et al. 2016, on bytes as in GPT-2), trained here or given as a `tokenizer.json`."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np

from attnlab.data.files.fetch import DataError

REMEMBERED = 2**20
"""words whose ids are kept at a time"""
SAMPLE = "Zoë , 雪 @-@ 3 <unk> 😀"
"""a text that only a tokenizer without gaps gives back"""


class BytePair:
    """A byte-level byte-pair vocabulary. Ids below 4 are ours: 0 pads, 1 ends, 2 starts, 3 stands for a hidden token;
    the tokenizer's own ids follow, each 4 higher. No text is outside the vocabulary.

    `spellings[word]` are the ids of a word (a run without white space) with a blank in front. GPT-2's rules never join
    two words, so in a running text of single blanks, one in front too, these are the same ids as the whole text has;
    word by word they are found several times faster.

    Args:
        tokenizer: of the package `tokenizers`; its special tokens, templates, truncation and padding are not used.
    """

    pad_id, end_id, start_id, mask_id = 0, 1, 2, 3
    n_special = 4
    never_targets = (pad_id, start_id, mask_id)

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # `<mask>` or `</s>` in a text is text
        tokenizer.encode_special_tokens = True
        self.spellings = _Spellings(tokenizer, self.n_special)
        # ids may have gaps
        self._size = max(tokenizer.get_vocab().values(), default=-1) + 1 + self.n_special

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> Self:
        """A vocabulary of `size` ids, special ones included, from running text; the same text gives the same one.

        Args:
            size: at least 260 (4 special ids and all bytes); smaller where the text has no more pairs that repeat.
        """
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - cls.n_special,
            min_frequency=2,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a `tokenizer.json`.

        Raises:
            DataError: it is missing, none, or one that loses some texts (not on bytes, or changing case).
        """
        from tokenizers import Tokenizer

        try:
            found = cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise DataError(f"{path}: no tokenizer.json there ({error.strerror})") from None
        except Exception as error:
            # the package raises bare Exceptions
            raise DataError(f"{path} is no tokenizer.json of the package tokenizers: {error}") from None
        if (again := found.decode(found.encode([SAMPLE])[0])).removeprefix(" ") != SAMPLE:
            raise DataError(f"{path} loses text: {SAMPLE!r} comes back as {again!r}; byte-level pairs are expected")
        return found

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(), encoding="utf-8")

    def __len__(self) -> int:
        return self._size

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int32, without framing."""
        found = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(text.ids, dtype=np.int32) + self.n_special for text in found]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special ones are left out."""
        return self.tokenizer.decode([int(i) - self.n_special for i in ids if i >= self.n_special])


def join_spellings(spellings: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of words one after another, int32, and for each id how many words begin in it, int32.

    A word that a tokenizer leaves out altogether counts for its neighbour.
    """
    ids = np.fromiter(chain.from_iterable(spellings), dtype=np.int32)
    ends = np.cumsum(np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings)))
    starts = np.concatenate(([0], ends))[:-1] if len(ends) else ends
    counted = np.bincount(np.minimum(starts, len(ids) - 1), minlength=len(ids)) if len(ids) else ids
    return ids, counted.astype(np.int32)


class _Spellings(dict[str, tuple[int, ...]]):
    """The ids of each word, found when it is first asked for."""

    def __init__(self, tokenizer: "tokenizers.Tokenizer", shift: int) -> None:
        self.tokenizer, self.shift = tokenizer, shift

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= REMEMBERED:
            self.clear()
        found = self.tokenizer.encode(f" {word}", add_special_tokens=False)
        self[word] = tuple(i + self.shift for i in found.ids)
        return self[word]
