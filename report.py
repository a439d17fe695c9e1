"""Report: `python report.py experiment=park2024/table4_scan`; `python report.py --help` shows the rest."""

import sys

from attnlab.run_script import run_script

if __name__ == "__main__":
    sys.exit(run_script("attnlab.report.cli:report_main"))
