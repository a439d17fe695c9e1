"""Vocabulary of words and their ids."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import ClassVar

from attnlab.config.message_text import listed
from attnlab.data.files.fetch import DataError

MOST_LISTED = 20
"""words that a message lists at most"""


class Vocabulary:
    """Ids of words from 3 on, in the given order; 0 is padding, 1 the end (and the decoder's start), 2 the start.

    Args:
        words: all words, each once.
    """

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
        """The ids of words, without framing.

        Raises:
            DataError: a word is not in the vocabulary; names it and the nearest one, or the words there are.
        """
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
