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


def test_claims_are_counted_by_their_states(claims_table: ModuleType) -> None:
    text = claims_table.summary(["open", "declared", "open"], [])
    assert text.startswith("3 claims: 0 decided, 0 undecided, 1 declared, 0 written, 0 cannot, 0 exploratory, 2 open.")
    waiting = claims_table.Hypothesis("`a`: runs 3 of 9", None, shown_before=False, is_declared=True)
    assert claims_table.category({"cannot": "no time"}, [waiting]) == "declared"
    assert claims_table.category({"cannot": "no time"}, []) == "cannot" and claims_table.category({}, []) == "open"
