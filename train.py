"""Train: `python train.py task=scan model=linear_l2_ortho`; `python train.py --help` shows the rest."""

import sys

from attnlab.config.unread import exit_code_of
from attnlab.run.cli import train_main

if __name__ == "__main__":
    sys.exit(exit_code_of(train_main, sys.argv[1:]))
