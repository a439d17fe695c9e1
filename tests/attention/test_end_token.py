"""`task.end_token=false`: outputs without end tokens in the loss, and tests that give the length."""

import json
from pathlib import Path
from typing import Unpack

import numpy as np
import pytest
import torch
from support.small_runs import SMALL_SCAN, config_of, run_job

from attnlab.config.job_config import apply_values
from attnlab.config.run_identity import run_folder
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.data.vocabulary import Vocabulary
from attnlab.nn.output_head import Network
from attnlab.run.build_runtime import make_network, prepare
from attnlab.run.evaluate_options import EvaluateOptions
from attnlab.run.evaluate_run import evaluate_run
from attnlab.run.loaded_run import load_run
from attnlab.run.run_folder import RunError
from attnlab.tasks.base import make_task
from attnlab.tasks.kinds.base import kind_of
from attnlab.tasks.mathematics.task import Mathematics
from attnlab.tasks.pcfg.task import Pcfg
from attnlab.tasks.scan.task import Scan
from attnlab.tasks.word_tasks import SequenceOptions, SequenceTask

ORACLE = "sequence_accuracy_oracle_end"


class Doubled(SequenceTask):
    """Letters written twice; a task of a user with the options of SequenceTask."""

    subsets = ("train", "test")
    inputs = outputs = Vocabulary("ab")
    separator = ""

    def __init__(self, shortest: int = 1, **options: Unpack[SequenceOptions]) -> None:
        super().__init__(**options)
        self.shortest = shortest

    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        words = ["a" * n for n in range(self.shortest, 12)]
        return {name: [(word, 2 * word) for word in words] for name in self.subsets}


def test_targets_have_no_end_and_lengths_stay(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    for make in (Doubled, Scan, lambda **inputs: Mathematics(questions_per_difficulty=30, test_questions=5, **inputs)):
        ended, free = (make(end_token=inputs).prepare(folders) for inputs in (True, False))
        for name, pairs in free.subsets.items():
            whole = ended.subsets[name]
            assert (pairs.lengths == whole.lengths).all() and (pairs.targets.lengths + 1 == whole.targets.lengths).all()
            assert not (pairs.targets.values == ended.spec.end_id).any()
            for number in (0, len(pairs) - 1):
                assert pairs.targets[number].tolist() == whole.targets[number][:-1].tolist()
        # the network has the same size: both train from the same weights
        for size in ("max_input_length", "max_output_length", "output_vocabulary"):
            assert getattr(free.spec, size) == getattr(ended.spec, size)
        assert free.spec.metrics == (ORACLE,) and ended.spec.metrics == SEQUENCE_METRICS
        assert free.spec.end_id in free.spec.never_targets and free.data_hash() != ended.data_hash()
        assert "no end token" in free.about


def test_users_tasks_take_the_options(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    prepared = Doubled(end_token=False, validation_share=0.2, validation_by="length").prepare(folders)
    assert prepared.subsets["val"].lengths.tolist() == [20, 22]
    with pytest.raises(DataError, match="example 0 has an empty output"):
        Doubled(shortest=0, end_token=False).prepare(folders)


def test_pcfg_takes_the_options() -> None:
    task = Pcfg(end_token=False, validation_by="length")
    assert not task.end_token and task.size_unit == "functions"


def network_and_task(tmp_path: Path, end_token: bool) -> tuple[Network, object]:
    raw = config_of(tmp_path, *SMALL_SCAN, f"task.end_token={str(end_token).lower()}", "backbone.dropout=0")
    job = apply_values(raw, [], ())
    prepared = prepare(make_task(job.typed.task), job.typed.paths)
    return make_network(job.typed, prepared.spec), prepared


def test_no_loss_counts_an_end(tmp_path: Path) -> None:
    network, prepared = network_and_task(tmp_path, end_token=False)
    batch = prepared.subsets["train"].batch(np.arange(0, 12000, 3000))
    result, _ = kind_of(prepared.spec).loss(network, batch)
    losses = []
    for i, length in enumerate(batch.target_lengths.tolist()):
        target = batch.targets[i : i + 1, :length]
        read = torch.cat([torch.ones(1, 1, dtype=target.dtype), target[:, :-1]], 1)
        size = batch.input_lengths[i]
        masks = torch.ones(1, int(size), dtype=torch.bool), torch.ones_like(read, dtype=torch.bool)
        logits, _ = network(batch.inputs[i : i + 1, :size], masks[0], read, masks[1])
        # the end has no share in the softmax
        assert logits.softmax(-1)[..., prepared.spec.end_id].max() == 0
        losses.append(torch.nn.functional.cross_entropy(logits[0], target[0].long(), reduction="sum"))
    torch.testing.assert_close(result, sum(losses) / batch.target_lengths.sum())
    assert batch.counts.tolist() == batch.target_lengths.tolist()


def test_scores_are_the_oracles_of_the_same_network(tmp_path: Path) -> None:
    network, ended = network_and_task(tmp_path, end_token=True)
    _, free = network_and_task(tmp_path, end_token=False)
    torch.manual_seed(0)
    with torch.no_grad():
        # outputs of one token, some of them right
        network.output.linear.bias[ended.subsets["train"].targets[0][0]] += 10
        numbers = np.flatnonzero(ended.subsets["train"].lengths <= 3)
        network.eval()
        inputs = kind_of(free.spec).scores(network, free.subsets["train"].batch(numbers), 0)
        oracle = kind_of(ended.spec).scores(network, ended.subsets["train"].batch(numbers), 9)
    assert list(inputs) == [ORACLE] and 0 < inputs[ORACLE].sum() < len(numbers)
    assert torch.equal(inputs[ORACLE], oracle[ORACLE])


def test_a_run_without_end_tokens(tmp_path: Path) -> None:
    raw = config_of(tmp_path, *SMALL_SCAN, "task.end_token=false", "train.max_steps=2", "train.eval_batches=1")
    assert run_job(raw, quiet=True) == 0
    folder = run_folder(raw)
    assert folder.parent.name.startswith("end_token=false")
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    assert {"test/iid/" + ORACLE, "test/ood/" + ORACLE} < set(metrics)
    # metrics that need an end are absent
    assert all(name.endswith(ORACLE) for name in metrics)

    run = load_run(folder)
    with pytest.raises(TypeError, match=r"predict\(inputs, lengths=\[...\]\): a run without end tokens"):
        run.predict(["jump"])
    outputs = run.predict(["jump twice", "walk"], lengths=[5, 1])
    assert [len(output.split()) for output in outputs] == [5, 1]
    for lengths in ([1, 2], [0]):
        with pytest.raises(ValueError, match="expected 1 whole numbers of at least 1"):
            run.predict(["jump"], lengths=lengths)

    with pytest.raises(RunError, match="trained without end tokens, and can choose none"):
        evaluate_run(EvaluateOptions(run=folder), apply_values(raw, ["task.end_token=true"], ("task.",)))
    longer = apply_values(raw, ["task.length_cutoff=44"], ("task.",))
    result = evaluate_run(EvaluateOptions(run=folder, subset="test/ood"), longer)
    assert set(result["metrics"]) == {f"test/ood/{ORACLE}", f"test/ood/length_48/{ORACLE}"}
