"""`python -m attnlab.tasks`: every task, or one of them prepared and shown; `--help` shows the rest."""

import sys

from attnlab.entry_point import run_script

if __name__ == "__main__":
    sys.exit(run_script("attnlab.launch.tasks_cli:main"))
