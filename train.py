"""Train: `python train.py task=scan model=linear_l2_ortho`; `python train.py --help` shows the rest."""

import sys

from attnlab.run.cli import train_main

if __name__ == "__main__":
    sys.exit(train_main(sys.argv[1:]))
