"""Every benchmark, one after another, each in a process of its own: the short form in under ten minutes on two cores.

python -m benchmarks.all            # make bench
python -m benchmarks.all --full     # all lengths, more turns: steadier figures
python -m benchmarks.tables         # the results as markdown; --write puts them into benchmarks/README.md
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHORT = (
    "startup --seconds 10",
    "report --seconds 10 --folders 200",
    "ortho --seconds 5",
    "attention --seconds 2 --lengths 512,2048 --models vanilla,linear,linear_l2,performer,cosformer,transnormer_t2",
    "train_step --task scan --seconds 60",
    "train_step --task sort_of_clevr --seconds 40",
    "decode",
)
FULL = (
    "startup --seconds 60",
    "report --seconds 60",
    "ortho --seconds 30",
    "attention --seconds 20",
    "train_step --task scan --seconds 300",
    "train_step --task sort_of_clevr --seconds 200",
    "decode",
)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--full", action="store_true", help="the long form")
    options.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    given = options.parse_args()
    threads = [] if given.threads is None else ["--threads", str(given.threads)]
    began, failed = time.monotonic(), []
    for line in FULL if given.full else SHORT:
        module, *arguments = line.split()
        print(f"python -m benchmarks.{line}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{module}", *arguments, *threads]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(line)
    print(f"{time.monotonic() - began:.0f} s in all; as markdown: python -m benchmarks.tables")
    for line in failed:
        print(f"failed: python -m benchmarks.{line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
