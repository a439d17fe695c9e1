"""Seconds for a table of many run folders: `python report.py runs=...` in a new process, beside reading them once.

The folders are made for it: one configuration in which rate and seed vary, with a result of the size SCAN's have.

    python -m benchmarks.report_latency --folders 1000
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import attnlab
from attnlab.config.job_config import compose_config
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import interleaved

ROOT = Path(__file__).resolve().parents[1]
RATES = tuple(1e-4 * 2**power for power in range(20))


def make_folders(runs: Path, number: int) -> None:
    """Finished runs of one model at twenty rates, as many seeds as it takes."""
    config = compose_config(["task=scan", "model=linear"])
    lengths = {f"test/{part}/length_{n}/sequence_accuracy": 0.5 for part in ("iid", "ood") for n in range(1, 36)}
    metrics = {f"test/{part}/sequence_accuracy": 0.5 for part in ("iid", "ood")} | lengths
    for index in range(number):
        rate, seed = RATES[index % len(RATES)], index // len(RATES)
        folder = runs / f"lr={rate:g}" / f"seed{seed}"
        folder.mkdir(parents=True)
        own = config | {"seed": seed, "optim": config["optim"] | {"lr": rate}}
        (folder / "config.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
        (folder / "result.json").write_text(json.dumps({"metrics": metrics, "seconds": 1.0}))
        (folder / "status.json").write_text(json.dumps({"state": "finished", "attnlab": attnlab.__version__}))


def read_all(runs: Path) -> int:
    """Every file once: what no report can be faster than."""
    return sum(len(file.read_bytes()) for file in runs.rglob("*") if file.is_file())


def main() -> None:
    options = parser(__doc__, seconds=30)
    options.add_argument("--folders", type=int, default=1000)
    given = options.parse_args()
    environment = begin(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        runs, out = Path(folder) / "runs", Path(folder) / "out"
        make_folders(runs, given.folders)
        line = [sys.executable, str(ROOT / "report.py"), f"runs={runs}", f"out={out}"]
        forms = {
            "report.py": lambda: subprocess.run(line, cwd=ROOT, capture_output=True, check=True),
            "python -c pass": lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
            "reading the files": lambda: read_all(runs),
        }
        for form in forms.values():
            form()
        times = interleaved(forms, given.seconds, "reporting")
    rows = [{"what": name, "folders": given.folders, "seconds": times.median(name)} for name in forms]
    show("report", "Report", rows, environment)


if __name__ == "__main__":
    main()
