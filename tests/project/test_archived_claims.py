"""The presets of the claims and the archives of their runs: each run is still a run of its preset."""

from collections import Counter
from pathlib import Path

import pytest
from support.slow_cases import slow_except
from support.small_runs import ROOT

from attnlab.report.runs.read_runs import run_folders
from attnlab.report.runs.run_archives import unpack
from attnlab.report.runs.select_runs import select_jobs

ARCHIVES = ROOT / "experiments/measured/claims"
CLAIMS = sorted(folder.name for folder in ARCHIVES.iterdir() if list(folder.glob("seed*.tar.xz")))
HAS_OUTCOME = {"finished", "failed"}
"""a failed run has diverged"""


# of every task whose defaults have changed since, the claims with the fewest jobs
@pytest.mark.parametrize(
    "claim", slow_except(CLAIMS, ["recall_norms", "recall_state", "mad_convolution", "word_problem", "positions"])
)
def test_every_archived_run_is_found_by_its_preset_and_has_its_settings(claim: str, tmp_path: Path) -> None:
    """Of its first seed, of which a campaign that was stopped has archived a part only: `seed<k>_unfinished`."""
    archive = min((ARCHIVES / claim).glob("seed*.tar.xz"))
    unpack([archive], tmp_path)
    seed, part, _ = archive.name.removeprefix("seed").removesuffix(".tar.xz").partition("_unfinished")
    runs = select_jobs(f"claims/{claim}", [f"seed={seed}", f"paths.runs={tmp_path / claim}"]).runs
    if part:
        runs = [run for run in runs if run.folder.exists()]
    others = [(run.folder.parts[-4:], run.state, run.reason) for run in runs if run.state not in HAS_OUTCOME]
    assert not others, f"{Counter(state for _, state, _ in others)}, such as {others[0]}"
    assert {run.folder for run in runs} == set(run_folders(str(tmp_path)))
