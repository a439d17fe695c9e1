"""`python -m attnlab.tasks`: every task, or one of them prepared and shown; `--help` shows the rest."""

import sys

from attnlab.run_script import run_script

if __name__ == "__main__":
    sys.exit(run_script("attnlab.launch.tasks_cli:main"))
