"""Sweeps of any number of jobs, and their run folders as finished runs leave them. Imports no torch.

The folders are copies of one real run: of other models, rates and seeds, and with numbers drawn anew that fit together
(right answers of each length add up to the right answers of the test set).
"""

import json
import random
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from attnlab.config.content_cache import ContentCache
from attnlab.config.run_identity import identity
from attnlab.config.sweep import Command
from attnlab.learn.atomic_write import IDENTITY
from attnlab.run.read_run_files import CHECKSUMS, checksum, config_text

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("vanilla", "linear", "linear_l2", "linear_l2_ortho", "performer")
SMALL = ("task=scan", "backbone.d_model=16", "backbone.n_heads=2", "backbone.n_layers=1", "train.log_every=1")
RATES = 10
KINDS = {
    "seeds": "5 models x 10 rates x seeds, which make 5 packs",
    "rates": "5 models x rates, each job a setting of its own",
    "steps": "5 models x train.max_steps, each job alone",
}


def sweep_words(kind: str, jobs: int, runs: Path) -> list[str]:
    """The command line of a sweep.

    Args:
        kind: a key of `KINDS`.
        jobs: of the sweep, rounded as by `whole`.
        runs: `paths.runs`.
    """
    each = whole(kind, jobs) // len(MODELS)
    swept = {
        "seeds": [f"seed=range(0,{each // RATES})", f"optim.lr={_rates(RATES)}", "train.max_steps=20"],
        "rates": [f"optim.lr={_rates(each)}", "train.max_steps=20"],
        "steps": [f"train.max_steps=range(1,{each + 1})"],
    }
    return ["-m", *SMALL, f"model={','.join(MODELS)}", *swept[kind], *_aside(runs)]


def whole(kind: str, jobs: int) -> int:
    """The number of jobs rounded to a whole number of seeds, rates or steps of all models, at least one."""
    unit = len(MODELS) * (RATES if kind == "seeds" else 1)
    return max(1, round(jobs / unit)) * unit


def _rates(number: int) -> str:
    return ",".join(f"{(place + 1) * 1e-6:.6f}" for place in range(number))


def _aside(runs: Path) -> list[str]:
    return ["trainer=cpu", "logger=csv", f"paths.runs={runs}"]


def real_run(folder: Path) -> Path:
    """Train one run at the settings of the sweeps, if it is not there yet; returns its run folder."""
    words = [*SMALL, f"model={MODELS[0]}", "train.max_steps=20", *_aside(folder), "trainer.threads=1"]
    line = [sys.executable, "train.py", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed:\n{done.stderr[-2000:]}")
    return next(folder.rglob("result.json")).parent


def finish(command: Command, source: Path) -> None:
    """Make the run folder of every job of a sweep, as if it were finished.

    Args:
        source: the folder of a real run at the same settings, rate, model and seed aside.
    """
    draw = random.Random(0)
    # jobs share most sections, and writing yaml takes long
    texts = ContentCache[str](10_000)
    result, status = (json.loads((source / name).read_text()) for name in ("result.json", "status.json"))
    for job in command.jobs:
        parts = [texts.get(repr(part), lambda part=part: config_text(dict([part]))) for part in job.raw.items()]
        job.folder.mkdir(parents=True)
        (job.folder / "config.yaml").write_text("".join(parts))
        metrics = drawn(result["metrics"], result["counts"], draw)
        named = {IDENTITY: identity(job.raw)}
        text = json.dumps({**result, **named, "metrics": metrics}, indent=2) + "\n"
        bound = {**status, **named, CHECKSUMS["result.json"]: checksum(text.encode())}
        (job.folder / "result.json").write_text(text)
        (job.folder / "status.json").write_text(json.dumps(bound))
        shutil.copyfile(source / "metrics.csv", job.folder / "metrics.csv")


def drawn(metrics: Mapping[str, float], counts: Mapping[str, int], draw: random.Random) -> dict[str, float]:
    """Other values of the metrics: shares of right answers, whose sum over lengths is that of the test set."""
    right: dict[str, int] = defaultdict(int)
    found = dict(metrics)
    for name in metrics:
        part, _, measured = name.rpartition("/")
        if length := re.fullmatch(r"(.+)/length_\w+", part):
            correct = draw.randint(0, counts[part])
            found[name] = correct / counts[part]
            right[f"{length[1]}/{measured}"] += correct
    return found | {name: correct / counts[name.rpartition("/")[0]] for name, correct in right.items()}
