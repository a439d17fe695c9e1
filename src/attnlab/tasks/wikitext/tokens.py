"""WikiText as tokens: a vocabulary of the training text (or a given one), and each part as one long array of ids.

As in fairseq, a line is its words and an end token; a blank line is an end token.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from attnlab.data.files.cache import load_arrays
from attnlab.data.files.fetch import DataError, sha256_of
from attnlab.data.files.progress import say, track
from attnlab.data.ragged_arrays import RaggedWriter
from attnlab.data.vocabulary import BytePair, join_spellings
from attnlab.tasks.wikitext.files import PARTS, Text

TOGETHER = 1000
"""lines that are encoded together"""
SHOWN = 40
"""tokens of an example in its text"""
SPECIAL = ("<pad>", "<eos>", "<start>", "<mask>")
FACTS, WORDS_FILE = "facts.json", "words.txt"


class Words:
    """All words of the training text by frequency; ids below 3 are special as in a `Vocabulary`.

    Other words become `<unk>`, which also occurs in the texts.

    Args:
        words: all words with `<unk>`, each once.
    """

    pad_id, end_id, start_id = 0, 1, 2
    n_special = 3
    never_targets = (pad_id, start_id)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.spellings = _Spellings((word, (number,)) for number, word in enumerate(words, start=self.n_special))

    @classmethod
    def train(cls, texts: Iterable[str]) -> Self:
        """All words of a text; equally frequent words in alphabetical order."""
        counts = Counter({"<unk>": 0})
        for text in texts:
            counts.update(text.split())
        return cls(sorted(counts, key=lambda word: (-counts[word], word)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file with one word a line."""
        return cls(path.read_text(encoding="utf-8").split("\n"))

    def save(self, path: Path) -> None:
        """Writes a file with one word a line."""
        path.write_text("\n".join(self.words), encoding="utf-8")

    def __len__(self) -> int:
        return len(self.words) + self.n_special

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids, each after a blank."""
        return "".join(f" {self.words[i - self.n_special]}" for i in ids)


class _Spellings(dict[str, tuple[int]]):
    """The id of each word; counts the requests for unknown words."""

    unknown = 0

    def __missing__(self, word: str) -> tuple[int]:
        self.unknown += 1
        return self["<unk>"]


@dataclass(frozen=True, kw_only=True)
class Level:
    """Definition of a token.

    kind:        words or byte pairs.
    size:        size of a byte-pair vocabulary that is trained; not used otherwise.
    tokenizer:   a `tokenizer.json` to use instead.
    count_words: whether the number of words that begin at each token is stored.
    """

    kind: Literal["words", "byte_pairs"]
    size: int = 0
    tokenizer: Path | None = None
    count_words: bool = False

    @property
    def file(self) -> str:
        """Name of the vocabulary's file."""
        return WORDS_FILE if self.kind == "words" else "tokenizer.json"

    def identity(self) -> list[object]:
        """Part of the cache key: equal for levels with equal tokens.

        Raises:
            DataError: the tokenizer is missing or invalid.
        """
        if self.kind == "words":
            return [self.kind]
        if self.tokenizer is None:
            return [self.kind, self.size, self.count_words]
        BytePair.load(self.tokenizer)
        return [self.kind, sha256_of(self.tokenizer), self.count_words]

    def vocabulary(self, text: Text) -> Words | BytePair:
        """The given vocabulary, or one trained on the training text."""
        if self.tokenizer is not None:
            return BytePair.load(self.tokenizer)
        lines = track(text.lines("train"), f"reading {text.corpus.name}", text.corpus.sizes["train"])
        if self.kind == "words":
            return Words.train(lines)
        return BytePair.train(("".join(f" {word}" for word in line.split()) for line in lines), self.size)


@dataclass(frozen=True)
class Tokens:
    """A corpus as tokens.

    vocabulary: words or byte pairs.
    file:       path of the vocabulary.
    tokens:     [n] tokens by part (train, val, test), mapped from files.
    words:      [n] number of words that begin at each token, by part; empty if not stored.
    about:      one sentence about the text, its size, and parts that are not the published ones.
    """

    vocabulary: Words | BytePair
    file: Path
    tokens: Mapping[str, np.ndarray]
    words: Mapping[str, np.ndarray]
    about: str


def load_vocabulary(path: Path) -> Words | BytePair:
    """The vocabulary in the file `Tokens.file`."""
    return Words.load(path) if path.name == WORDS_FILE else BytePair.load(path)


def kept_vocabulary(keep: Mapping[str, Path]) -> Words | BytePair:
    """The vocabulary among the files that runs keep (`Prepared.keep`)."""
    (file,) = keep.values()
    return load_vocabulary(file)


def spell(vocabulary: Words | BytePair, ids: Sequence[int]) -> str:
    """The first `SHOWN` tokens as text, with names for special tokens."""
    runs = [(special, list(run)) for special, run in groupby(ids[:SHOWN], lambda i: i < vocabulary.n_special)]
    parts = ["".join(SPECIAL[i] for i in run) if special else vocabulary.decode(run) for special, run in runs]
    return "".join(parts) + (" ..." if len(ids) > SHOWN else "")


def encode_text(vocabulary: Words | BytePair, text: str) -> list[int]:
    """Ids of a text as in the files: words between blanks; an end token for each line end."""
    lines = [[i for word in line.split() for i in vocabulary.spellings[word]] for line in text.split("\n")]
    return [i for number, line in enumerate(lines) for i in ([vocabulary.end_id] * bool(number) + line)]


def read_tokens(folder: Path, text: Text, level: Level) -> Tokens:
    """A text as tokens, from the folder that `write_tokens` filled."""
    vocabulary, arrays = load_vocabulary(folder / level.file), load_arrays(folder)
    return Tokens(
        vocabulary=vocabulary,
        file=folder / level.file,
        tokens={part: arrays[f"{part}_values"] for part in PARTS},
        words={part: arrays[f"{part}_words_values"] for part in PARTS if f"{part}_words_values" in arrays},
        about=_about(text, level, len(vocabulary), json.loads((folder / FACTS).read_text())),
    )


def write_tokens(folder: Path, text: Text, level: Level) -> None:
    """Writes the vocabulary and the tokens of a text into a cache folder.

    Raises:
        DataError: the text is not available or invalid.
    """
    say(f"preparing {text.corpus.name} from {text.origin}: the vocabulary, then the tokens")
    vocabulary = level.vocabulary(text)
    vocabulary.save(folder / level.file)
    facts = {part: _encode(folder, text, part, vocabulary, level.count_words) for part in PARTS}
    (folder / FACTS).write_text(json.dumps(facts, indent=1, allow_nan=False))


def _encode(
    folder: Path, text: Text, part: str, vocabulary: Words | BytePair, count_words: bool
) -> dict[str, int | bool]:
    """Writes the tokens of a part; returns facts for `_about`."""
    lines = track(text.lines(part), f"encoding {text.corpus.name} {part}", text.corpus.sizes[part])
    facts, end = Counter[str](), (vocabulary.end_id,)
    unknown = getattr(vocabulary.spellings, "unknown", 0)
    with ExitStack() as stack:
        tokens = stack.enter_context(RaggedWriter(folder, part, len(vocabulary) - 1))
        words = stack.enter_context(RaggedWriter(folder, f"{part}_words", 255)) if count_words else None
        while some := list(islice(lines, TOGETHER)):
            spelled = chain.from_iterable([*map(vocabulary.spellings.__getitem__, line.split()), end] for line in some)
            ids, starts = join_spellings(list(spelled))
            tokens.append(ids)
            if words is not None:
                words.append(starts)
            facts.update(lines=len(some), tokens=len(ids), words=int(starts.sum()))
    if facts["words"] == facts["lines"]:
        where = f"{text.origin}: {text.corpus.text_file(part)}"
        raise DataError(f"{where} holds no words. Put the official file in its place.")
    return {
        **facts,
        "unknown": getattr(vocabulary.spellings, "unknown", 0) - unknown,
        "official": text.is_official(part),
    }


def _about(text: Text, level: Level, size: int, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """One sentence about the data of results."""
    kind = level.kind.replace("_", " ")
    parts = [f"{text.corpus.name} from {text.where} as {size:,} {kind} (special ones included)"]
    for part, counts in facts.items():
        tokens = "" if level.kind == "words" else f", {counts['tokens']:,} tokens"
        notes = []
        if not counts["official"]:
            notes = [f"NOT the published {text.corpus.sizes[part]:,} lines, but a stand-in or damaged"]
        if counts["unknown"]:
            notes += [f"{counts['unknown']:,} words outside the vocabulary read as <unk>"]
        note = f" ({'; '.join(notes)})" if notes else ""
        parts.append(f"{part} {counts['lines']:,} lines, {counts['words']:,} words with line ends{tokens}{note}")
    return "; ".join(parts)
