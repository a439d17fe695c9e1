"""Vocabularies: numbers of words, unknown words."""

import pytest

from attnlab.data.files.fetch import DataError
from attnlab.data.vocabulary import Vocabulary


def test_words_are_numbered_from_three() -> None:
    words = Vocabulary(["walk", "jump"])
    assert len(words) == 5
    assert (words.pad_id, words.end_id, words.start_id) == (0, 1, 2)
    assert words.encode(["jump", "walk"]) == [4, 3]
    assert words.decode([2, 4, 3, 1, 0, 4]) == ["jump", "walk"]


def test_an_unknown_word_is_named_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"'jmup' is not in the vocabulary; the nearest is 'jump'"):
        Vocabulary(["walk", "jump"]).encode(["walk", "jmup"])
    with pytest.raises(DataError, match=r"^the word 'xyz' is not in the vocabulary; its words are 'walk', 'jump'$"):
        Vocabulary(["walk", "jump"]).encode(["xyz"])
    with pytest.raises(DataError, match=r"'a', .*, 't', \.\.\. \(26 in all\)$"):
        Vocabulary("abcdefghijklmnopqrstuvwxyz").encode([7])


def test_a_word_given_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="once"):
        Vocabulary(["walk", "walk"])
