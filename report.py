"""Report: `python report.py experiment=park2024/table4_scan`; `python report.py --help` shows the rest."""

import sys

from attnlab.run.report.cli import report_main

if __name__ == "__main__":
    sys.exit(report_main(sys.argv[1:]))
