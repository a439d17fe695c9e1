"""Vocabularies: of words, and of byte pairs (Sennrich et al. 2016, on bytes as in GPT-2)."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.files.fetch import DataError
from attnlab.data.files.regular_file import LARGEST, read_regular

if TYPE_CHECKING:
    import tokenizers

REMEMBERED = 2**20
"""words in the cache of spellings"""
SAMPLE = "Zoë , 雪 @-@ 3 <unk> 😀"
"""a text that only a lossless tokenizer reproduces"""
MOST_LISTED = 20
"""words that a message lists at most"""


class Vocabulary:
    """Ids of words, each once, from 3 on; 0 is padding, 1 the end (and the decoder's start), 2 the start."""

    pad_id, end_id, start_id = 0, 1, 2
    never_targets = (pad_id, start_id)
    special: ClassVar[tuple[str, ...]] = ("<pad>", "<end>", "<start>")

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*self.special, *words)
        self._ids = {word: number for number, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ValueError("a vocabulary has each word once")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """The ids of words, without framing; a DataError names an unknown word and the nearest one, or the words."""
        try:
            return [self._ids[word] for word in words]
        except KeyError as error:
            unknown, known = error.args[0], self.words[len(self.special) :]
            near = get_close_matches(str(unknown), known, n=1)
            offer = f"the nearest is {near[0]!r}" if near else f"its words are {listed(map(repr, known), MOST_LISTED)}"
            raise DataError(f"the word {unknown!r} is not in the vocabulary; {offer}") from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of ids up to the first end, without padding and start."""
        shown = takewhile(lambda number: number != self.end_id, ids)
        return [self.words[number] for number in shown if number >= len(self.special)]


class Symbols(Vocabulary):
    """Ids of symbols of a task without a start token, from 2 on."""

    special = ("<pad>", "<end>")


class BytePair:
    """A byte-level byte-pair vocabulary, which covers every text.

    Ids below 4 are special: 0 padding, 1 end, 2 start, 3 mask; the ids of the tokenizer follow, each 4 higher.

    `spellings[word]` are the ids of a word (without white space) with a blank in front. GPT-2's rules never join two
    words, so the ids of a text with single blanks, one in front too, are the ids of its words; the lookup by word is
    several times faster.

    Args:
        tokenizer: from the package `tokenizers`; its special tokens, templates, truncation and padding are not used.
    """

    pad_id, end_id, start_id, mask_id = 0, 1, 2, 3
    n_special = 4
    never_targets = (pad_id, start_id, mask_id)

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # `<mask>` or `</s>` in a text counts as text
        tokenizer.encode_special_tokens = True
        self.spellings = _Spellings(tokenizer, self.n_special)
        # ids may have gaps
        self._size = max(tokenizer.get_vocab().values(), default=-1) + 1 + self.n_special

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> Self:
        """Trains a vocabulary of `size` ids on running text; deterministic.

        Args:
            size: with special ids, at least 260 (4 special ids and all bytes); the result is smaller if the text has
                too few repeated pairs.
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
        """Loads a `tokenizer.json`; a DataError if it is missing, invalid or lossy (not of bytes, or changes case)."""
        from tokenizers import Tokenizer

        try:
            coder = cls(Tokenizer.from_str(read_regular(path, LARGEST).decode()))
        except OSError as error:
            raise DataError(f"{path}: no tokenizer.json there ({error.strerror})") from None
        except Exception as error:
            # the package raises plain Exceptions
            raise DataError(f"{path} is no tokenizer.json of the package tokenizers: {error}") from None
        if (again := coder.decode(coder.encode([SAMPLE])[0])).removeprefix(" ") != SAMPLE:
            raise DataError(f"{path} loses text: {SAMPLE!r} comes back as {again!r}; byte-level pairs are expected")
        return coder

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(), encoding="utf-8")

    def __len__(self) -> int:
        return self._size

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int32, without framing."""
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(text.ids, dtype=np.int32) + self.n_special for text in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without special ids."""
        return self.tokenizer.decode([int(i) - self.n_special for i in ids if i >= self.n_special])


def join_spellings(spellings: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated ids of words, and the number of words that begin at each id; both int32.

    A word without ids counts at the next id.
    """
    ids = np.fromiter(chain.from_iterable(spellings), dtype=np.int32)
    ends = np.cumsum(np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings)))
    starts = np.concatenate(([0], ends))[:-1] if len(ends) else ends
    counted = np.bincount(np.minimum(starts, len(ids) - 1), minlength=len(ids)) if len(ids) else ids
    return ids, counted.astype(np.int32)


class _Spellings(dict[str, tuple[int, ...]]):
    """The ids of each word, computed at its first use."""

    def __init__(self, tokenizer: "tokenizers.Tokenizer", shift: int) -> None:
        self.tokenizer, self.shift = tokenizer, shift

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= REMEMBERED:
            self.clear()
        encoding = self.tokenizer.encode(f" {word}", add_special_tokens=False)
        self[word] = tuple(i + self.shift for i in encoding.ids)
        return self[word]
