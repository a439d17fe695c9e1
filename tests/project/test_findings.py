"""The page of findings and the results in the README: what the archives of the claims say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_findings_and_results_follow_from_the_archives(tmp_path: Path) -> None:
    pages = ["docs/findings.md", "README.md"]
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments", ignore=lambda *_: {"runs", "reports", ".campaign"})
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / page, tmp_path / page)
    subprocess.run([sys.executable, "experiments/findings.py"], cwd=tmp_path, check=True)
    for page in pages:
        assert (tmp_path / page).read_text() == (ROOT / page).read_text(), f"{page}: run experiments/findings.py"
    shown = {file.name for file in (ROOT / "docs/images/findings").iterdir()}
    assert shown == {file.name for file in (tmp_path / "docs/images/findings").iterdir()}
