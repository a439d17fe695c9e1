"""One part of `benchmarks.sweep_scale`, in a process of its own: prints its seconds and its peak memory as JSON.

    python -m benchmarks.harness.sweep_parts plan seeds 1000 RUNS

Imports no torch, as the commands of a user do.
"""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlab.config.pack_grouping import packs
from attnlab.config.sweep import check_command
from attnlab.launch.console_summary import print_sweep
from attnlab.run.finished_run import is_finished
from benchmarks.harness.finished_sweep import finish, real_run, sweep_words


def plan(words: list[str], runs: Path) -> str:
    """Compose and check all jobs, name their folders, group them into packs."""
    found = packs(check_command(words).jobs)
    return f"{len(found)} packs"


def check(words: list[str], runs: Path) -> str:
    """Compose and check all jobs."""
    return f"{len(check_command(words).jobs)} jobs"


def listed(words: list[str], runs: Path) -> str:
    """A sweep that is repeated when all runs are finished: plan, which are finished, and the table."""
    command = check_command(words)
    finished = sum(map(is_finished, command.jobs))
    print_sweep(command.jobs, command.names)
    return f"{finished} finished"


def report(words: list[str], runs: Path) -> str:
    """`python report.py runs=...`."""
    # of this part only
    from attnlab.report.cli import report_main

    if report_main([f"runs={runs}", f"out={runs.parent / 'report'}"]):
        raise RuntimeError(f"no report of {runs}")
    return "table.md, report.json"


def table(words: list[str], runs: Path) -> str:
    """`attnlab.runs(...)`: a pandas table in Python."""
    import attnlab

    return f"{len(attnlab.runs(runs))} rows"


def make(words: list[str], runs: Path) -> str:
    """Finished run folders for the other parts."""
    command = check_command(words)
    finish(command, real_run(runs.parent / "real"))
    return f"{len(command.jobs)} folders"


PARTS: dict[str, Callable[[list[str], Path], str]] = {
    "check": check, "plan": plan, "list": listed, "report": report, "table": table, "make": make,
}  # fmt: skip


def main() -> None:
    name, kind, jobs, runs = sys.argv[1:]
    words = sweep_words(kind, int(jobs), Path(runs))
    began = time.perf_counter()
    with _silent():
        made = PARTS[name](words, Path(runs))
    seconds = time.perf_counter() - began
    # in KiB on Linux
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    used = {"seconds": seconds, "processor": time.process_time(), "MB": peak, "made": made}
    print(json.dumps(used))


@contextmanager
def _silent() -> Iterator[None]:
    """Standard output to nowhere, as long as it would be."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


if __name__ == "__main__":
    main()
