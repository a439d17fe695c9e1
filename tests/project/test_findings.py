"""The pages that follow from the archives of the claims: findings, the results in the README, the papers' claims."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_findings_and_results_follow_from_the_archives(tmp_path: Path) -> None:
    pages = ["docs/findings.md", "README.md", "docs/claims.md"]
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments", ignore=lambda *_: {"runs", "reports", ".campaign"})
    for folder in ("conf", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / page, tmp_path / page)
    for script in ("findings.py", "claims_table.py"):
        subprocess.run([sys.executable, f"experiments/{script}"], cwd=tmp_path, check=True)
    for page in pages:
        written = (tmp_path / page).read_text() == (ROOT / page).read_text()
        assert written, f"{page}: run experiments/findings.py and experiments/claims_table.py"
    shown = {file.name for file in (ROOT / "docs/images/findings").iterdir()}
    assert shown == {file.name for file in (tmp_path / "docs/images/findings").iterdir()}


@pytest.fixture
def claims_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import claims_table

    return claims_table


def test_every_answer_to_a_claim_of_the_papers_exists(claims_table: ModuleType) -> None:
    papers = claims_table.source()
    assert all(numbers for numbers in papers.values()) and len(papers) == 3


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"answered_by": [{"preset": "scan_turn_right", "hypotheses": [0]}]}, "scan_turn_right"),
        ({"answered_by": [{"preset": "scan_turn_left", "hypotheses": [3]}]}, "A1: scan_turn_left has no hypothesis 3"),
        ({"answered_by": [{"preset": "scan_turn_left", "hypotheses": [0], "opposite": [1]}]}, "scan_turn_left', 1"),
        ({"answered_by": [{"preset": "scan_turn_left", "hypotheses": [0], "other_readings": [1]}]}, "other_readings"),
        ({"answred_by": []}, "A1: needs claim and where"),
    ],
)
def test_an_answer_that_does_not_exist_is_named(
    entry: dict[str, object], named: str, tmp_path: Path, claims_table: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump({"a paper": {"A1": {"claim": "it helps", "where": "table 1", **entry}}}))
    monkeypatch.setattr(claims_table, "SOURCE", file)
    with pytest.raises(claims_table.CampaignError, match=named):
        claims_table.source()


def _hypothesis(
    claims_table: ModuleType, side: str | None, shown_before: bool = False, declared: bool = True
) -> object:
    verdict = {"for": "supported", "against": "refuted"}.get(side or "", side)
    return claims_table.Hypothesis("`a`", verdict, shown_before, declared)


@pytest.mark.parametrize(
    ("sides", "answer"),
    [
        (["for", "for"], "holds"),
        (["for", "undecided"], "holds in part"),
        (["for", None], "holds in part"),
        (["for", "against", None], "mixed"),
        (["against", "undecided"], "contradicted"),
        (["undecided", None], "undecided"),
        ([None], "asked"),
        ([], "open"),
    ],
)
def test_the_answer_to_a_claim_follows_from_its_verdicts(
    sides: list[str | None], answer: str, claims_table: ModuleType
) -> None:
    hypotheses = [_hypothesis(claims_table, side) for side in sides]
    assert claims_table.category({}, hypotheses) == answer
    written = _hypothesis(claims_table, None, declared=False)
    assert claims_table.category({"cannot": "no time"}, [written]) == "written"
    assert claims_table.category({"cannot": "no time"}, []) == "cannot"


def test_claims_and_verdicts_are_counted(claims_table: ModuleType) -> None:
    hypotheses = [_hypothesis(claims_table, *each) for each in [("for", True), ("for",), ("against", True), (None,)]]
    text = claims_table.summary(["open", "asked", "open"], hypotheses)
    assert text.startswith("3 claims: 0 holds, 0 holds in part, 0 mixed, 0 contradicted, 0 undecided, 1 asked, ")
    assert (
        "3 verdicts: 2 for the paper, 1 against it, 0 undecided. Not shown before: 1 for the paper, 0 against" in text
    )


@pytest.mark.parametrize(
    ("verdict", "opposite", "side"),
    [
        ("supported", False, "for"),
        ("supported", True, "against"),
        ("refuted", False, "against"),
        ("refuted", True, "for"),
        ("undecided", True, "undecided"),
    ],
)
def test_a_refuted_opposite_is_for_the_paper(verdict: str, opposite: bool, side: str, claims_table: ModuleType) -> None:
    assert claims_table.Hypothesis("`a`", verdict, shown_before=False, is_opposite=opposite).side == side
