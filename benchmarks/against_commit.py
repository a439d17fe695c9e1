"""Training steps of the present code against the code of an earlier commit, in turns.

The commit is unpacked (`git archive`) into a temporary folder, which is removed at the end. Each version runs in a
process with its own code, builds the same workload and times some steps when asked; the turns alternate (A B, B A, A B
...), the other process waits. A ratio is the median over the turns of the times for each example, with its 95 %
interval (from six turns on). The present code is this checkout with its uncommitted changes.

scan           SCAN at the published settings, vanilla
scan_bucketed  the same with train.bucket_window=32; a turn is a window of 32 batches
sort_of_clevr  park2024/table2_sort_of_clevr_small: width 64, linear_l2_ortho, one thread; this checkout compiles it
quickstart     the step of `make train`, one thread

"loss" is the mean over the first turn, from equal seeds: without dropout (the last two) both versions differ by
rounding alone, unless a result has changed.

    python -m benchmarks.against_commit 484d963
    python -m benchmarks.against_commit HEAD~3 --workloads sort_of_clevr --seconds 20
    python -m benchmarks.against_commit HEAD --workloads scan --here train.bucket_window=32
"""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import Row, show
from benchmarks.harness.timing import Timings, progress, timed_turns

ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "benchmarks" / "harness" / "timed_version.py"
BEFORE, NOW = "before", "now"


@dataclass(frozen=True)
class Compared:
    """A workload: task, model, settings, steps of a turn, and threads (None: as --threads says)."""

    task: str
    model: str
    overrides: tuple[str, ...]
    steps: int
    threads: int | None = None


WORKLOADS = {
    "scan": Compared("scan", "vanilla", (), 2),
    "scan_bucketed": Compared("scan", "vanilla", ("train.bucket_window=32",), 32),
    "sort_of_clevr": Compared(
        "sort_of_clevr", "linear_l2_ortho", ("experiment=park2024/table2_sort_of_clevr_small",), 20, 1
    ),
    "quickstart": Compared("scan", "linear_l2_ortho", ("experiment=quickstart",), 20, 1),
}


def commit_of(revision: str) -> str:
    """Returns the full hash of a revision.

    Raises:
        SystemExit: there is no such commit, or no git repository here.
    """
    words = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{revision}: no such commit in {ROOT} (a shallow clone has the last ones only)")
    return done.stdout.strip()


def unpack(commit: str, folder: Path) -> None:
    """Writes the files of a commit into a folder."""
    words = ["git", "archive", "--format=tar", commit]
    with (
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as archive,
        tarfile.open(fileobj=archive.stdout, mode="r|") as files,
    ):
        # from Python 3.11.4 on
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(folder, **safe)
    if archive.returncode:
        raise SystemExit(f"git archive {commit} failed with exit code {archive.returncode}")


def last_error(log: str) -> str:
    """Returns the message of the error that ended a process, from its output."""
    lines = log.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"[A-Za-z_][\w.]*: \S", line)]
    return " ".join(lines[starts[-1] if starts else -1 :]) or "no message"


class Version:
    """Process of one version of the code; a context manager that ends it.

    Args:
        name: for messages.
        tree: its files.
        scratch: a folder for its cache and its log.
        wanted: what the child builds, as JSON.
    """

    def __init__(self, name: str, tree: Path, scratch: Path, wanted: Mapping[str, Any]) -> None:
        self.name, self.log = name, scratch / "log.txt"
        scratch.mkdir(parents=True)
        variables = {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "ATTNLAB_CACHE": str(scratch / "cache")}
        variables |= {"OMP_NUM_THREADS": str(wanted["threads"])}
        command = [sys.executable, "-P", str(CHILD), json.dumps({**wanted, "tree": str(tree)})]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=tree,
                env=os.environ | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def __enter__(self) -> "Version":
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.kill()
        self.process.wait()
        # flushing a pipe that nobody reads any more
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, steps: int) -> dict[str, float]:
        """Returns seconds, examples and mean loss of the next steps.

        Raises:
            SystemExit: the process has ended.
        """
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the code {self.name} cannot run this workload: {last_error(self.log.read_text())}")
        return json.loads(answer)


def in_turns(
    versions: Mapping[str, Version], steps: int, seconds: float, least: int
) -> tuple[Timings, dict[str, float]]:
    """Returns seconds for each example by turn, and the mean loss of each version's first turn, which is not timed."""
    losses = {name: version.ask(steps)["loss"] for name, version in versions.items()}
    collected: dict[str, list[float]] = {name: [] for name in versions}
    for number, shown in enumerate(timed_turns(seconds, least)):
        for name in list(versions)[:: 1 if number % 2 == 0 else -1]:
            answer = versions[name].ask(steps)
            collected[name].append(answer["seconds"] / answer["examples"])
        progress(shown)
    progress(None)
    return Timings(collected), losses


def compare(name: str, commit: str, trees: Mapping[str, Path], inputs: Namespace) -> Row:
    """Returns the row of a workload."""
    compared = WORKLOADS[name]
    threads = compared.threads or inputs.threads
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attnlab-cache-")))
        versions = {}
        for which, tree in trees.items():
            overrides = [*compared.overrides, *inputs.overrides, *(inputs.here if which == NOW else ())]
            wanted = {"task": compared.task, "model": compared.model, "overrides": overrides, "threads": threads}
            reported = f"of commit {commit[:10]}" if which == BEFORE else "of this checkout"
            versions[which] = stack.enter_context(Version(reported, tree, scratch / which, wanted))
        progress(f"{name}: starting")
        times, losses = in_turns(versions, compared.steps, inputs.seconds, inputs.turns)
    return {
        "workload": name,
        "model": compared.model,
        "before": commit[:10],
        "step threads": threads,
        "before, ms an example": 1000 * times.median(BEFORE),
        "now, ms an example": 1000 * times.median(NOW),
        "times as fast": times.ratio(BEFORE, NOW),
        "95 % interval": times.interval(BEFORE, NOW).text(),
        "turns": len(times.seconds[NOW]),
        "loss before": losses[BEFORE],
        "loss now": losses[NOW],
    }


def main() -> None:
    options = parser(__doc__, seconds=60)
    options.add_argument("commit", help="hash, tag, branch or HEAD~n")
    options.add_argument("--workloads", default=",".join(WORKLOADS), help="(default: %(default)s)")
    options.add_argument("--turns", type=int, default=6, help="at least so many (default: %(default)s)")
    options.add_argument(
        "--here", action="append", default=[], metavar="key=value", help="settings of the present code"
    )
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings of both, as for train.py")
    inputs = options.parse_intermixed_args()
    names = inputs.workloads.split(",")
    if unknown := set(names) - set(WORKLOADS):
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such workload; there are {', '.join(WORKLOADS)}")
    commit = commit_of(inputs.commit)
    # so that the folder is removed and the processes end
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    environment, rows = begin(inputs.threads), list[Row]()
    words = [*inputs.overrides, *(f"now {word}" for word in inputs.here)]
    title = f"Training steps against commit {commit[:10]}" + (f" ({' '.join(words)})" if words else "")
    with tempfile.TemporaryDirectory(prefix="attnlab-commit-") as folder:
        unpack(commit, Path(folder))
        for name in names:
            rows.append(compare(name, commit, {BEFORE: Path(folder), NOW: ROOT}, inputs))
            show("against_commit", title, rows, environment)


if __name__ == "__main__":
    main()
