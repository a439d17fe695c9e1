"""Short real runs of every task with up to five models on a CPU, and tables of their results: does each task train?

    python experiments/short_runs.py data=<folder with the official files> [tasks=scan,pcfg] [models=linear_l2_ortho]
    python experiments/short_runs.py table        # experiments/measured/README.md from the results

Every run is an ordinary `python train.py` of a few hundred steps at small width, with one number of steps for all
models of a task. The table compares its loss over the
last tenth of the steps with the loss of a trivial predictor, which knows only the frequency of each class or token in
the training data. Data preparation is timed once for each task, in a separate process, with an empty cache. Finished
runs are not repeated.
"""

import csv
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from attnlab.data.examples import Examples
    from attnlab.data.task_spec import TaskSpec

HERE = Path(__file__).resolve().parent
ROOT, FOUND, README = HERE.parent, HERE / "measured" / "tasks", HERE / "measured" / "README.md"
MARKER = "<!-- below: written by `python experiments/short_runs.py table` -->"
MODELS = ("vanilla", "linear_l2_ortho", "performer", "cosformer", "transnormer_t2")
SMALL = "backbone.d_model=64 backbone.n_heads=4 backbone.n_layers=2 backbone.d_feed_forward=128 backbone.dropout=0"
QUICK = "optim.schedule=one_cycle optim.warmup_steps=null train.log_every=5 train.max_tokens=null"
SHORT: dict[str, str] = {
    "scan": "train.max_steps=300 train.batch_size=64 optim.lr=3e-3",
    "sort_of_clevr": "train.max_steps=600 optim.lr=1e-3 train.validate_every=200",
    "mathematics": "train.max_steps=400 train.batch_size=64 optim.lr=2e-3 task.module=numbers__place_value "
    "task.source=official task.test_questions=1000",
    "pcfg": "train.max_steps=1500 train.batch_size=32 optim.lr=5e-3 task.split=small_10k "
    "backbone.embedding=upscale_tokens backbone.norm_placement=pre backbone.final_norm=true",
    "cogs": "train.max_steps=400 train.batch_size=64 optim.lr=3e-3 train.validate_every=400 train.bucket_window=50",
    "lra_listops": "train.max_steps=200 optim.lr=3e-3 train.validate_every=100 task.source=official "
    "task.max_length=600 backbone.pooling=first",
    "lra_text": "train.max_steps=1000 train.batch_size=64 optim.lr=5e-3 train.validate_every=500 task.max_length=256 "
    "backbone.embedding=upscale_normal backbone.positions=sinusoidal",
    "lra_retrieval": "train.max_steps=200 optim.lr=2e-3 train.validate_every=100 task.max_length=256",
    "lra_pathfinder": "train.max_steps=200 train.batch_size=32 optim.lr=2e-3 train.validate_every=100",
    "lra_image": "train.max_steps=400 train.batch_size=32 optim.lr=3e-3 train.validate_every=200 "
    "backbone.embedding=upscale_normal backbone.positions=sinusoidal",
    "wikitext103": "train.max_steps=300 train.batch_size=16 optim.lr=1e-2 task.length=64 train.validate_every=150",
    "wikitext103_masked": "train.max_steps=1200 train.batch_size=32 optim.lr=5e-3 task.length=64 "
    "train.validate_every=600 task.vocabulary_size=1000 backbone.norm_placement=pre backbone.final_norm=true "
    "backbone.embedding=upscale_normal backbone.positions=sinusoidal",
    "wikitext2": "train.max_steps=200 train.batch_size=8 optim.lr=3e-3 task.length=128 train.validate_every=100",
    "glue": "train.max_steps=300 train.max_epochs=null optim.lr=1e-3 task.dataset=sst2_sentences "
    "backbone.d_classifier=64",
    "flip_flop": "train.max_steps=600 train.batch_size=16 optim.lr=2e-3 task.length=64 task.train_sequences=20000 "
    "task.test_sequences=400",
    "mqar": "train.max_steps=1000 train.max_epochs=null train.batch_size=64 optim.lr=3e-3 task.vocabulary=512 "
    "task.train_examples=20000 task.val_examples=500 task.test_examples=1000 task.test_pairs=[4,8,16] "
    "train.validate_every=500",
    "formal_language": "train.max_steps=400 train.batch_size=64 optim.lr=3e-3 task.dataset=bucket_sort task.length=20 "
    "task.test_length=40 task.train_examples=50000 task.test_examples=50 train.validate_every=200",
    "word_problem": "train.max_steps=400 train.batch_size=64 optim.lr=3e-3 task.group=Z60 task.length=6 "
    "task.train_examples=50000 train.validate_every=200",
    "algorithmic": "train.max_steps=400 train.batch_size=64 optim.lr=3e-3 task.size=8 task.train_examples=50000 "
    "task.test_examples=1000 train.validate_every=200 backbone.positions=sinusoidal",
    "mad": "train.max_steps=300 train.max_epochs=null train.batch_size=32 optim.lr=2e-3 task.length=64 "
    "train.validate_every=150",
}
"""overrides of each task's runs, in addition to `SMALL` and `QUICK`"""
OF_A_KIND = re.compile(r"functions_|gen/(?!lexical|structural)\w+/")
"""metrics of single kinds of examples, which the table leaves out"""


def trivial_loss(train: "Examples", spec: "TaskSpec") -> float:
    """Loss in nats per answer of the frequencies of the training data, over up to 2,000 random examples."""
    numbers = np.random.default_rng(0).permutation(len(train))[:2000]
    batch = train.batch(np.sort(numbers))
    match spec.kind:
        case "classification":
            answers = batch.answers
        case "encoder_decoder":
            answers = batch.targets[batch.target_mask]
        case _:
            answers = batch.targets[batch.scored]
    if spec.kind == "classification" and spec.n_classes == 1:
        return float(np.var(answers.numpy()))
    counts = np.bincount(answers.numpy()).astype(np.float64)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def overrides_of(name: str) -> list[str]:
    """Overrides of a task's short run."""
    return [f"task={name}", *SMALL.split(), *QUICK.split(), *SHORT[name].split()]


def unrepeated(overrides: list[str]) -> list[str]:
    """Overrides with only the last one of each key."""
    return list({word.partition("=")[0]: word for word in overrides}.values())


def environment() -> dict[str, str]:
    """Environment of a run: one thread, and this checkout."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def measure_preparation(name: str, data: Path) -> None:
    """Measure the data preparation of a task in a separate process."""
    file = FOUND / name / "preparation.json"
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        paths = [f"paths.data={data}", f"paths.cache={cache}"]
        words = unrepeated([*overrides_of(name), *paths])
        subprocess.run(
            [sys.executable, __file__, "prepare", str(file), *words], check=True, env=environment(), cwd=ROOT
        )


def prepare_here(file: Path, words: list[str]) -> None:
    """Prepare data in this process; write seconds, memory and size on disk into a file."""
    from attnlab.config.job_config import compose_config, job_config
    from attnlab.run.build_runtime import prepare
    from attnlab.tasks.base import make_task

    config = job_config(compose_config(words)).typed
    task, began = make_task(config.task), time.perf_counter()
    prepared = prepare(task, config.paths)
    seconds = time.perf_counter() - began
    # before the data is read again
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sizes = {name: len(subset) for name, subset in prepared.subsets.items()}
    cache = [each.stat().st_size for each in Path(config.paths.cache).rglob("*") if each.is_file()]
    record = {"seconds": seconds, "peak_memory_bytes": peak, "cache_bytes": sum(cache), "sizes": sizes}
    record |= {"about": prepared.about, "trivial_loss": trivial_loss(prepared.subsets["train"], prepared.spec)}
    file.write_text(json.dumps(record, indent=1) + "\n")


def run(name: str, model: str, data: Path, runs: Path) -> None:
    """Train and test, then write the numbers of the table into a file."""
    file = FOUND / name / f"{model}.json"
    if file.exists():
        return
    shown = unrepeated([*overrides_of(name), f"model={model}"])
    paths = [f"paths.data={data}", f"paths.runs={runs}", f"paths.cache={runs / 'cache'}"]
    words = [*shown, *paths, "logger=csv", "trainer=cpu", "trainer.threads=1", "trainer.progress=none"]
    subprocess.run([sys.executable, "train.py", *words], check=True, env=environment(), cwd=ROOT)
    from attnlab.config.job_config import compose_config
    from attnlab.config.run_identity import run_folder

    folder = run_folder(compose_config(words))
    with (folder / "metrics.csv").open() as rows:
        losses = [float(row["value"]) for row in csv.DictReader(rows) if row["name"] == "train/loss"]
    result = json.loads((folder / "result.json").read_text())
    metrics = {key: value for key, value in result["metrics"].items() if "/length_" not in key}
    last = losses[-max(1, len(losses) // 10) :]
    record = {
        key: result[key] for key in ("seconds", "parameters", "peak_memory_bytes", "selection", "git", "hardware")
    }
    record |= {"command": f"python train.py {' '.join(shown)}", "loss": sum(last) / len(last), "metrics": metrics}
    record |= {"first_loss": losses[0], "about": result["data"]["about"]}
    file.write_text(json.dumps(record, indent=1) + "\n")


def page() -> str:
    """Text of experiments/measured/README.md: unchanged above the marker, then the tables."""
    records = {
        name: {file.stem: json.loads(file.read_text()) for file in sorted((FOUND / name).glob("*.json"))}
        for name in SHORT
    }
    data = [
        "| task | examples | seconds | cache MB | peak memory MB | computed on |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    runs = ["| task | steps | model | loss | trivial | test | seconds |", "|" + " --- |" * 7]
    commands = []
    for name, files in records.items():
        preparation = files.pop("preparation", None)
        if preparation is None:
            continue
        sizes = ", ".join(f"{subset} {size:,}" for subset, size in preparation["sizes"].items())
        numbers = [preparation["seconds"], preparation["cache_bytes"] / 1e6, preparation["peak_memory_bytes"] / 1e6]
        shown = " | ".join(f"{number:.1f}" if number < 100 else f"{number:.0f}" for number in numbers)
        data.append(f"| `{name}` | {sizes} | {shown} | {preparation['about']} |")
        steps = {re.search(r"train\.max_steps=(\d+)", run["command"])[1] for run in files.values()}
        if len(steps) > 1:
            raise SystemExit(f"{FOUND / name}: runs of {', '.join(sorted(steps))} steps; expected one number")
        for model in (model for model in MODELS if model in files):
            run = files[model]
            tested = ", ".join(
                f"{key.removeprefix('test/')} {value:.3g}"
                for key, value in run["metrics"].items()
                if key.startswith("test/") and not OF_A_KIND.search(key) and not key.endswith("oracle_end")
            )
            numbers = f"{run['loss']:.3f} | {preparation['trivial_loss']:.3f} | {tested} | {run['seconds']:.0f}"
            runs.append(f"| `{name}` | {min(steps)} | `{model}` | {numbers} |")
        if files:
            words = next(iter(files.values()))["command"].split()
            commands.append(f"{' '.join(word for word in words if not word.startswith('model='))} model=...")
    text = README.read_text().partition(MARKER)[0]
    return "\n\n".join((text + MARKER, "\n".join(data), "\n".join(runs), "```", "\n".join(commands), "```")) + "\n"


def main(words: list[str]) -> int:
    """Command line; returns the exit code."""
    if words == ["table"]:
        README.write_text(page())
        return 0
    if words[:1] == ["prepare"]:
        prepare_here(Path(words[1]), words[2:])
        return 0
    options = dict(word.partition("=")[::2] for word in words)
    if "data" not in options:
        print(__doc__, file=sys.stderr)
        return 2
    data, runs = Path(options["data"]).resolve(), Path(options.get("runs", HERE / "runs"))
    failed = []
    for name in options.get("tasks", ",".join(SHORT)).split(","):
        measure_preparation(name, data)
        for model in options.get("models", ",".join(MODELS)).split(","):
            print(f"{name} {model}", flush=True)
            try:
                run(name, model, data, runs)
            except subprocess.CalledProcessError as error:
                failed.append(f"{name} {model}: exit code {error.returncode}")
    print("\n".join(failed) or "all done", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
