"""Train: `python train.py task=scan model=linear_l2_ortho`; `python train.py --help` shows the rest."""

import sys

from attnlab.run_script import train

if __name__ == "__main__":
    sys.exit(train())
