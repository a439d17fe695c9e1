"""Sequences of the six tasks of MAD, and their targets as functions of the inputs.

Definitions as in github athms/mad-lab (mad/data/instances.py, 0f49a45); the sequences are drawn here, all rows of a
table at once.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from attnlab.tasks.drawn_tagging import UNSCORED, Table, distinct
from attnlab.tasks.mad.options import split

NOTHING = -1
"""stands in the places of a motif that a shorter one leaves empty"""
Rng = np.random.Generator


def recall(rng: Rng, rows: int, vocabulary: int, length: int, noise_share: float, noise_vocabulary: int) -> Table:
    """Pairs of a key and its value, without the value of the last key [rows, length - 1].

    Every row has its own map from keys to values. The last key is one of those before, each as likely.

    Args:
        noise_share: of the pairs, two random numbers of the noise vocabulary in place of a key and a value; one pair at
            a random place is none.
        noise_vocabulary: the last numbers of the vocabulary.
    """
    keys, size = split(vocabulary - noise_vocabulary)
    pairs, every = length // 2 - 1, np.arange(rows)
    values = rng.integers(keys, size, (rows, keys))
    chosen = rng.integers(0, keys, (rows, pairs))
    noise = rng.random((rows, pairs)) < noise_share
    noise[every, rng.integers(0, pairs, rows)] = False
    drawn = np.stack((chosen, np.take_along_axis(values, chosen, axis=1)), axis=2)
    if noise_share:
        drawn[noise] = rng.integers(size, vocabulary, (int(noise.sum()), 2))
    shown = np.zeros((rows, keys), dtype=bool)
    shown[np.nonzero(~noise)[0], chosen[~noise]] = True
    last = np.where(shown, rng.random((rows, keys)), -1.0).argmax(axis=1)
    return np.concatenate((drawn.reshape(rows, -1), last[:, None]), axis=1)


def fuzzy_recall(
    rng: Rng, rows: int, vocabulary: int, length: int, key_motif: int, value_motif: int, shortest_key: int
) -> Table:
    """Pairs of a key and its value of several numbers each, without the last number of the last value [rows, length].

    A probe, a key and its value, is drawn for every row. It is shown at the first pair from a random place on, and is
    the last pair too. Keys are as long as `shortest_key` to `key_motif`, values as 1 to `value_motif`, each length as
    likely, and no number is twice in one. The last number of the vocabulary pads rows at the left.

    The published code shows no probe in 2.5 % of its test rows (600 drawn at the settings of the paper), whose last
    value then cannot be known. Here the probe comes at the latest in the last pair before the end.
    """
    keys, size = split(vocabulary - 1)
    draw_key = partial(_motifs, rng, rows, keys, shortest_key, key_motif)
    draw_value = partial(_motifs, rng, rows, size - keys, 1, value_motif, first=keys)
    longest, every = key_motif + value_motif, np.arange(rows)
    probe_key, probe_value = draw_key(), draw_value()
    probe_size = _size(probe_key) + _size(probe_value)
    begin = rng.integers(0, length - 2 * probe_size)
    end = length - probe_size - longest
    steps = 1 + (length - longest) // (1 + shortest_key)
    # keys so far and their values; the probe's are the first
    codes, known = np.zeros((rows, steps + 1), dtype=np.int64), np.empty((rows, steps + 1, value_motif), dtype=np.int64)
    codes[:, 0], known[:, 0] = _codes(probe_key, keys), probe_value
    written, at, shown = np.empty((rows, length + longest), dtype=np.int64), np.zeros(rows, int), np.zeros(rows, bool)
    for step in range(1, steps + 1):
        key, going = draw_key(), at < end
        codes[:, step], known[:, step] = _codes(key, keys), draw_value()
        # the first of the keys that are equal to it, perhaps itself
        value = known[every, (codes[:, : step + 1] == codes[:, step, None]).argmax(axis=1)]
        due = ~shown & ((at >= begin) | (at + _size(key) + _size(value) >= end))
        codes[due, step] = codes[due, 0]
        key, value = (np.where(due[:, None], *sides) for sides in ((probe_key, key), (probe_value, value)))
        shown |= codes[:, step] == codes[:, 0]
        at = _write(written, at, going, key, value)
    at = _write(written, at, np.ones(rows, dtype=bool), probe_key, probe_value)
    places = np.arange(length + 1) - (length + 1 - at)[:, None]
    padded = np.where(places < 0, vocabulary - 1, np.take_along_axis(written, places.clip(min=0), axis=1))
    return padded[:, :-1]


def _motifs(rng: Rng, rows: int, size: int, shortest: int, longest: int, first: int = 0) -> Table:
    """Different numbers from `first` to `first + size - 1` [rows, longest], behind the motif's length `NOTHING`."""
    lengths = rng.integers(shortest, longest + 1, (rows, 1))
    return np.where(np.arange(longest) < lengths, first + distinct(rng, rows, size, longest), NOTHING)


def _size(motifs: Table) -> np.ndarray:
    """Numbers of each motif."""
    return (motifs != NOTHING).sum(axis=1)


def _codes(motifs: Table, size: int) -> np.ndarray:
    """One number for each motif of numbers below `size`, equal for equal motifs."""
    return (motifs + 1) @ (size + 1) ** np.arange(motifs.shape[1])


def _write(table: Table, at: np.ndarray, going: np.ndarray, *motifs: Table) -> np.ndarray:
    """Writes motifs one after the other into the rows that are `going`, from the places `at` on; the places behind."""
    numbers = np.concatenate(motifs, axis=1)
    kept = (numbers != NOTHING) & going[:, None]
    rows, _ = np.nonzero(kept)
    table[rows, (at[:, None] + kept.cumsum(axis=1) - 1)[kept]] = numbers[kept]
    return at + kept.sum(axis=1)


def recalled(inputs: Table, keys: int, size: int, motif: int = 1) -> Table:
    """The values of keys that came before; `UNSCORED` where there is none.

    The target stands one place before the number in the sequence. The value of a key is the one of its first place.

    Args:
        keys: numbers below are in keys.
        size: other numbers below are in values.
        motif: longest motif of keys and of values.
    """
    rows, length = inputs.shape
    behind = np.full((rows, motif), size)
    wide = np.concatenate((behind[:, :1], inputs, behind), axis=1)
    is_key, is_value = wide < keys, (wide >= keys) & (wide < size)
    row, at = np.nonzero(is_key[:, 1:] & ~is_key[:, :-1])
    at = at + 1
    code, key_size, inside = row.astype(np.int64), np.zeros_like(at), np.ones(len(at), dtype=bool)
    for place in range(motif):
        inside = inside & is_key[row, at + place]
        key_size = key_size + inside
        code = code * (keys + 1) + np.where(inside, wide[row, at + place] + 1, 0)
    _, first, pair = np.unique(code, return_index=True, return_inverse=True)
    first = first[pair]
    again, value = first != np.arange(len(at)), at + key_size
    targets, inside = np.full_like(inputs, UNSCORED), again
    for place in range(motif):
        # the numbers of the value at the key's first place, as far as it and the sequence go
        source = value[first] + place
        inside = inside & is_value[row, source] & (value + place <= length + 1)
        # place p of the inputs is column p + 1 of `wide`
        targets[row[inside], (value + place)[inside] - 2] = wide[row[inside], source[inside]]
    return targets


def followed(inputs: Table, answers: Table) -> Table:
    """The next number at every place, and at the last one the answer."""
    return np.concatenate((inputs[:, 1:], answers[:, -1:]), axis=1)


def value_table(data_seed: int, vocabulary: int) -> np.ndarray:
    """The value of each key in memorization, no value twice; one map for all sequences."""
    keys, size = split(vocabulary - 1)
    return keys + np.random.default_rng((data_seed, vocabulary)).permutation(size - keys)[:keys]


def memorization(rng: Rng, rows: int, vocabulary: int, length: int) -> Table:
    """Keys, each in front of the last number of the vocabulary, which stands where its value would."""
    inputs = np.full((rows, length), vocabulary - 1)
    inputs[:, ::2] = rng.integers(0, split(vocabulary - 1)[0], (rows, length // 2))
    return inputs


def memorized(inputs: Table, values: np.ndarray | Sequence[int]) -> Table:
    """The values of the keys at even places, each at the next place."""
    targets = np.full_like(inputs, UNSCORED)
    targets[:, 1::2] = np.asarray(values)[inputs[:, ::2]]
    return targets


def compression(rng: Rng, rows: int, vocabulary: int, length: int) -> Table:
    """Random numbers, and the last number of the vocabulary as an end; the targets are the same."""
    inputs = rng.integers(0, vocabulary - 1, (rows, length))
    inputs[:, -1] = vocabulary - 1
    return inputs


def selective_copying(rng: Rng, rows: int, vocabulary: int, length: int, tokens_to_copy: int) -> Table:
    """Random numbers among blanks, then the copy number, then as many blanks as there are numbers to copy.

    Each blank stands in front of one of the numbers, each as likely, so that there is none behind the last one. Blanks
    are the last number but one of the vocabulary, the copy number is the last.
    """
    end = length - tokens_to_copy - 1
    before = rng.integers(0, tokens_to_copy, (rows, end - tokens_to_copy)) + tokens_to_copy * np.arange(rows)[:, None]
    blanks = np.bincount(before.ravel(), minlength=rows * tokens_to_copy).reshape(rows, tokens_to_copy)
    inputs = np.full((rows, length), vocabulary - 2)
    places = np.arange(tokens_to_copy) + blanks.cumsum(axis=1)
    np.put_along_axis(inputs, places, rng.integers(0, vocabulary - 2, (rows, tokens_to_copy)), axis=1)
    inputs[:, end] = vocabulary - 1
    return inputs


def copied(inputs: Table, vocabulary: int, tokens_to_copy: int) -> Table:
    """The numbers in front of the copy number, without blanks, at the last places."""
    targets = np.full_like(inputs, UNSCORED)
    targets[:, -tokens_to_copy:] = inputs[inputs < vocabulary - 2].reshape(-1, tokens_to_copy)
    return targets
