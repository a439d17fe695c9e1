"""Answers to declared hypotheses: tests, correction, thresholds, whether they were declared before the runs."""

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import OOD

from attnlab.config.check import ConfigError
from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Hypothesis, Report
from attnlab.config.report_names import require_known_names
from attnlab.learn.training_progress import Reporter
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.build_table import make_table
from attnlab.report.hypothesis_answers import answers
from attnlab.report.read_runs import FoundRun
from attnlab.report.table_types import Table
from attnlab.run.run_folder import RunFolder
from attnlab.run.train_run import record_start

GAINS = (6.0, 9.0, 7.0, 8.0, 5.0)
"""differences of five seeds: 7 ± 1.58, t = 9.899 against 0 (p 0.00058), 2.828 against 5 (p 0.0474)"""


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


def table_of(config: dict[str, Any], gains: tuple[float, ...], *asked: Hypothesis) -> Table:
    """Rows linear, mine (ahead by the gains, in percent) and late (missing), with a run for each seed."""
    runs = []
    for seed, gain in enumerate(gains):
        for name, value in (("linear", 0.5), ("mine", 0.5 + gain / 100), ("late", None)):
            own = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            done = {"result": {"metrics": {OOD: value}}} if value else {}
            runs.append(FoundRun(Path(name) / f"seed{seed}", own, "finished" if value else "missing", **done))
    return make_table(Report(title="SCAN", columns={"ood": OOD}, hypotheses=list(asked)), runs)


def test_a_hypothesis_without_enough_seeds_has_no_test(config: dict[str, Any]) -> None:
    mine, late = (Hypothesis(row=row, than="linear", column="ood") for row in ("mine", "late"))
    first, second = answers(table_of(config, GAINS[:1], mine, late))
    assert (first.verdict, first.reason) == ("not enough seeds", "1 common seed, a test needs 5")
    assert (second.verdict, second.reason) == ("not enough seeds", "no number of late")
    [four] = answers(table_of(config, GAINS[:4], mine))
    assert four.verdict == "not enough seeds" and "range over 4 paired seeds; as claimed in 4 of 4" in four.reason


@pytest.mark.parametrize(
    ("claim", "others", "verdict", "told"),
    [
        ({}, 0, "supported", "difference +7.0, from +5.0 to +9.0: 95 % paired t interval, 5 seeds; p < 0.001"),
        ({"threshold": 5.0}, 0, "supported", "p = 0.047"),
        # corrected for two hypotheses it is no longer below 0.05
        ({"threshold": 5.0}, 1, "not supported", "p = 0.047, corrected for 2 hypotheses p = 0.095"),
        ({"threshold": 7.5}, 0, "not supported", "p = 0.519"),
        ({"direction": "lower"}, 0, "not supported", "the test speaks against it"),
    ],
)
def test_hypotheses_are_answered_by_the_corrected_test(
    config: dict[str, Any], claim: dict[str, Any], others: int, verdict: str, told: str
) -> None:
    asked = [Hypothesis(row="mine", than="linear", column="ood", **claim)]
    asked += [Hypothesis(row="late", than="linear", column="ood")] * others
    answer = answers(table_of(config, GAINS, *asked))[0]
    assert (answer.verdict, told in answer.reason) == (verdict, True), answer.reason


def test_a_hypothesis_is_declared_before_a_run_if_the_run_recorded_it_at_its_first_start(
    config: dict[str, Any],
) -> None:
    asked = Hypothesis(row="mine", than="linear", column="ood", threshold=1.0)
    other = Hypothesis(row="late", than="linear", column="ood")
    table = table_of(config, GAINS, asked)
    assert answers(table)[0].declared == "not declared before 10 of 10 runs"
    analysis = {"columns": {"ood": OOD}, "hypotheses": [asdict(asked)]}
    record = {"analysis": analysis, "step": 0, "git": {"commit": "c" * 40}}

    def declared(first: dict[str, Any], **others: Any) -> HypothesisAnswer:
        """With the first run begun under the first analysis, and the others under the second."""
        for at, run in enumerate(table.runs):
            run.declared = [record | (others if at else first)]
        return answers(table)[0]

    assert declared({}).declared == "declared before the 10 runs, commit cccccccccc"
    # added when the run was resumed, another threshold, a file of another program
    changed = analysis | {"hypotheses": [asdict(asked) | {"threshold": 0.0}]}
    for first in ({"step": 300}, {"analysis": changed}, {"analysis": {"hypotheses": [1, {}]}}, {"analysis": 3}):
        assert declared(first).declared == "not declared before 1 of 10 runs"
    # another column, and a hypothesis that is no longer asked: it still counts in the correction
    former = {"columns": {"ood": "test/iid/accuracy"}, "hypotheses": [asdict(asked), asdict(other)]}
    found = declared({"analysis": former}, analysis=former)
    assert found.declared == "declared before the 10 runs, commit cccccccccc; changed since: columns, hypotheses"
    assert "corrected for 2 hypotheses" in found.reason
    # one put in the place of another after the runs: both were posed
    former = {"columns": {"ood": OOD}, "hypotheses": [asdict(other)]}
    assert "corrected for 2 hypotheses" in declared({"analysis": former}, analysis=former).reason


def test_a_run_records_every_declared_analysis_with_the_step_of_its_first_record(tmp_path: Path) -> None:
    folder, reporter = RunFolder(tmp_path / "seed0"), Reporter("none")
    folder.create()
    first, second = [{"row": "a", "than": "b", "column": "ood"}], [{"row": "b", "than": "a", "column": "ood"}]
    for asked, reached in ((first, 10), (None, 20), (second, 30), (first, 40)):
        record_start(folder, reporter, {"hypotheses": asked} if asked else None)
        folder.set_status("stopped", step=reached)
    found = [(one["analysis"]["hypotheses"], one["step"]) for one in folder.status()["declared"]]
    assert found == [(first, 0), (second, 20)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"column": "odd"}, "no column odd; nearest: ood"),
        ({"than": "linea"}, "no such row linea; nearest: linear"),
    ],
)
def test_names_are_checked_before_the_first_run(config: dict[str, Any], changed: dict[str, str], message: str) -> None:
    known = {"row": "mine", "than": "linear", "column": "ood"}
    configs = [config | {"model": config["model"] | {"name": name}} for name in ("linear", "mine")]
    block = {"title": "t", "columns": {"ood": OOD}, "hypotheses": [known]}
    require_known_names(block, configs, ["experiment=own"])
    wrong = block | {"hypotheses": [known | changed]}
    with pytest.raises(ConfigError, match=message):
        require_known_names(wrong, configs, ["experiment=own"])
    # a narrowed experiment may lack rows
    require_known_names(block, configs[:1], ["experiment=own", "model=linear"])
