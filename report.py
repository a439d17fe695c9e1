"""Report: `python report.py experiment=park2024/table4_scan`; `python report.py --help` shows the rest."""

import sys

from attnlab.config.unread import exit_code_of
from attnlab.run.report.cli import report_main

if __name__ == "__main__":
    sys.exit(exit_code_of(report_main, sys.argv[1:]))
