"""Seeds that belong to a declaration: chosen, added and changed ones are named, and a choice gets no verdict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import IID, OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Hypothesis, Report
from attnlab.config.sweep import check_command
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.build_table import make_table
from attnlab.report.declared_seeds import left_out
from attnlab.report.hypothesis_answers import answers
from attnlab.report.report_notes import notes
from attnlab.report.runs.read_runs import DIVERGED, look
from attnlab.report.table_types import Table

GAINS = (-6.0, -5.0, 4.0, 5.0, 4.5, -7.0, 5.5, 5.0, -4.0, -3.0)
"""of ten seeds, -0.1 on average; 4.8 for seeds 2, 3, 4, 6, 7"""
CHOSEN = (2, 3, 4, 6, 7)
ASKED = {"row": "linear_l2", "than": "linear", "column": "ood"}


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    return {name: compose_config([*SMALL_SCAN, f"model={name}"]) for name in ("linear", "linear_l2")}


def write(folder: Path, configs: dict[str, Any], gains: dict[int, float], declared: list[int] | None) -> None:
    """Runs of both rows, begun under the hypothesis and these seeds; None = not recorded."""
    analysis = {"columns": {"ood": OOD}, "hypotheses": [ASKED]} | ({} if declared is None else {"seeds": declared})
    status = {"declared": [{"analysis": analysis, "step": 0, "git": {}}]}
    for seed, gain in gains.items():
        for name, value in (("linear", 0.5), ("linear_l2", 0.5 + gain / 100)):
            a_run(folder / name / f"seed{seed}", configs[name] | {"seed": seed}, value, status=status)


def answer(folder: Path, configs: dict[str, Any], seeds: Any, declared: list[int]) -> HypothesisAnswer:
    """The answer of a report on these seeds, whose experiment declares others."""
    runs = [
        look(folder / name / f"seed{seed}", config | {"seed": seed})
        for name, config in configs.items()
        for seed in seeds
    ]
    report = Report(title="t", columns={"ood": OOD}, hypotheses=[Hypothesis(**ASKED)], seeds=declared)
    return answers(make_table(report, runs))[0]


ALL, HALF = list(range(10)), list(range(5))


@pytest.mark.parametrize("recorded", [ALL, None])
def test_chosen_seeds_get_no_verdict(tmp_path: Path, configs: dict[str, Any], recorded: list[int] | None) -> None:
    """The chosen seeds alone are better by 4.8, with p < 0.001."""
    write(tmp_path, configs, dict(enumerate(GAINS)), recorded)
    assert answer(tmp_path, configs, ALL, ALL).verdict == "undecided"
    actual = answer(tmp_path, configs, CHOSEN, ALL)
    assert actual.verdict == "undecided" and actual.corrected is not None and actual.corrected < 0.001
    assert "linear_l2 and linear without seeds 0, 1, 5, 8, 9 (finished and left out): no verdict" in actual.reason
    assert "5 of 10 finished seeds, without 0, 1, 5, 8, 9" in actual.reason
    # the declaration of the runs counts, not a later one
    later = answer(tmp_path, configs, CHOSEN, list(CHOSEN))
    assert later.verdict == ("supported" if recorded is None else "undecided")
    assert "5 of 10 finished seeds" in later.reason


def test_a_table_names_finished_seeds_that_were_left_out(tmp_path: Path, configs: dict[str, Any]) -> None:
    """A table of chosen runs has tests, whether or not an experiment declares a hypothesis."""
    write(tmp_path, configs, dict(enumerate(GAINS)), None)

    def table(seeds: Sequence[int]) -> Table:
        runs = [
            look(tmp_path / name / f"seed{seed}", configs[name] | {"seed": seed}) for name in configs for seed in seeds
        ]
        return make_table(Report(title="t", columns={"iid": IID, "ood": OOD}), runs)

    assert left_out(table(ALL)) == []
    assert "linear, linear_l2: 5 of 10 finished seeds, without 0, 1, 5, 8, 9" in notes(table(CHOSEN))


def test_a_diverged_run_that_was_left_out_is_named(tmp_path: Path, configs: dict[str, Any]) -> None:
    write(tmp_path, configs, dict.fromkeys(HALF, 4.0), HALF)
    lost = configs["linear_l2"] | {"seed": 5}
    a_run(tmp_path / "linear_l2/seed5", lost, state="failed", status={"reason": f"{DIVERGED} the loss is nan"})
    other = configs["linear_l2"] | {"seed": 6, "optim": configs["linear_l2"]["optim"] | {"lr": 1.0}}
    a_run(tmp_path / "linear_l2/seed6", other)
    actual = answer(tmp_path, configs, HALF, HALF)
    assert actual.verdict == "supported" and "5 of 6 finished seeds, without 5" in actual.reason


def test_seeds_that_were_begun_and_left_out_are_named(tmp_path: Path, configs: dict[str, Any]) -> None:
    """Runs that were stopped by hand may have been stopped for what they showed."""
    write(tmp_path, configs, dict.fromkeys(HALF, 4.0), None)
    for seed in (5, 6):
        a_run(tmp_path / f"linear_l2/seed{seed}", configs["linear_l2"] | {"seed": seed}, state="stopped")
    assert "seeds begun and left out: 5, 6 (stopped)" in answer(tmp_path, configs, HALF, HALF).reason
    # a seed that is finished in the other row is a finished one
    a_run(tmp_path / "linear/seed5", configs["linear"] | {"seed": 5}, 0.5)
    reason = answer(tmp_path, configs, HALF, HALF).reason
    assert "5 of 6 finished seeds, without 5; seeds begun and left out: 6 (stopped)" in reason


def test_declared_seeds_alone_are_tested_and_added_ones_are_named(tmp_path: Path, configs: dict[str, Any]) -> None:
    gains = dict(enumerate((4.0, 5.0, 4.0, 5.0, 4.5, 3.0, 4.0, 5.0)))
    write(tmp_path, configs, gains, HALF)
    actual = answer(tmp_path, configs, HALF, HALF)
    assert actual.verdict == "supported" and "5 of 8 finished seeds, without 5, 6, 7" in actual.reason
    actual = answer(tmp_path, configs, range(8), HALF)
    assert actual.verdict == "supported" and "3 of 8 seeds added to the declared ones: 5, 6, 7" in actual.reason


def test_declared_seeds_that_have_not_run_are_waited_for(tmp_path: Path, configs: dict[str, Any]) -> None:
    write(tmp_path, configs, dict.fromkeys(HALF, 4.0), ALL)
    for seeds in (ALL, HALF):
        actual = answer(tmp_path, configs, seeds, ALL)
        assert actual.verdict == "undecided" and "linear_l2 and linear without seeds 5, 6, 7, 8, 9" in actual.reason


def test_changed_declarations_are_named(tmp_path: Path, configs: dict[str, Any]) -> None:
    write(tmp_path, configs, dict.fromkeys(HALF, 4.0), HALF)
    write(tmp_path, configs, dict.fromkeys(ALL[5:], 4.0), ALL)
    actual = answer(tmp_path, configs, ALL, ALL)
    changed = "the declared seeds were changed between runs: 0, 1, 2, 3, 4; 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert actual.verdict == "supported" and changed in actual.reason and "changed since: seeds" in actual.declared


def data_table(folder: Path, configs: dict[str, Any], data_seeds: Sequence[int], declared: Sequence[int] = ()) -> Table:
    """A table of the runs with these data seeds, each in the folder of its setting."""
    runs = [
        look(folder / name / f"data_seed={seed}" / "seed0", config | {"task": config["task"] | {"data_seed": seed}})
        for name, config in configs.items()
        for seed in data_seeds
    ]
    hypotheses = [Hypothesis(**ASKED)]
    return make_table(
        Report(title="t", columns={"ood": OOD}, hypotheses=hypotheses, seeds=[0], data_seeds=list(declared)), runs
    )


def write_data(folder: Path, configs: dict[str, Any], gains: dict[int, float], declared: list[int] | None) -> None:
    """Runs of both rows on data sets, begun under the hypothesis and these data seeds; None = not recorded."""
    analysis = {"columns": {"ood": OOD}, "hypotheses": [ASKED], "seeds": [0]}
    analysis |= {} if declared is None else {"data_seeds": declared}
    status = {"declared": [{"analysis": analysis, "step": 0, "git": {}}]}
    for seed, gain in gains.items():
        for name, value in (("linear", 0.5), ("linear_l2", 0.5 + gain / 100)):
            config = configs[name] | {"seed": 0, "task": configs[name]["task"] | {"data_seed": seed}}
            a_run(folder / name / f"data_seed={seed}" / "seed0", config, value, status=status)


@pytest.mark.parametrize("recorded", [ALL, None])
def test_chosen_data_seeds_get_no_verdict(tmp_path: Path, configs: dict[str, Any], recorded: list[int] | None) -> None:
    """The runs of other data seeds lie in other folders."""
    write_data(tmp_path, configs, dict(enumerate(GAINS)), recorded)
    (actual,) = answers(data_table(tmp_path, configs, ALL, ALL))
    assert actual.verdict == "undecided" and "10 data seeds show a difference of" in str(actual.needed)
    (actual,) = answers(data_table(tmp_path, configs, CHOSEN, ALL))
    assert actual.verdict == "undecided" and actual.corrected is not None and actual.corrected < 0.001
    without = "linear_l2 and linear without seeds 0 of data 0, 1, 5, 8, 9 (finished and left out): no verdict"
    assert without in actual.reason and "5 of 10 finished seeds, without 0 of data 0, 1, 5, 8, 9" in actual.reason
    # the declaration of the runs counts, not a later one
    (later,) = answers(data_table(tmp_path, configs, CHOSEN, CHOSEN))
    assert later.verdict == ("supported" if recorded is None else "undecided")
    assert "5 of 10 finished seeds" in later.reason
    table = data_table(tmp_path, configs, CHOSEN)
    assert "linear, linear_l2: 5 of 10 finished seeds, without 0 of data 0, 1, 5, 8, 9" in notes(table)
    # a table of one data set says which others there are
    (left,) = left_out(data_table(tmp_path, configs, [3]))
    assert left == "linear, linear_l2: 1 of 10 finished seeds, without 0 of data 0, 1, 2, 4, 5, 6, 7, 8, 9"


def test_added_data_seeds_are_named(tmp_path: Path, configs: dict[str, Any]) -> None:
    write_data(tmp_path, configs, dict(enumerate((4.0, 5.0, 4.0, 5.0, 4.5, 3.0, 4.0, 5.0))), HALF)
    (actual,) = answers(data_table(tmp_path, configs, range(8), range(8)))
    assert (
        actual.verdict == "supported" and "3 of 8 seeds added to the declared ones: 0 of data 5, 6, 7" in actual.reason
    )
    assert "changed since: data_seeds" in actual.declared


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["task=scan", "task.data_seed=2,3"], [2, 3]),
        (["task=scan"], [0]),
        # these tasks have different defaults, which nobody has declared
        (["task=scan,sort_of_clevr"], []),
    ],
)
def test_swept_data_seeds_belong_to_the_declaration(words: list[str], seeds: list[int]) -> None:
    report = "+report={title:t,columns:{ood:test/ood/sequence_accuracy}}"
    (job, *_) = check_command(["-m", report, *words]).jobs
    assert job.report is not None and job.report["data_seeds"] == seeds and job.report["seeds"] == [0]


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        ([], HALF),
        (["seed=2,3"], HALF),
        # more than these, all declared before their first step; later ones are named as a changed declaration
        (["-m", "seed=0,1,2,3,4,5,6"], [*HALF, 5, 6]),
        (["+report.seeds=[1,2]"], [1, 2]),
    ],
)
def test_the_declared_seeds_are_those_of_the_experiment_and_of_the_command(words: list[str], seeds: list[int]) -> None:
    jobs = check_command(["experiment=park2024/table4_scan", *words]).jobs
    assert all(job.report is not None and job.report["seeds"] == seeds for job in jobs)
