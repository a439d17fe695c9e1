"""Byte-pair tokenizer: training, ids, words, special tokens, and files that are no tokenizer."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attnlab.data import vocabulary
from attnlab.data.files.fetch import DataError
from attnlab.data.vocabulary import SAMPLE, BytePair, join_spellings

TEXTS = ["the cat sat on the mat", "the cat and the hat", "", " a  cat's \t hat — déjà vu 雪 "] * 3


@pytest.fixture(scope="module")
def tokens() -> BytePair:
    return BytePair.train(TEXTS, 280)


def test_ids_of_known_text(tokens: BytePair) -> None:
    plain = tokens.tokenizer.get_vocab()
    assert tokens.encode([" the zoo"])[0].tolist() == [4 + plain[piece] for piece in ("Ġthe", "Ġ", "z", "o", "o")]
    assert list(tokens.spellings["the"]) == [4 + plain["Ġthe"]]
    assert len(tokens) == 280 == 4 + len(plain)
    assert [ids.tolist() for ids in tokens.encode(["", "z"])] == [[], [4 + plain["z"]]]
    assert tokens.encode([]) == []
    assert tokens.encode(["", "x"])[0].dtype == tokens.encode(["x"])[0].dtype == np.int32


def test_training_is_deterministic_and_stops_where_no_pair_repeats(tokens: BytePair, tmp_path: Path) -> None:
    again = BytePair.train(iter(TEXTS), 280)
    assert again.tokenizer.to_str() == tokens.tokenizer.to_str()
    again.save(tmp_path / "tokenizer.json")
    loaded = BytePair.load(tmp_path / "tokenizer.json")
    for item, other in zip(loaded.encode(TEXTS), tokens.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(item, other)
    assert len(BytePair.train([" ab ab"], 1000)) == 260 + 2
    assert len(BytePair.train(["ab ab"], 260)) == 260


def test_training_on_many_texts_gives_the_same_each_time(tokens: BytePair) -> None:
    many = [f"{text} number{i % 97}" for i in range(400) for text in TEXTS]
    first = BytePair.train(many, 500).tokenizer.to_str()
    assert all(BytePair.train(many, 500).tokenizer.to_str() == first for _ in range(3))


EXAMPLES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXAMPLES)
def test_any_text_comes_back_exactly(tokens: BytePair, texts: list[str]) -> None:
    for text, ids in zip(texts, tokens.encode(texts), strict=True):
        assert tokens.decode(ids) == text
        assert ids.size == 0 or 4 <= ids.min() <= ids.max() < len(tokens)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXAMPLES)
def test_spelled_words_are_what_the_whole_text_is(tokens: BytePair, texts: list[str]) -> None:
    for words in (text.split() for text in (*texts, *TEXTS)):
        ids, begun = join_spellings([tokens.spellings[word] for word in words])
        assert ids.tolist() == tokens.encode(["".join(f" {word}" for word in words)])[0].tolist()
        # each word begins in the first of its tokens
        assert [tokens.decode(part)[1:] for part in np.split(ids, np.flatnonzero(begun))[1:]] == words
        assert begun.sum() == len(words) and begun.max(initial=0) <= 1


def test_special_ids_are_left_out_of_text(tokens: BytePair) -> None:
    cat, hat = tokens.encode(["cat", " hat"])
    framed = [tokens.start_id, *cat, tokens.mask_id, *hat, tokens.end_id, tokens.pad_id]
    assert tokens.decode(framed) == "cat hat"


def test_remembered_words_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "REMEMBERED", 3)
    tokens = BytePair.train(TEXTS, 280)
    words = ["the", "cat", "sat", "on", "the", "mat", "the", "cat"]
    assert [tokens.decode(tokens.spellings[word]) for word in words] == [f" {word}" for word in words]
    assert len(tokens.spellings) <= 3


def test_a_word_without_tokens_counts_for_its_neighbour() -> None:
    ids, words = join_spellings([(), (7, 8), (), (9,), ()])
    assert (ids.tolist(), words.tolist()) == ([7, 8, 9], [2, 0, 3])
    ids, words = join_spellings([(), ()])
    assert (ids.tolist(), words.tolist()) == ([], [])


def given_tokenizer(path: Path) -> Tokenizer:
    """As others ship them: special tokens, a template, truncation and padding."""
    result = Tokenizer.from_str(BytePair.train(TEXTS, 280).tokenizer.to_str())
    result.add_special_tokens(["<s>", "<mask>"])
    result.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 276)])
    result.enable_truncation(3)
    result.enable_padding(length=20)
    result.save(str(path))
    return result


def test_of_a_given_tokenizer_only_the_pairs_are_used(tmp_path: Path, tokens: BytePair) -> None:
    plain = given_tokenizer(tmp_path / "tokenizer.json")
    assert len(plain.encode(" the cat sat on").ids) == 20
    loaded = BytePair.load(tmp_path / "tokenizer.json")
    text = "the <mask> cat sat on <s> the mat"
    np.testing.assert_array_equal(loaded.encode([text])[0], tokens.encode([text])[0])
    assert loaded.decode(loaded.encode([text])[0]) == text
    assert len(loaded) == len(tokens) + 2


def test_an_embedding_needs_a_row_for_every_id_also_behind_a_gap(tmp_path: Path, tokens: BytePair) -> None:
    content = json.loads(tokens.tokenizer.to_str())
    content["model"]["vocab"]["\u0120the"] = 500
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    loaded = BytePair.load(tmp_path / "tokenizer.json")
    assert loaded.encode([" the"])[0].tolist() == [504]
    assert len(loaded) == 505


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.json: no tokenizer\.json there \(No such file"):
        BytePair.load(tmp_path / "nothing.json")
    for content in (b"", b"{", b"[]", b'{"model": 3}', b"\xff\xfe"):
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(DataError, match=r"tokenizer\.json is no tokenizer\.json of the package tokenizers"):
            BytePair.load(tmp_path / "tokenizer.json")


def test_a_tokenizer_that_loses_text_is_refused(tmp_path: Path) -> None:
    lossy = Tokenizer(models.WordLevel({"the": 0, "cat": 1, "?": 2}, unk_token="?"))
    lossy.pre_tokenizer = pre_tokenizers.Whitespace()
    lower = Tokenizer.from_str(BytePair.train(TEXTS, 280).tokenizer.to_str())
    lower.normalizer = normalizers.Lowercase()
    for tokenizer in (lossy, lower):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(DataError, match="loses text") as error:
            BytePair.load(tmp_path / "tokenizer.json")
        assert SAMPLE in str(error.value)
