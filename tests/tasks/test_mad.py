"""MAD: targets as those of the published code, the distributions of the sequences, predictions, other lengths."""

import json
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from support.golden_outputs import golden
from support.model_cases import backbone_of, config_of
from support.small_runs import ROOT, checked
from support.tensors import masks
from support.tiny_data import raw_of, trained

from attnlab import load_run
from attnlab.data.files.fetch import DataError, Folders
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import UNSCORED
from attnlab.tasks.kinds.base import build_network, kind_of
from attnlab.tasks.mad import task as module
from attnlab.tasks.mad.options import BASELINES, Name
from attnlab.tasks.mad.sequences import fuzzy_recall, recall, recalled, selective_copying, value_table
from attnlab.tasks.mad.task import Mad, answers, draw

TASKS = get_args(Name)
ROWS = 2000
UNKNOWN = {"train": [7], "test": [1, 39]}
"""golden samples of fuzzy_in_context_recall whose last key is nowhere before, so that the end of its value, a target
there, does not follow from the input"""


def options_of(dataset: Name) -> dict[str, Any]:
    """The options of the published baseline that sequences depend on."""
    return {name: value for name, value in BASELINES[dataset].items() if name != "train_examples"}


def drawn(dataset: Name, training: bool = False, rows: int = ROWS, **options: float) -> np.ndarray:
    return draw(np.random.default_rng(0), rows, training, dataset, **{**options_of(dataset), **options})


def published_values() -> np.ndarray:
    """The map of memorization in the golden samples: both sides shuffled by one generator."""
    rng = np.random.default_rng(12345)
    keys, values = ([*permutations(numbers, 1)] for numbers in (range(127), range(127, 255)))
    rng.shuffle(keys)
    rng.shuffle(values)
    pairs = dict(zip(np.ravel(keys).tolist(), np.ravel(values).tolist(), strict=False))
    return np.array([pairs[key] for key in range(127)])


def prepared(tmp_path: Path, dataset: Name, **options: Any) -> tuple[Mad, Prepared]:
    task = Mad(dataset, **({"train_examples": 20, "val_examples": 4, "test_examples": 20} | options))
    return task, task.prepare(Folders(data=tmp_path, cache=tmp_path))


@pytest.mark.parametrize("subset", ["train", "test"])
@pytest.mark.parametrize("dataset", TASKS)
def test_targets_are_those_of_the_published_code(dataset: Name, subset: str) -> None:
    record = golden("tasks/mad")
    inputs, expected = (record[f"{dataset}.{subset}.{side}"].numpy() for side in ("inputs", "targets"))
    found = answers(inputs, subset == "train", published_values(), dataset=dataset, **options_of(dataset))
    found = np.where(found == UNSCORED, -100, found)
    wrong = found != expected
    unknown = UNKNOWN[subset] if dataset == "fuzzy_in_context_recall" else []
    assert np.flatnonzero(wrong.any(axis=1)).tolist() == unknown
    # the value of such a key is scored too in the published test, which knows more than the input
    assert (found[wrong] == -100).all()


@pytest.mark.parametrize("dataset", TASKS)
def test_the_examples_of_the_page(dataset: Name, tmp_path: Path) -> None:
    """The module shows the first of them."""
    lines = (ROOT / "docs" / "tasks.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{dataset}: "))
    options = {name: json.loads(value) for name, value in (word.split("=") for word in lines[start].split()[1:])}
    task, data = prepared(tmp_path, dataset, **options, test_examples=1280)
    shown = task.example(data, "test", 0).splitlines()
    assert [f"  {line}" for line in shown] == lines[start + 1 : start + 3]
    assert (f"    {shown[0]}" in module.__doc__.splitlines()) == (dataset == "in_context_recall")


@pytest.mark.parametrize("dataset", TASKS)
def test_sequences_have_the_sizes_of_the_published_ones(dataset: Name) -> None:
    record = golden("tasks/mad")
    for subset in ("train", "test"):
        published = record[f"{dataset}.{subset}.inputs"].numpy()
        ours = drawn(dataset, subset == "train", rows=300)
        assert ours.shape[1] == published.shape[1]
        assert ours.min() == published.min() and ours.max() == published.max()
        # shares of the numbers, within four standard errors of 40 published rows that repeat few keys
        for number in (0, published.max()):
            shares = [(table == number).mean(axis=1) for table in (published, ours)]
            spread = 4 * shares[1].std() / np.sqrt(len(published))
            assert abs(shares[0].mean() - shares[1].mean()) <= spread + 1e-9


def test_recall_repeats_pairs_and_ends_in_a_key_that_came_before() -> None:
    inputs = drawn("in_context_recall")
    keys, values = inputs[:, ::2], inputs[:, 1::2]
    assert keys.max() == 7 and values.min() == 8 and inputs.max() == 15
    assert np.bincount(keys[:, :-1].ravel()) / keys[:, :-1].size == pytest.approx(np.full(8, 1 / 8), abs=0.005)
    assert np.bincount(values[:, 0])[8:] / ROWS == pytest.approx(np.full(8, 1 / 8), abs=0.03)
    for row in range(20):
        pairs = set(zip(keys[row, :-1].tolist(), values[row].tolist(), strict=True))
        assert len(dict(pairs)) == len(pairs) and keys[row, -1] in dict(pairs)
    # the last key is any of those before, however often each came
    keys = recall(np.random.default_rng(0), ROWS, 8, 8, noise_share=0.0, noise_vocabulary=0)[:, ::2]
    assert (keys[:, :-1] == keys[:, -1:]).any(axis=1).all()
    twice = keys[(keys[:, 0] == keys[:, 1]) & (keys[:, 0] != keys[:, 2])]
    assert len(twice) > 300 and (twice[:, 0] == twice[:, -1]).mean() == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_noise_has_its_share_and_one_pair_is_none(share: float) -> None:
    inputs = drawn("noisy_in_context_recall", noise_share=share)
    pairs = inputs[:, :-1].reshape(ROWS, -1, 2)
    noise = pairs[..., 0] >= 16
    assert (noise == (pairs[..., 1] >= 16)).all() and inputs[:, -1].max() < 8
    # one of the 63 pairs is never noise
    assert noise.mean() == pytest.approx(share * 62 / 63, abs=0.01)
    assert np.bincount(inputs[inputs >= 16] - 16) / noise.sum() / 2 == pytest.approx(np.full(16, 1 / 16), abs=0.005)
    nearly_all = recall(np.random.default_rng(0), ROWS, 32, 8, noise_share=0.999, noise_vocabulary=16)
    assert ((nearly_all[:, :-1:2] < 16).sum(axis=1) >= 1).all()
    assert (recalled(nearly_all, 8, 16)[:, -1] != UNSCORED).all()


def motifs_of(row: np.ndarray, keys: int, pad: int) -> list[tuple[int, ...]]:
    """Keys and values of a row of fuzzy recall in turn, without its pads."""
    cut: list[list[int]] = [[]]
    for number in row[row != pad].tolist():
        if cut[-1] and (number < keys) != (cut[-1][-1] < keys):
            cut.append([])
        cut[-1].append(number)
    return [tuple(motif) for motif in cut]


@pytest.mark.parametrize("training", [True, False])
def test_fuzzy_recall_shows_its_last_key_before(training: bool) -> None:
    inputs = drawn("fuzzy_in_context_recall", training, rows=500)
    targets = answers(
        inputs, False, np.empty(0), dataset="fuzzy_in_context_recall", **options_of("fuzzy_in_context_recall")
    )
    assert (targets[:, -1] != UNSCORED).all()
    sizes: dict[str, list[int]] = {"key": [], "value": []}
    for row, answer in zip(inputs, targets, strict=True):
        motifs = motifs_of(np.append(row, answer[-1]), 7, 15)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        scored = []
        for key, value in zip(motifs[::2], motifs[1::2], strict=True):
            assert known.setdefault(key, value) == value and len({*key, *value}) == len(key) + len(value)
        for number, key in enumerate(motifs[::2]):
            scored += known[key] if key in motifs[: 2 * number : 2] else ()
        assert answer[answer != UNSCORED].tolist() == scored
        assert motifs[-2] in motifs[:-2:2]
        sizes["key"] += [len(key) for key in motifs[:-2:2]]
        sizes["value"] += [len(value) for value in motifs[1:-2:2]]
    shares = {name: np.bincount(each, minlength=4)[1:] / len(each) for name, each in sizes.items()}
    assert shares["value"] == pytest.approx(np.full(3, 1 / 3), abs=0.03)
    assert shares["key"] == pytest.approx(np.full(3, 1 / 3) if training else [0, 0, 1], abs=0.03)
    # the published code, in 600 rows drawn with it: 5.4 pads in training, 4.9 in tests
    assert (inputs == 15).sum(axis=1).mean() == pytest.approx(5.4 if training else 4.9, abs=0.3)
    assert inputs[inputs == 15].size == (np.cumprod(inputs == 15, axis=1)).sum()


def test_fuzzy_recall_of_many_repeated_keys() -> None:
    inputs = fuzzy_recall(np.random.default_rng(0), 200, 6, 60, key_motif=1, value_motif=2, shortest_key=1)
    found = recalled(inputs, 2, 5, motif=2)
    for row, answer in zip(inputs, found, strict=True):
        motifs = motifs_of(np.append(row, answer[-1]), 2, 5)
        assert len(dict(pairs := set(zip(motifs[::2], motifs[1::2], strict=True)))) == len(pairs) <= 2


def test_memorization_has_one_map_of_different_values() -> None:
    inputs, values = drawn("memorization"), value_table(0, 256)
    assert len(set(values.tolist())) == len(values) == 127 and values.min() >= 127 and values.max() < 255
    assert (value_table(1, 256) != values).any() and (inputs[:, 1::2] == 255).all()
    assert np.bincount(inputs[:, ::2].ravel()) / ROWS / 16 == pytest.approx(np.full(127, 1 / 127), abs=0.003)


def test_numbers_to_copy_are_spread_over_the_blanks() -> None:
    inputs = drawn("selective_copying")
    assert (inputs[:, 239] == 15).all() and (inputs[:, 240:] == 14).all() and (inputs[:, 238] < 14).all()
    assert ((inputs < 14).sum(axis=1) == 16).all()
    places = np.nonzero(inputs < 14)[1].reshape(ROWS, 16)
    assert np.diff(places, axis=1, prepend=-1).mean(axis=0) == pytest.approx(np.full(16, 239 / 16), abs=0.4)
    assert np.diff(places, axis=1).std() == pytest.approx(np.sqrt(223 * 15) / 16, abs=0.1)
    short = selective_copying(np.random.default_rng(0), 50, 16, 8, tokens_to_copy=3)
    assert ((short[:, :4] == 14).sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("dataset", "options", "problem"),
    [
        (
            "compression",
            {"noise_share": 0.2},
            r"task.noise_share=0.2: task.dataset=compression does not read it, noisy_",
        ),
        ("memorization", {"length": 31}, r"task.length: 31 is odd; expected even numbers, such as 32"),
        ("selective_copying", {"length": 33}, r"task.length: 33 is too small for task.tokens_to_copy=16; at least 34"),
        (
            "noisy_in_context_recall",
            {"vocabulary": 16},
            r"task.vocabulary: 16 .* task.noise_vocabulary=16; at least 18",
        ),
        (
            "fuzzy_in_context_recall",
            {"vocabulary": 6},
            r"task.vocabulary: 6 is too small for task.key_motif=3; at least 7",
        ),
        ("fuzzy_in_context_recall", {"length": 12}, r"task.length: 12 is too small for task.key_motif=3; at least 13"),
        (
            "fuzzy_in_context_recall",
            {"vocabulary": 32, "value_motif": 15},
            r"task.value_motif=15: too long for task.voc",
        ),
    ],
)
def test_options_that_do_not_fit(dataset: Name, options: Mapping[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=problem):
        prepared(tmp_path, dataset, **options)


def test_the_smallest_options_that_fit(tmp_path: Path) -> None:
    for dataset, options in (
        ("in_context_recall", {"vocabulary": 4, "length": 4}),
        ("noisy_in_context_recall", {"vocabulary": 18, "length": 4}),
        ("fuzzy_in_context_recall", {"vocabulary": 7, "length": 13}),
        ("memorization", {"vocabulary": 4, "length": 4}),
        ("compression", {"vocabulary": 4, "length": 4}),
        ("selective_copying", {"length": 34}),
    ):
        task, data = prepared(tmp_path, dataset, **options)
        assert all(part.targets.values.max() > 0 for part in data.subsets.values())
        assert task.shortcuts(data)


@pytest.mark.parametrize("dataset", TASKS)
def test_training_and_test_share_no_example(dataset: Name, tmp_path: Path) -> None:
    _, data = prepared(tmp_path, dataset, **BASELINES[dataset], test_examples=200)
    assert data.about == "generated by attnlab with data_seed 0; no test example is also in train"


def test_shortcuts(tmp_path: Path) -> None:
    def share(dataset: Name, name: str) -> float:
        task, data = prepared(tmp_path, dataset, train_examples=500, test_examples=500)
        records = task.shortcuts(data)[name](data.subsets["test"])
        return float(records["right"].sum() / records["tokens"].sum())

    assert share("in_context_recall", "most frequent value") == pytest.approx(1 / 8, abs=0.02)
    assert share("compression", "most frequent tag at its place") == pytest.approx(1 / 32 + 31 / 32 / 15, abs=0.015)
    assert share("memorization", "most frequent tag") < 0.03


@pytest.mark.parametrize(("dataset", "first", "stop"), [("in_context_recall", 8, 16), ("selective_copying", 0, 14)])
def test_the_most_frequent_value_before_is_counted_in_each_sequence(
    dataset: Name, first: int, stop: int, tmp_path: Path
) -> None:
    """Of equally frequent values the last one."""
    task, data = prepared(tmp_path, dataset, train_examples=100, test_examples=200)
    part, shortcuts = data.subsets["test"], task.shortcuts(data)
    right = []
    for number in range(len(part)):
        words, targets = task.inputs.decode(part.inputs[number]), part.targets[number].astype(int)
        for place in np.flatnonzero(targets):
            values = [int(word) for word in words[: place + 1] if first <= int(word) < stop]
            best = max(values, key=lambda value: (values.count(value), -values[::-1].index(value)), default=None)
            right.append(str(best) == task.tags[targets[place] - 1])
    records = shortcuts["most frequent value before"](part)
    assert records["right"].sum() == sum(right)


@pytest.mark.parametrize(("dataset", "model"), [("fuzzy_in_context_recall", "linear_l2"), ("compression", "vanilla")])
def test_it_predicts_and_is_evaluated_at_another_length(
    dataset: Name, model: str, tiny_data: Path, tmp_path: Path
) -> None:
    folder, result = trained(tiny_data, tmp_path, "mad", f"model={model}", f"task.dataset={dataset}")
    assert result["counts"]["test"] == 8
    run = load_run(folder)
    part = run.data.subsets["test"]
    texts = [" ".join(run.task.inputs.decode(part.inputs[number])) for number in range(3)]
    predicted = run.predict([*texts, texts[0].rpartition(" ")[0]])
    assert [len(tags) for tags in predicted] == [16, 16, 16, 15]
    assert {tag for tags in predicted for tag in tags} <= set(map(str, range(16)))
    assert evaluate_main([f"run={folder}", "task.length=40"]) == 0
    (file,) = (folder / "evaluations").glob("*.json")
    assert "test/length_40/accuracy" in json.loads(file.read_text())["metrics"]


def test_compression_learns_where_there_is_little_to_say(tiny_data: Path, tmp_path: Path) -> None:
    """Three numbers of three and the end, from one hidden state."""
    sizes = ["backbone.d_model=32", "task.vocabulary=4", "task.length=4", "task.train_examples=256"]
    more = ["train.max_steps=80", "train.batch_size=64", "optim.lr=1e-2", "train.validate_every=null"]
    start = ["backbone.embedding=noscale", "backbone.initialization=torch", "backbone.positions=sinusoidal"]
    _, result = trained(tiny_data, tmp_path, "mad", "model=linear_l2_ortho", *sizes, *more, *start)
    assert result["metrics"]["test/accuracy"] > 0.9


def test_compression_reads_the_last_real_position(tiny_data: Path, tmp_path: Path) -> None:
    """Every token depends on every token, and on no padding; the end of the sequence is each example's own."""
    config = checked(raw_of(tiny_data, tmp_path, "mad", "model=linear", "task.dataset=compression"))
    task = Mad(**{name: value for name, value in config.task.items() if name not in ("_target_", "name", "label")})
    data = task.prepare(Folders(data=tmp_path, cache=tmp_path))
    torch.manual_seed(0)
    network = build_network(backbone_of("linear", "mad"), config_of("linear", "mad").model, data.spec).double().eval()
    batch = task.encode_inputs(data, ["1 2 3 4", "5 6"])
    hidden, penalty = network(batch.inputs, batch.mask)
    padded, _ = network(torch.cat((batch.inputs, batch.inputs), dim=1), masks([4, 2], 8))
    torch.testing.assert_close(padded[:, :4], hidden, rtol=1e-10, atol=1e-10)
    changed = batch.inputs.clone()
    changed[:, 0] = 9
    assert ((network(changed, batch.mask)[0] - hidden).abs().sum(2) > 1e-6).all() and penalty == 0
    assert [len(tokens) for tokens in kind_of(data.spec).predict(network, batch)] == [4, 2]
