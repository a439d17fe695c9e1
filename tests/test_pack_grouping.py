"""Grouping of the jobs of a sweep into packs, and messages about jobs that train alone."""

import copy
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from attnlab.config.dotted_keys import flatten
from attnlab.config.job_config import JobConfig
from attnlab.config.lone_groups import LoneGroups
from attnlab.config.message_text import listed
from attnlab.config.pack_grouping import Pack, describe, is_own, packs, ranges
from attnlab.config.sweep import check_command


def jobs_of(*words: str) -> list[JobConfig]:
    return check_command(["-m", "task=scan", *words]).jobs


def shared(job: JobConfig) -> dict[str, Any]:
    return {key: value for key, value in flatten(job.raw).items() if not is_own(key)}


def test_jobs_that_differ_in_seed_and_scalars_are_one_pack() -> None:
    jobs = jobs_of("model=linear_l2_ortho", "seed=0,1,2,3,4", "model.ortho.weight=0,0.01,0.1", "optim.lr=1e-3,3e-4")
    assert packs(jobs) == [Pack(tuple(range(30)))]
    assert describe(jobs) == (
        "30 runs of scan-length_cutoff-26/linear_l2_ortho, seeds 0-4, lr 0.001, 0.0003, ortho.weight 0, 0.01, 0.1"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["backbone.dropout=0,0.1"],
        ["backbone.attention_dropout=0,0.1"],
        ["optim.clip_norm=null,5"],
        ["optim.clip_value=null,0.1"],
        ["optim.betas=[0.9,0.999],[0.9,0.98]"],
        ["optim.schedule=constant,cosine"],
        ["optim.warmup_steps=null,2"],
        ["optim.weight_decay=0,0.1"],
    ],
)
def test_values_of_their_own(words: list[str]) -> None:
    assert packs(jobs_of("model=vanilla", *words)) == [Pack((0, 1))]


def test_rates_that_follow_another_are_told_once() -> None:
    assert describe(jobs_of("model=vanilla", "backbone.dropout=0,0.1")).endswith("seed 0, dropout 0, 0.1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["train.max_steps=2000,1000"], "train.max_steps=2000 here, 1000 in the jobs that would fit otherwise"),
        (["optim.name=adam,adamw"], "optim.name=adam here, adamw in the jobs that would fit otherwise"),
        (["task.data_seed=0,1"], "task.data_seed=0 here, 1 in the jobs that would fit otherwise"),
        (["model=linear,vanilla"], "model=linear here, vanilla in the jobs that would fit otherwise"),
        (["task=scan,pcfg"], "task=scan here, pcfg in the jobs that would fit otherwise"),
        (["train.batch_size=8,9", "train.max_steps=10,20,30"], "train.max_steps=10 here, 20, 30 in the jobs"),
        (["seed=4"], "no other job differs from it in seed and scalar values only"),
        (["train.precision=16-mixed", "seed=0,1"], "train.precision=16-mixed scales the loss for all members alike"),
    ],
)
def test_the_reason_of_a_job_that_is_alone(words: list[str], reason: str) -> None:
    given = ["model=linear"] * (not words[0].startswith("model"))
    jobs = check_command(["-m", *given, *words]).jobs
    found = packs(jobs)
    assert [pack.members for pack in found] == [(number,) for number in range(len(jobs))]
    assert found[0].reason.startswith(reason)


def test_batches_of_tokens_are_not_packed() -> None:
    jobs = jobs_of("model=linear", "seed=0,1")
    for job in jobs:
        job.raw["train"]["batch_tokens"] = 4096
    assert {pack.reason for pack in packs(jobs)} == {
        "train.batch_tokens=4096 makes the batches of members differ in size"
    }


def test_one_run_is_never_twice_in_a_pack() -> None:
    jobs = jobs_of("model=linear", "seed=0,1")
    again = copy.deepcopy(jobs[0])
    again.raw["optim"]["clip_norm"] = int(again.raw["optim"]["clip_norm"])
    assert again.folder == jobs[0].folder
    assert packs([*jobs, again]) == [Pack((0, 1)), Pack((2,), "an earlier job is the same run")]
    assert [pack.members for pack in packs([jobs[0], again])] == [(0,), (1,)]


def test_a_pack_stands_at_the_place_of_its_first_job() -> None:
    jobs = jobs_of("seed=0,1", "model=linear,vanilla,linear_l2")
    assert [pack.members for pack in packs(jobs)] == [(0, 3), (1, 4), (2, 5)]


def test_every_job_is_in_one_pack_of_jobs_that_fit() -> None:
    """Over random jobs of all kinds of differences."""
    base = jobs_of("model=linear_l2_ortho")[0]
    choices: dict[str, list[Any]] = {
        "seed": [0, 1, 2],
        "optim.lr": [1e-3, 1e-4],
        "backbone.embedding_dropout": [0.0, 0.1],
        "train.batch_size": [8, 16],
        "train.precision": ["32-true", "16-mixed"],
        "model.normalization.kind": ["l1", "l2"],
        "from_run": [None, "a", "b"],
    }
    draw = random.Random(0)
    for _ in range(20):
        jobs = []
        for _ in range(draw.randrange(1, 15)):
            job = copy.deepcopy(base)
            for key, values in choices.items():
                *sections, name = key.split(".")
                node = job.raw
                for section in sections:
                    node = node[section]
                node[name] = draw.choice(values)
            jobs.append(job)
        found = packs(jobs)
        assert sorted(member for pack in found for member in pack.members) == list(range(len(jobs)))
        assert [pack.members[0] for pack in found] == sorted(pack.members[0] for pack in found)
        for pack in found:
            assert bool(pack.reason) == (len(pack.members) == 1)
            assert all(shared(jobs[member]) == shared(jobs[pack.members[0]]) for member in pack.members)
            assert len({jobs[member].folder for member in pack.members}) == len(pack.members)
        open_packs = [repr(shared(jobs[pack.members[0]])) for pack in found if len(pack.members) > 1]
        assert len(set(open_packs)) == len(open_packs), "two packs that could be one"


def reason_by_pairs(group: int, values: list[dict[str, Any]], sizes: list[int]) -> str:
    """`LoneGroups.reason` from every pair of groups: the key in which most jobs differ that differ in no other."""
    counts, theirs = Counter[str](), defaultdict[str, list[str]](list)
    for other, size in enumerate(sizes):
        keys = [key for key in values[group] | values[other] if values[group].get(key) != values[other].get(key)]
        for choice, sections in (("task", ("task", "backbone", "optim", "train")), ("model", ("model",))):
            if f"{choice}.name" in keys:
                keys = [choice, *(key for key in keys if key.partition(".")[0] not in sections)]
        if len(keys) == 1:
            counts[keys[0]] += size
            theirs[keys[0]].append(str(values[other].get(f"{keys[0]}.name", values[other].get(keys[0]))))
    if not counts:
        return ""
    [(key, _)] = counts.most_common(1)
    own = values[group].get(f"{key}.name", values[group].get(key))
    return f"{key}={own} here, {listed(theirs[key], most=4)} in the jobs that would fit otherwise"


def test_lone_groups_are_told_as_by_comparing_every_pair() -> None:
    draw = random.Random(1)
    names = {
        "task.name": "ab",
        "task.x": "12",
        "train.steps": "123456",
        "model.name": "mn",
        "model.y": "12",
        "tag": "pq",
    }
    for _ in range(60):
        drawn = [{key: draw.choice(found) for key, found in names.items()} for _ in range(draw.randrange(1, 25))]
        values = list({repr(each): each for each in drawn}.values())
        sizes = [draw.randrange(1, 4) for _ in values]
        lone = LoneGroups(values, sizes)
        for group in range(len(values)):
            assert lone.reason(group) == reason_by_pairs(group, values, sizes)


def test_runs_of_numbers_are_shown_as_ranges() -> None:
    assert ranges([0, 1, 2, 3, 4, 7]) == "0-4, 7"
    assert ranges([3]) == "3"
