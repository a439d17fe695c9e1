"""Time and memory of large sweeps: plan of the jobs, list and report of their finished runs, and what breaks first.

One run is trained; the finished run folders are copies of it with other seeds, rates and numbers. Every part is a
process of its own, so that its peak memory is its own. It is measured at a few jobs, a quarter and all of --jobs; from
these follow its figures at --at jobs, as a constant (the start) and a power of the number of jobs. Seconds of the
processor are taken for this, which depend less on what else the machine does.

1. check: compose and check a sweep (`-m model=... seed=... optim.lr=...`). 5 models x 10 rates x seeds.
2. plan: that, run folders and packs; also of a sweep over rates alone, whose jobs are all different settings, and of
   one over numbers of steps, whose jobs are all alone.
3. list: that, then which runs are finished, and the table of the sweep: the command repeated when all is done.
4. report: `python report.py runs=...`; also of different settings, a row for every run. table: `attnlab.runs(...)`.

    python -m benchmarks.sweep_scale --jobs 10000
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness.environment import begin, parser
from benchmarks.harness.finished_sweep import KINDS, ROOT, whole
from benchmarks.harness.tables import show
from benchmarks.harness.timing import progress

PARTS = (
    ("check", "seeds"), ("plan", "seeds"), ("plan", "rates"), ("plan", "steps"),
    ("list", "seeds"), ("report", "seeds"), ("table", "seeds"), ("report", "rates"),
)  # fmt: skip
OF_FOLDERS = ("list", "report", "table")
LIMITS = {"check": (60, 1000), "plan": (60, 1000), "list": (60, math.inf), "report": (60, math.inf)}
"""seconds and MB at 10,000 jobs"""
MEASURES = {"processor": "CPU s", "MB": "MB"}

WITHIN = "within limits up to"

Figures = Mapping[str, float]


def measured(part: str, kind: str, jobs: int, runs: Path) -> dict[str, float]:
    """Returns seconds, seconds of the processor, and peak memory of one part in a new process."""
    line = [sys.executable, "-m", "benchmarks.harness.sweep_parts", part, kind, str(jobs), str(runs)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def curve(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Returns (a, b, p) of a + b n^p through three values, of which the first is taken for a in the power p.

    p is at least 1: less is a constant part, or chance.
    """
    (first, middle, last), (start, low, high) = sizes, values
    power = math.log((high - start) / (low - start)) / math.log(last / middle) if high > low > start else 1.0
    power = max(power, 1.0)
    slope = max(high - start, 0.0) / (last**power - first**power)
    return high - slope * last**power, slope, power


def jobs_within(limit: float, found: tuple[float, float, float]) -> float:
    """Returns the number of jobs at which a curve reaches a limit; infinite if it never does."""
    start, slope, power = found
    return math.inf if slope <= 0 else (max(limit - start, 0) / slope) ** (1 / power)


def rows(parts: Sequence[tuple[str, str]], asked: Sequence[int], at: int, folder: Path) -> Iterator[dict[str, object]]:
    """A row for each part, measured at these numbers of jobs, in ascending order."""
    for part, kind in parts:
        sizes, found = sorted({whole(kind, jobs) for jobs in asked}), []
        for jobs in sizes:
            progress(f"{part}, {kind}, {jobs:,} jobs")
            runs = folder / kind / str(jobs) / "runs"
            if part in OF_FOLDERS and not runs.exists():
                measured("make", kind, jobs, runs)
            found.append(measured(part, kind, jobs, runs))
        yield row(part, kind, sizes, found, at)
    progress(None)


def row(part: str, kind: str, sizes: Sequence[int], found: Sequence[Figures], at: int) -> dict[str, object]:
    """Figures at the largest size beside their limits, and what follows for `at` jobs from three sizes."""
    last, limits = found[-1], dict(zip(MEASURES, LIMITS.get(part, (math.inf, math.inf)), strict=True))
    line: dict[str, object] = {"part": f"{part}, {kind}", "jobs": sizes[-1], "made": last["made"], "s": last["seconds"]}
    within = []
    for name, title in MEASURES.items():
        line |= {title: last[name], f"at most {title}": _whole(limits[name])}
        growth = {f"{title} grows as n^": "-", f"{title} at {at:,}": "-"}
        if len(sizes) == 3:
            start, slope, power = curve(sizes, [each[name] for each in found])
            within.append(jobs_within(limits[name], (start, slope, power)))
            growth = dict(zip(growth, (f"{power:.2f}", f"{start + slope * at**power:.0f}"), strict=True))
        line |= growth
    return line | {WITHIN: _whole(min(within, default=math.inf))}


def _whole(number: float) -> object:
    return int(number) if math.isfinite(number) else "-"


def first_to_break(lines: Sequence[Mapping[str, object]], at: int) -> str:
    """Says which part reaches its limit first, and which others do before `at` jobs."""
    reached = {str(line["part"]): int(str(line[WITHIN])) for line in lines if line[WITHIN] != "-"}
    early = sorted((jobs, part) for part, jobs in reached.items() if jobs < at)
    if not early:
        return f"no part is beyond its limits at {at:,} jobs" if reached else "too few jobs to say what breaks first"
    return f"beyond its limits first: {'; then '.join(f'{part}, at {jobs:,} jobs' for jobs, part in early)}"


def main() -> None:
    options = parser(f"{__doc__}\nSweeps: {'; '.join(f'{name}: {words}' for name, words in KINDS.items())}.", seconds=0)
    options.add_argument("--jobs", type=int, default=10_000, help="of the largest sweep (default: %(default)s)")
    options.add_argument("--at", type=int, default=100_000, help="jobs to extrapolate to (default: %(default)s)")
    options.add_argument("--parts", default="check,plan,list,report,table", help="(default: %(default)s)")
    options.add_argument("--kinds", default=",".join(KINDS), help="of sweeps (default: %(default)s)")
    options.add_argument("--once", action="store_true", help="the largest sweep only, without extrapolation")
    given = options.parse_args()
    environment = begin(given.threads)
    parts = [(part, kind) for part, kind in PARTS if part in given.parts.split(",") and kind in given.kinds.split(",")]
    sizes = [given.jobs] if given.once else [1, given.jobs // 4, given.jobs]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for_rows = rows(parts, sizes, given.at, Path(folder))
        show("sweep_scale", "Large sweeps", (lines.append(line) or line for line in for_rows), environment)
    print(first_to_break(lines, given.at))


if __name__ == "__main__":
    main()
