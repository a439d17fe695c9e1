"""What all benchmarks share: interleaved timing, ratios taken pair by pair, and where a figure was measured.

A shared machine changes its speed from second to second. So everything that is compared takes turns in one run, A B A
B ..., and a ratio is the median over the turns of time A / time B of the same turn, never a quotient of two separate
runs. Figures are medians.
"""

import argparse
import contextlib
import ctypes
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from attnlab.run import machine

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of mallopt(3)
SAMPLE_SECONDS = 0.005
"""calls shorter than this are repeated within one sample"""


@dataclass(frozen=True)
class Timings:
    """Seconds a call of each contestant: entry t of every list is from the same turn."""

    seconds: Mapping[str, Sequence[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, baseline: str) -> float:
        """Median over the turns of time of `name` / time of `baseline`."""
        return statistics.median(self.ratios(name, baseline))

    def quartiles(self, name: str, baseline: str) -> str:
        """The middle half of those ratios, as text: how far to trust the median."""
        if name == baseline or len(self.seconds[name]) < 2:
            return ""
        low, _, high = statistics.quantiles(self.ratios(name, baseline), n=4, method="inclusive")
        return f"{low:.3f} to {high:.3f}"

    def ratios(self, name: str, baseline: str) -> list[float]:
        """Of each turn, in order."""
        return [a / b for a, b in zip(self.seconds[name], self.seconds[baseline], strict=True)]


def interleaved(runs: Mapping[str, Callable[[], object]], seconds: float, what: str, least: int = 5) -> Timings:
    """Time every contestant in turn for about `seconds` in all, `least` turns at least, after one unmeasured turn.

    Args:
        runs: the contestants by name.
        what: shown as progress.
    """
    repeats = {}
    for name, run in runs.items():
        run()
        repeats[name] = max(1, round(SAMPLE_SECONDS / _seconds(run, 1)))
    found: dict[str, list[float]] = {name: [] for name in runs}
    started, turns = time.perf_counter(), 0
    while turns < least or time.perf_counter() - started < seconds:
        for name, run in runs.items():
            found[name].append(_seconds(run, repeats[name]))
        turns += 1
        progress(f"{what}: turn {turns}, {time.perf_counter() - started:.0f} s")
    progress(None)
    return Timings(found)


def _seconds(run: Callable[[], object], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    return max((time.perf_counter() - begin) / repeats, 1e-9)


class _Shown:
    last = 0.0


def progress(text: str | None) -> None:
    """One line on stderr that replaces itself in a terminal, a line every ten seconds elsewhere; None clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text or ''}")
        sys.stderr.flush()
    elif text is not None and time.monotonic() - _Shown.last > 10:
        _Shown.last = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def peak_memory_bytes() -> int:
    """Largest resident memory of this process since it was started.

    Not ru_maxrss where Linux offers better: there a child begins with its parent's peak.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024
    except (OSError, TypeError):
        return machine.peak_memory_bytes(torch.device("cpu"))


def peak_of(run: Callable[[], object]) -> float:
    """Bytes of memory that a call needs at its peak beyond what was in use before it.

    Linux: freed memory is given back first and the kernel's record of the peak is reset; nan elsewhere.
    """
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    except (OSError, TypeError):
        return math.nan
    run()
    return max(peak_memory_bytes() - before, 0)


def parser(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """A command line with the options all benchmarks have.

    Args:
        description: the module's docstring.
        seconds: default time budget of what the benchmark says it times.
    """
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads (default: torch's own)")
    made.add_argument("--seconds", type=float, default=seconds, help="time for each comparison (default: %(default)s)")
    return made


@contextlib.contextmanager
def memory_kept() -> Iterator[None]:
    """glibc keeps freed memory for the next call; nothing changes where there is no glibc.

    By default it gives back tensors above 32 MiB, and fetching them page by page at every call can take longer than
    what is computed with them: times jump at the length at which a form's tensors pass that size.
    """
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        yield
        return
    for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1)):
        set_option(option, value)
    try:
        yield
    finally:
        # The defaults of mallopt(3).
        for option, value in ((_M_MMAP_MAX, 65536), (_M_TRIM_THRESHOLD, 128 * 1024)):
            set_option(option, value)


def begin(threads: int) -> dict[str, object]:
    """Set the threads; what a figure depends on besides the code, one row beside every row of results."""
    torch.set_num_threads(threads)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: this machine is busy (load {load:.1f}); take the figures as rough", file=sys.stderr)
    git = machine.git_state()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cpu": machine.hardware(torch.device("cpu"))["cpu"],
        "threads": threads,
        "load_before": round(load, 1),
        "torch": torch.__version__,
        "commit": f"{(git['commit'] or 'none')[:10]}{' + changes' if git['dirty'] else ''}",
        "command": _command(),
    }


def _command() -> str:
    module = Path(sys.argv[0]).stem
    return " ".join([f"python -m benchmarks.{module}", *sys.argv[1:]])
