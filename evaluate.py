"""Evaluate a trained run: `python evaluate.py run=<run folder> task.split=simple`; `--help` shows the rest."""

import sys

from attnlab.run_script import run_script

if __name__ == "__main__":
    sys.exit(run_script("attnlab.launch.evaluate_cli:evaluate_main"))
