"""Report: `python report.py experiment=park2024/table4_scan`; `python report.py --help` shows the rest."""

import sys

from attnlab.run_script import report

if __name__ == "__main__":
    sys.exit(report())
