"""Seconds until the command line answers: help, a config error, a bare import; beside Python itself and torch.

Every command is a new process, in turns, the files already in the system's cache (the first turn is not counted).

    python -m benchmarks.startup
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.tables import show
from benchmarks.timing import begin, interleaved, parser

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import attnlab'": ["-c", "import attnlab"],
    "python train.py --help": ["train.py", "--help"],
    "python train.py model=linar (config error)": ["train.py", "model=linar"],
    "python -c 'import torch'": ["-c", "import torch"],
}


def starter(arguments: list[str]) -> Callable[[], subprocess.CompletedProcess]:
    return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)


def main() -> None:
    given = parser(__doc__, seconds=20).parse_args()
    place = begin(given.threads)
    runs = {name: starter(arguments) for name, arguments in COMMANDS.items()}
    codes = {name: run().returncode for name, run in runs.items()}
    times = interleaved(runs, given.seconds, "starting")
    rows = [
        {"started": name, "exit code": codes[name], "seconds": times.median(name), "starts": len(times.seconds[name])}
        for name in COMMANDS
    ]
    show("startup", "Start-up", rows, place)


if __name__ == "__main__":
    main()
