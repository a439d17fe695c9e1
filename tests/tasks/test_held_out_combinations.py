"""sort-of-CLEVR's splits with combinations that only `test/ood` has."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import SMALL_CLEVR, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.data.files.fetch import Folders
from attnlab.learn.metrics import shortcut_scores
from attnlab.tasks.base import Prepared
from attnlab.tasks.sort_of_clevr.held_out import HELD_OUT_PAIRS, Split, is_held_out
from attnlab.tasks.sort_of_clevr.task import KINDS, ImageQuestions, SortOfClevr

SIZES = {"train_images": 400, "val_images": 20, "test_images": 400}


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[Split, Prepared[ImageQuestions]]:
    folder = tmp_path_factory.mktemp("sort_of_clevr")
    names: list[Split] = ["original", "question_pairs", "object_pairs"]
    return {name: SortOfClevr(**SIZES, split=name).prepare(Folders(folder, folder)) for name in names}


def shares_of_answers(examples: ImageQuestions) -> np.ndarray:
    """[kind, subtype, answer] share of each answer."""
    counts = np.zeros((3, 3, 10))
    np.add.at(counts, (*examples.questions[:, 2:].T, examples.answers), 1)
    return counts / counts.sum(-1, keepdims=True)


def test_the_design_has_every_colour_and_every_kind() -> None:
    pairs = HELD_OUT_PAIRS[:, :, :6]
    assert pairs.sum() == 12 and not HELD_OUT_PAIRS[:, :, 6].any()
    assert pairs.sum((0, 1)).tolist() == [2] * 6
    assert pairs.sum(2).tolist() == [[1, 1, 1], [2, 2, 2], [1, 1, 1]]
    # yellow is never asked about in a ternary question
    assert not pairs[2, :, 5].any()


def test_held_out_pairs_are_asked_in_ood_alone(splits: dict[Split, Prepared[ImageQuestions]]) -> None:
    subsets = splits["question_pairs"].subsets
    for name, examples in subsets.items():
        # by hand, without the table of the module
        for first, second, kind, subtype in examples.questions[:3000].tolist():
            colours = {first, second} - {6}
            lost = {0: {(3, 1), (4, 2), (5, 0)}, 1: {(c, c % 3) for c in range(6)}, 2: {(0, 1), (1, 2), (2, 0)}}[kind]
            assert any((colour, subtype) in lost for colour in colours) == (name == "test/ood")
        assert [len(examples.groups[kind]) for kind in KINDS] == [10 * len(examples.images)] * 3
    trained = {tuple(row) for row in subsets["train"].questions[:, [0, 2, 3]].tolist()}
    requested = {tuple(row) for row in splits["original"].subsets["train"].questions[:, [0, 2, 3]].tolist()}
    lost = {tuple(row) for row in np.argwhere(HELD_OUT_PAIRS[:, :, :6])[:, [2, 0, 1]].tolist()}
    assert len(requested) == 51 and trained == requested - lost


def test_a_new_pair_of_colour_and_subtype_has_a_shortcut_by_subtype(
    splits: dict[Split, Prepared[ImageQuestions]],
) -> None:
    prepared = splits["question_pairs"]
    scores = shortcut_scores(SortOfClevr(**SIZES, split="question_pairs"), prepared)["test/ood/accuracy"]
    examples = prepared.subsets["test/ood"]
    best = shares_of_answers(prepared.subsets["train"]).argmax(-1)
    right = best[examples.questions[:, 2], examples.questions[:, 3]] == examples.answers
    assert scores["most frequent answer by subtype of question"] == pytest.approx(right.mean())
    assert scores["most frequent answer by subtype of question"] > scores["most frequent answer by question"]


def test_the_pictures_of_question_pairs_are_the_published_ones(splits: dict[Split, Prepared[ImageQuestions]]) -> None:
    ours, published = splits["question_pairs"].subsets, splits["original"].subsets
    for name, examples in ours.items():
        np.testing.assert_array_equal(examples.images, published[name.partition("/")[0]].images)


def test_questions_do_not_tell_the_answers(splits: dict[Split, Prepared[ImageQuestions]]) -> None:
    """Subtypes are as frequent and answers as likely in all subsets, so that held-out questions are not easier."""
    for split in ("question_pairs", "object_pairs"):
        subsets = splits[split].subsets
        trained = shares_of_answers(subsets["train"])
        for name in ("test/iid", "test/ood"):
            np.testing.assert_allclose(shares_of_answers(subsets[name]), trained, atol=0.09)
            kinds = np.bincount(subsets[name].questions[:, 2] * 3 + subsets[name].questions[:, 3], minlength=9)
            np.testing.assert_allclose(kinds / kinds.sum(), 1 / 9, atol=0.01)


def test_pairs_of_colour_and_shape_are_in_ood_alone(splits: dict[Split, Prepared[ImageQuestions]]) -> None:
    subsets = splits["object_pairs"].subsets
    for name in ("train", "val", "test/iid"):
        assert (subsets[name].shapes[:, :4] == [0, 1, 0, 1]).all()
    iid, ood = subsets["test/iid"], subsets["test/ood"]
    assert (ood.shapes[:, :4] == [1, 0, 1, 0]).all()
    # every colour, both shapes, and each shape of the free colours
    assert all({0, 1} == set(subsets["train"].shapes[:, colour].tolist()) for colour in (4, 5))
    for same in ("centers", "questions"):
        np.testing.assert_array_equal(getattr(ood, same), getattr(iid, same))
    np.testing.assert_array_equal(ood.shapes[:, 4:], iid.shapes[:, 4:])
    np.testing.assert_array_equal(iid.centers, splits["original"].subsets["test"].centers)
    assert (iid.images != ood.images).any((1, 2, 3)).all()
    # ternary questions are about places
    places = iid.questions[:, 2] == 2
    np.testing.assert_array_equal(iid.answers[places], ood.answers[places])
    shape = (iid.questions[:, 2] == 0) & (iid.questions[:, 3] == 0) & (iid.questions[:, 0] < 4)
    assert (iid.answers[shape] + ood.answers[shape] == 5).all()


def test_data_seed_does_not_change_the_design(tmp_path: Path) -> None:
    small = {"train_images": 5, "val_images": 2, "test_images": 5, "data_seed": 9}
    subsets = SortOfClevr(**small, split="question_pairs").prepare(Folders(tmp_path, tmp_path)).subsets
    assert is_held_out(subsets["test/ood"].questions).all()
    assert not any(is_held_out(subsets[name].questions).any() for name in ("train", "val", "test/iid"))


@pytest.mark.parametrize("split", ["question_pairs", "object_pairs"])
def test_a_run_has_iid_and_ood_by_kind_and_by_the_published_rule(split: str, tmp_path: Path) -> None:
    words = (f"task.split={split}", "train.max_steps=3", "train.validate_every=3", "model=linear")
    raw = config_of(tmp_path, *SMALL_CLEVR, *words)
    assert run_job(raw, quiet=True) == 0
    result = json.loads((run_folder(raw) / "result.json").read_text())
    expected = {
        f"{rule}/{part}/{kind}accuracy"
        for rule in ("test", "test_paper_rule")
        for part in ("iid", "ood")
        for kind in ("", *(f"{kind}/" for kind in KINDS))
        if rule == "test" or kind
    }
    assert set(result["metrics"]) == expected
    assert result["counts"]["test_paper_rule/ood/unary"] == 40
    assert split in result["data"]["about"] and run_folder(raw).parent.name.startswith(f"split={split}")
