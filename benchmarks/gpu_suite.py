"""The GPU targets that fit into one command of ten minutes; needs no network and no data.

    python -m benchmarks.gpu_suite --out OUT         # on a GPU
    python -m benchmarks.gpu_suite --out OUT --tiny  # checks the script on any machine; its numbers mean nothing

Each part is a separate process with a time limit, so a part that fails or hangs does not cost the others; the time
that it leaves goes to the next parts. Writes csv files, the output of each part (`*.log`) and `summary.md` to
OUT. Compiled code and prepared data are cached in OUT/cache.

Not in it, since they need data or more time: `python -m benchmarks.train_step --task all`,
`python -m benchmarks.orthogonality_loss` (every task), `python -m benchmarks.attention` (every mechanism),
`python -m benchmarks.table7` (table 7 of Qin et al.),
`python -m benchmarks.decode --parts scan,share`.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.tables import markdown, newest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Part:
    """A benchmark's command line, its tiny form, and its time limit in seconds."""

    name: str
    line: str
    tiny: str
    seconds: int


SHRUNK = "backbone.d_model=16 backbone.n_heads=2 backbone.n_layers=1 backbone.d_feed_forward=16 train.batch_size=8"
# The most important first.
PARTS = (
    Part(
        "packed SCAN",
        "packed --ways packed --members 5,16 --compile both --seconds 25",
        f"packed --ways packed --members 2 --compile both --seconds 1 --warm 2 {SHRUNK}",
        200,
    ),
    Part(
        "packed sort-of-CLEVR",
        "packed --ways packed --task sort_of_clevr --members 5 --compile both --seconds 20",
        f"packed --ways packed --task sort_of_clevr --members 2 --seconds 1 {SHRUNK}",
        110,
    ),
    Part(
        "processes",
        "packed --ways processes --members 1,2,4,8,16,32 --compile yes --seconds 5 --steps 100",
        f"packed --ways processes --members 1,2 --seconds 1 --steps 2 {SHRUNK}",
        130,
    ),
    Part(
        "decoding",
        "decode --parts position --passes 2 --rows 64",
        f"decode --parts position --passes 1 --rows 2 --tokens 64 {SHRUNK}",
        70,
    ),
    Part(
        "orthogonality loss",
        "orthogonality_loss --tasks scan,sort_of_clevr --published-batch --compile scan,sort_of_clevr --seconds 1",
        "orthogonality_loss --tasks scan --gram-lengths 64 --lengths 64 --seconds 0",
        90,
    ),
    Part(
        "attention",
        "attention --modes causal --seconds 2 --memory 60 --limit 1 --lengths 1024,4096,16384 "
        "--models vanilla,linear,linear_l2,performer,cosformer,transnormer_t2",
        "attention --modes causal --seconds 0 --lengths 64,128 --models vanilla,linear --batch 1",
        70,
    ),
    Part(
        "training steps",
        "train_step --task scan,sort_of_clevr --seconds 5 --steps 20",
        f"train_step --task scan --seconds 1 --models vanilla {SHRUNK}",
        80,
    ),
)


def run(part: Part, line: Sequence[str], seconds: float, out: Path) -> str:
    """Runs a part and returns how it ended."""
    variables = {"BENCHMARK_RESULTS": str(out), "ATTNLAB_CACHE": str(out / "cache" / "data")}
    variables["TORCHINDUCTOR_CACHE_DIR"] = str(out / "cache" / "inductor")
    with (out / f"{part.name.replace(' ', '_')}.log").open("w") as log:
        command = [sys.executable, "-m", f"benchmarks.{line[0]}", *line[1:]]
        # In a separate process group, so that all of its processes end with it.
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
        )
        begun = time.monotonic()
        try:
            code = process.wait(timeout=seconds)
            end = "done" if code == 0 else f"failed with exit code {code}"
        except subprocess.TimeoutExpired:
            end = "stopped at its time limit"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return f"{end} after {time.monotonic() - begun:.0f} s"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True, help="a folder for everything that is written")
    options.add_argument("--minutes", type=float, default=9.5, help="for all parts together (default: %(default)s)")
    options.add_argument("--parts", default="", help="only these, by name, comma-separated (default: all)")
    options.add_argument("--tiny", action="store_true", help="a few steps of tiny networks on the CPU")
    given = options.parse_args()
    out, names = given.out.resolve(), given.parts.split(",") if given.parts else [part.name for part in PARTS]
    if unknown := set(names) - {part.name for part in PARTS}:
        options.error(f"{', '.join(sorted(unknown))}: no such part; there are {', '.join(p.name for p in PARTS)}")
    out.mkdir(parents=True, exist_ok=True)
    deadline, ends = time.monotonic() + 60 * given.minutes, {}
    for part in PARTS:
        left = deadline - time.monotonic()
        if part.name not in names or left < 10:
            ends[part.name] = "not run"
            continue
        words = part.tiny.split() if given.tiny else part.line.split()
        line = [words[0], "--device", "cpu" if given.tiny else "cuda", *words[1:]]
        print(f"{part.name}: python -m benchmarks.{' '.join(line)}", flush=True)
        ends[part.name] = run(part, line, min(part.seconds, left), out)
        print(f"  {ends[part.name]}", flush=True)
    subprocess.run(
        [sys.executable, "-m", "benchmarks.targets"],
        cwd=ROOT,
        env=os.environ | {"BENCHMARK_RESULTS": str(out)},
        check=False,
    )
    tables = "\n\n".join(markdown(file) for file in newest(out).values())
    parts = "\n".join(f"- {name}: {end}" for name, end in ends.items())
    (out / "summary.md").write_text(f"{parts}\n\n{tables}\n")
    print(f"written to {out}")
    return 0 if all(end.startswith("done") or end == "not run" for end in ends.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
