"""Evaluate a trained run: `python evaluate.py run=<run folder> task.split=simple`; `--help` shows the rest."""

import sys

from attnlab.config.unread import exit_code_of
from attnlab.run.evaluation import evaluate_main

if __name__ == "__main__":
    sys.exit(exit_code_of(evaluate_main, sys.argv[1:]))
