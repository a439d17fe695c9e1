from .report.runs_table import runs as runs
from .run.loaded_run import Run as Run
from .run.loaded_run import load_run as load_run

__version__: str
