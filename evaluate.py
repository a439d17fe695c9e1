"""Evaluate a trained run: `python evaluate.py run=<run folder> task.split=simple`; `--help` shows the rest."""

import sys

from attnlab.run_script import evaluate

if __name__ == "__main__":
    sys.exit(evaluate())
