"""All benchmarks in turn, each in a separate process: the short form in under ten minutes on two cores.

python -m benchmarks.all            # make bench
python -m benchmarks.all --full     # all lengths, more turns: steadier figures
python -m benchmarks.all --tiny     # check that every benchmark runs; its numbers mean nothing
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TINY = "backbone.d_model=32 backbone.n_heads=2 backbone.n_layers=1 train.batch_size=16"
SHORT = (
    "startup --seconds 5 --jobs 3 --turns 1",
    "orthogonality_loss --seconds 1 --gram-lengths 26,1024 --lengths 64,1024,16384 "
    "--tasks scan,sort_of_clevr,mathematics,lra_listops,flip_flop",
    "attention --seconds 1 --lengths 512,2048 --models vanilla,linear,linear_l2,performer,cosformer,transnormer_t2",
    "train_step --task scan --seconds 30",
    "train_step --task sort_of_clevr --seconds 20",
    "decode --parts scan --models linear,vanilla",
    "decode --parts position --passes 1 --rows 4 backbone.n_layers=1",
)
FULL = (
    "startup --seconds 60",
    "orthogonality_loss --seconds 30",
    "attention --seconds 20",
    "train_step --task scan --seconds 300",
    "train_step --task sort_of_clevr --seconds 200",
    "train_step --task all --small-batch --seconds 60",
    "decode",
    "table7 --lengths 1024,2048",
    "published_step",
)
# Options appended to the options of a line: every benchmark becomes quick and still measures everything.
SMALLEST = {
    "startup": "--seconds 0 --jobs 2",
    "orthogonality_loss": "--seconds 0 --gram-lengths 26 --lengths 64 --tasks scan",
    "attention": "--seconds 0 --lengths 64 --models linear,vanilla --batch 1",
    "train_step": f"--seconds 0 --steps 1 --models linear,vanilla {TINY}",
    "decode": f"--models linear --tokens 40 --rows 2 {TINY}",
    "table7": "--seconds 0 --lengths 64,128 --batch 1 --turns 1",
    "published_step": f"--seconds 0 --window 2 {TINY}",
    "against_commit": f"HEAD --seconds 0 --turns 1 {TINY}",
}


def tiny() -> list[str]:
    """Returns the lines of the short form and the benchmarks that it leaves out, with the smallest sizes."""
    rest = sorted(set(SMALLEST) - {line.split()[0] for line in SHORT})
    lines = []
    for line in (*SHORT, *rest):
        words = f"{line} {SMALLEST[line.split()[0]]}".split()
        # argparse takes settings in one piece only
        lines.append(" ".join(sorted(words, key=lambda word: "=" in word)))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--full", action="store_true", help="the long form")
    forms.add_argument("--tiny", action="store_true", help="a few steps of tiny networks, to see that everything runs")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    options = parser.parse_args()
    threads = [] if options.threads is None else ["--threads", str(options.threads)]
    began, failed = time.monotonic(), []
    for line in FULL if options.full else tiny() if options.tiny else SHORT:
        module, *arguments = line.split()
        print(f"python -m benchmarks.{line}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{module}", *threads, *arguments]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(line)
    print(f"{time.monotonic() - began:.0f} s in all")
    for line in failed:
        print(f"failed: python -m benchmarks.{line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
