"""All measurements on a GPU: targets, training runs of five minutes, and what the published tables would cost.

    python -m benchmarks.gpu --out OUT                                      # everything, up to 43 minutes
    python -m benchmarks.gpu --out OUT --minutes 9.5 --parts scan_single    # one part in one command of ten minutes
    python -m benchmarks.gpu --out OUT --minutes 9.5 --parts speed          # the parts that are no training runs
    python -m benchmarks.gpu --out OUT --summary                            # summary.md anew, from all files in OUT
    python -m benchmarks.gpu --out OUT --tiny                               # checks the script on any machine

Needs no network and no data. Each part is a separate process with a time limit, so a part that fails or hangs does not
cost the others; the time that it leaves goes to the next parts. What a part prints is shown as it comes. With every new
row OUT/<part>.json is written (command, how it ended, its tables with machine, versions and commit, the end of its
output), and summary.md is written anew: results, targets and costs as text. The files of several calls go into one
folder, which can be committed under experiments/measured. Compiled code and prepared data are cached in `--cache`, by
default a temporary folder.

Not in it, since they need data or more time: `python -m benchmarks.train_step --task all`,
`python -m benchmarks.orthogonality_loss` (every task), `python -m benchmarks.attention` (every mechanism),
`python -m benchmarks.table7` (table 7 of Qin et al.), `python -m benchmarks.decode --parts scan,share`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.environment import device_of
from benchmarks.harness.gpu_parts import GROUPS, Part, chosen
from benchmarks.harness.gpu_summary import read_parts, summary_text
from benchmarks.harness.tables import newest, read

ROOT = Path(__file__).resolve().parents[1]
KEPT_LINES = 200
"""of a part's output, in its file"""


@dataclass(frozen=True)
class Outcome:
    """What OUT/<part>.json holds: the tables by the name of their csv, rows as text with the environment."""

    part: str
    command: str
    end: str
    seconds: float
    tables: dict[str, list[dict[str, str]]]
    output: list[str]


def run(
    part: Part, words: Sequence[str], seconds: float, cache: Path, keep: Callable[[Outcome], object] = lambda _: None
) -> Outcome:
    """Runs a part in a process for at most so many seconds and shows what it prints.

    Args:
        keep: called with what there is whenever the part has written rows.
    """
    with tempfile.TemporaryDirectory(prefix="attnlab-results-") as results:
        variables = {"BENCHMARK_RESULTS": results, "ATTNLAB_CACHE": str(cache / "data"), "PYTHONUNBUFFERED": "1"}
        variables["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
        # In a separate process group, so that all of its processes end with it.
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output, begun, known = deque[str](maxlen=KEPT_LINES), time.monotonic(), 0
        reader = threading.Thread(target=_show, args=(process.stdout, output), daemon=True)
        reader.start()

        def outcome(end: str) -> Outcome:
            took = time.monotonic() - begun
            tables = {file.name: read(file) for file in newest(Path(results)).values()}
            text = f"{end} after {took:.0f} s"
            return Outcome(part.name, f"python -m {' '.join(words)}", text, took, tables, list(output))

        try:
            while process.poll() is None and time.monotonic() - begun < seconds:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=min(1.0, max(0.0, seconds - (time.monotonic() - begun))))
                if (size := sum(file.stat().st_size for file in Path(results).glob("*.csv"))) > known:
                    known = size
                    keep(outcome("not ended"))
            code = process.poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # A child that outlived its parent would hold the pipe open.
        reader.join(timeout=5)
        return outcome({0: "done", None: "stopped at its time limit"}.get(code, f"failed with exit code {code}"))


def _show(lines: Iterable[str], output: deque[str]) -> None:
    for line in lines:
        output.append(line.rstrip("\n"))
        print(f"  {output[-1]}", flush=True)


def run_parts(parts: Sequence[Part], given: argparse.Namespace, cache: Path) -> list[str]:
    """Runs the parts within the time and writes their files; returns the names of those that did not end well."""
    deadline = time.monotonic() + 60 * given.minutes if given.minutes else float("inf")
    bad = []

    def keep(outcome: Outcome) -> None:
        (given.out / f"{outcome.part}.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")

    for part in parts:
        left = deadline - time.monotonic()
        if left < (20 if given.tiny else part.least):
            bad.append(part.name)
            continue
        limit = min(part.seconds, left)
        words = part.command(given.tiny, given.device.type, limit)
        print(f"{part.name}, at most {limit:.0f} s: python -m {' '.join(words)}", flush=True)
        # The limit of a part is generous in the tiny form: everything is compiled on a CPU there.
        outcome = run(part, words, min(1200, left) if given.tiny else limit, cache, keep)
        print(f"{part.name}: {outcome.end}", flush=True)
        keep(outcome)
        write_summary(given.out, costs=False)
        if not outcome.end.startswith("done"):
            bad.append(part.name)
    return bad


def write_summary(out: Path, costs: bool = True) -> str:
    """Writes OUT/summary.md from the files of the parts; returns the text."""
    order = [part.name for part in GROUPS["all"]]
    text = summary_text(read_parts(out, order), costs)
    (out / "summary.md").write_text(text)
    return text


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True, help="a folder for everything that is written")
    options.add_argument("--minutes", type=float, help="for all parts together (default: as long as they take)")
    options.add_argument("--parts", default="all", help="names, comma-separated; speed, training or all (default: all)")
    options.add_argument("--device", type=device_of, help="cpu or cuda (default: cuda; cpu with --tiny)")
    options.add_argument("--cache", type=Path, help="folder for compiled code and prepared data (default: temporary)")
    options.add_argument("--tiny", action="store_true", help="a few steps of tiny networks; the numbers mean nothing")
    options.add_argument("--summary", action="store_true", help="measure nothing, only write summary.md")
    given = options.parse_args()
    try:
        parts = [] if given.summary else chosen(given.parts)
        given.device = given.device or device_of("cpu" if given.tiny or given.summary else "cuda")
    except (ValueError, argparse.ArgumentTypeError) as error:
        options.error(str(error))
    # so that the process of the part ends too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attnlab-cache-") as folder:
        bad = run_parts(parts, given, given.cache.resolve() if given.cache else Path(folder))
    print(write_summary(given.out))
    if bad:
        print(f"not measured, or not to the end: --parts {','.join(bad)}")
    print(f"written to {given.out}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
