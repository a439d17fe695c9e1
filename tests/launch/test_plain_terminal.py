"""Commands on a terminal, in a pipe or on a full disk that cannot take every sign: the files are written."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.dev_full import needs_dev_full
from support.small_runs import ROOT, SMALL_SCAN, environment
from support.written_runs import a_run

from attnlab.config.job_config import compose_config

ASCII = {
    "output": {"PYTHONIOENCODING": "ascii"},
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
FILES = {"table.md", "table.csv", "seeds.csv", "table.tex", "report.json"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two finished runs, so that a mean has a `±`."""
    config = compose_config([*SMALL_SCAN, "model=linear"])
    for seed, ood in enumerate((0.4, 0.5)):
        a_run(tmp_path / f"runs/scan/linear/tag/seed{seed}", config | {"seed": seed}, ood)
    return tmp_path / "runs"


def reported(runs: Path, stdout: int, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "report.py", f"runs={runs}", f"out={runs.parent / 'out'}"]
    return subprocess.run(
        line, stdout=stdout, stderr=subprocess.PIPE, encoding="ascii", env=environment() | more, cwd=ROOT, check=False
    )


@pytest.mark.parametrize("name", ASCII)
def test_a_report_on_an_ascii_terminal_shows_plain_signs_and_writes_all_files(name: str, runs: Path) -> None:
    done = reported(runs, subprocess.PIPE, ASCII[name])
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "45.0 +- 7.1" in done.stdout
    assert {file.name for file in (runs.parent / "out").iterdir()} >= FILES
    assert "45.0 ± 7.1" in (runs.parent / "out/table.md").read_text(encoding="utf-8")


@needs_dev_full
def test_a_report_that_cannot_be_printed_is_written(runs: Path) -> None:
    with Path("/dev/full").open("w") as full:
        assert reported(runs, full.fileno(), {}).returncode != 0
    assert {file.name for file in (runs.parent / "out").iterdir()} >= FILES


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", "5 +- ? e ?"), ("latin-1", "5 ± ? é ?"), ("utf-8", "5 ± 雪 é ?")]
)
def test_a_sign_that_an_output_lacks_is_replaced(encoding: str, shown: str) -> None:
    """The last one is a byte of a file name that is no text."""
    code = (
        "import sys; from attnlab.run_script import exit_code_of\n"
        r"sys.exit(exit_code_of(lambda argv: print('5 \xb1 \u96ea \xe9 \udcff') or 0, []))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        env=environment() | {"PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0 and done.stdout.decode(encoding) == f"{shown}\n", done.stderr
