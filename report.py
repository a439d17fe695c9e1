"""Report: `python report.py experiment=park2024/table4_scan`; `python report.py --help` shows the rest."""

import sys

from attnlab.script import run_script

if __name__ == "__main__":
    sys.exit(run_script("attnlab.run.report.cli:report_main"))
