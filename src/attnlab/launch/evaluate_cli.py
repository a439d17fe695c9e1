"""`python evaluate.py run=<folder> ...`: a trained run on any split, cutoff or length of its task, without training."""

import hashlib
import json
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.check import ConfigError
from attnlab.config.job_config import JobConfig, apply_values
from attnlab.config.naming import label_options
from attnlab.config.overrides import with_data_set_names
from attnlab.config.suggest import hint, listed, nearest
from attnlab.learn.metric_units import text, whole
from attnlab.run.load_run import network_with, paths_here, trained_on, with_own_tokens
from attnlab.run.run_argument import asked_config, folder_words, subset_problem, unknown_subset
from attnlab.run.run_folder import RunError, read_config, require_writable, write_text

HELP = """python evaluate.py run=<run folder> [key=value ...]

Evaluates a finished or stopped run without training it.

  run=...          the run folder (experiments/runs/<task>/<model>/<tag>/seed<k>)
  subset=...       one subset only: train, val, test, test/iid, test/ood (default: all test subsets)
  lengths=A-B      only examples of A to B tokens (also a single number): of the target where a sequence is
                   written, else of the input
  checkpoint=...   selected (default: as the run's own test), last, best
  out=...          folder of the findings (default: evaluations/ in the run folder)
  task.*=...       another split, length or data set of the same task: task.split=simple, task.length_cutoff=30,
                   task.eval_length=1024
  train.eval_batch_size=..., train.eval_batches=... (so many of each subset; of a run with debug=smoke null for all),
  trainer.*=..., paths.*=...
"""

LONGEST_NAME = 150
OWN_KEYS = ("run", "subset", "lengths", "checkpoint", "out")
ELSEWHERE = "choose another folder with out="
ALLOWED = ("task.", "trainer.", "paths.", "train.eval_batch_size", "train.eval_batches")


def evaluate_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if not argv or any(argument in ("--help", "-h") for argument in argv):
        print(HELP)
        return 0 if argv else 2
    try:
        own = _own_options(argv)
        job = _job(own, [a for a in argv if a.split("=")[0] not in OWN_KEYS])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    folder = Path(own["run"])
    file = Path(own.get("out", folder / "evaluations")) / f"{_label(own, job, folder)}.json"
    try:
        require_writable(file.parent, ELSEWHERE)
    except RunError as error:
        return _failed(error)
    from attnlab.attention.base import TooLong
    from attnlab.data.files.fetch import DataError

    try:
        report = evaluate_run(own, job)
        # before anything is written: what was computed is seen even where the disk is full
        _show(report["metrics"])
        write_text(file, json.dumps(report, indent=2) + "\n", ELSEWHERE)
    except (RunError, DataError, TooLong) as error:
        return _failed(error)
    print(f"written to {file}")
    return 0


def _failed(error: Exception) -> int:
    print(f"failed: {error}", file=sys.stderr)
    return 1


def _own_options(argv: Sequence[str]) -> dict[str, str]:
    """The options of this command itself.

    Raises:
        ConfigError: a malformed one, all problems at once.
    """
    own = dict(a.split("=", 1) for a in argv if a.split("=")[0] in OWN_KEYS and "=" in a)
    problems = [f"{a}: expected {a}=value" for a in argv if a in OWN_KEYS]
    problems += [f"{key}=: empty" for key, value in own.items() if not value]
    folders = folder_words(argv, ("run",))
    problems += [f"{word}: write {instead}" for word, instead in folders.items()]
    for word in (a.split("=")[0] for a in argv if a not in folders):
        if "." not in word and "/" not in word and word not in OWN_KEYS:
            problems.append(
                f"{word}: unknown key{hint(nearest(word, OWN_KEYS))}; allowed: {listed((*OWN_KEYS, *ALLOWED))}"
            )
    if "run" not in own and "run" not in argv and not folders:
        problems.append(
            "run: missing; give run=<run folder>, such as run=experiments/runs/scan-simple/linear/default/seed0"
        )
    if own.get("checkpoint", "selected") not in ("selected", "last", "best"):
        problems.append(f"checkpoint={own['checkpoint']}: expected selected, last or best")
    if "lengths" in own and not re.fullmatch(r"\d+(-\d+)?", own["lengths"]):
        problems.append(f"lengths={own['lengths']}: expected a number or a range, such as 30 or 24-30")
    elif "lengths" in own and operator.gt(*_bounds(own["lengths"])):
        problems.append(f"lengths={own['lengths']}: the smaller number first")
    if problems:
        raise ConfigError(problems, "evaluate.py")
    return own


def _bounds(lengths: str) -> tuple[int, int]:
    """First and last of the lengths asked for: `24-30`, or `30` alone."""
    low, _, high = lengths.partition("-")
    return int(low), int(high or low)


def _job(own: Mapping[str, str], overrides: Sequence[str]) -> JobConfig:
    """The run's own configuration with the overrides set.

    Raises:
        ConfigError: no run folder, overrides that do not fit, or a subset that the task does not have.
    """
    try:
        raw = asked_config("run", Path(own["run"]))
    except RunError as error:
        raise ConfigError([str(error)], "evaluate.py") from None
    with_own_tokens(raw["task"], Path(own["run"]))
    # its weights are this run's own by now; the run it began with may be gone
    raw["from_run"], raw["paths"] = None, paths_here(raw["paths"])
    job = apply_values(raw, with_data_set_names(overrides, raw["task"]), ALLOWED)
    if "subset" in own and (problem := subset_problem(job.typed.task, own["subset"])):
        length = re.search(r"/length_(\d+)$", own["subset"])
        raise ConfigError([problem + (f"; one length alone: lengths={length[1]}" if length else "")], "evaluate.py")
    return job


def evaluate_run(own: Mapping[str, str], job: JobConfig) -> dict[str, Any]:
    """The metrics of a trained run, and what they are of.

    Raises:
        RunError: no weights, weights that do not fit, or an unknown subset.
        DataError: the data cannot be had.
    """
    from attnlab.learn.evaluator import Evaluator
    from attnlab.learn.training_progress import Reporter
    from attnlab.run import provenance
    from attnlab.run.read_checkpoints import run_weights
    from attnlab.run.runtime import choose_device, place_data, prepare
    from attnlab.tasks.base import make_task

    config, folder = job.typed, Path(own["run"])
    device = choose_device(config.trainer.device, config.trainer.threads, config.train.tf32)
    weights, where = run_weights(folder, own.get("checkpoint", "selected"), config.train.selection)
    task, trained = make_task(config.task), trained_on(folder)
    former = prepare(make_task(trained), config.paths)
    prepared = former if config.task == trained else prepare(task, config.paths)
    _require_vocabulary(prepared.spec, former.spec)
    prepared = place_data(prepared, device, config.trainer.data_on_device)
    network = network_with(weights, folder, config, former.spec)
    reporter = Reporter(config.trainer.progress)
    evaluator = Evaluator(config.train, prepared, network.to(device), reporter)
    found, seen = _evaluate_subsets(own, prepared, evaluator, reporter, set(former.subsets["train"].identities()))
    asked = {"task": config.task, "lengths": own.get("lengths"), "weights": where, "seen_in_training": seen}
    data = {"version": task.version, "hash": prepared.data_hash(), "about": prepared.about}
    return {
        "metrics": found.metrics,
        "counts": found.counts,
        **asked,
        "data": data,
        **evaluator.debug(),
        **provenance.origin(device),
    }


def _evaluate_subsets(
    own: Mapping[str, str], prepared: Any, evaluator: Any, reporter: Any, trained: set[bytes]
) -> tuple[Any, dict[str, int]]:
    """Findings of every subset asked for, and how many of its examples the run was trained on."""
    from attnlab.learn.evaluator import Findings

    found, seen, names = Findings(), {}, _subsets(own, list(prepared.subsets))
    for name in names:
        numbers = _numbers(own.get("lengths"), prepared.subsets[name], name, len(names) == 1)
        numbers = evaluator.chosen(name, numbers)
        if numbers is not None and not len(numbers):
            reporter.say(f"note: {name} has no example of lengths {own['lengths']}")
            continue
        limit = prepared.decode_limits.get(name) or prepared.spec.max_output_length
        found.add(name, *evaluator.subset(name, numbers, limit, show=True))
        identities = prepared.subsets[name].identities()
        seen[name] = sum(identities[i] in trained for i in (range(len(identities)) if numbers is None else numbers))
        if seen[name]:
            reporter.say(f"note: the run was trained on {seen[name]} of these {found.counts[name]} examples of {name}")
    if not found.metrics:
        raise RunError(f"lengths={own.get('lengths')}: {', '.join(names)} have no such example")
    return found, seen


def _require_vocabulary(asked: Any, trained: Any) -> None:
    """Refuse data whose numbers mean other tokens than those the run learned."""
    for name in ("input_vocabulary", "output_vocabulary", "n_classes"):
        if getattr(asked, name) != getattr(trained, name):
            raise RunError(
                f"the run was trained with {name.replace('_', ' ')} {getattr(trained, name)} and this data has "
                f"{getattr(asked, name)}: its weights mean nothing there"
            )


def _subsets(own: Mapping[str, str], there: Sequence[str]) -> list[str]:
    if "subset" not in own:
        return [name for name in there if name.split("/")[0] == "test"]
    if own["subset"] not in there:
        raise RunError(unknown_subset(own["subset"], there))
    return [own["subset"]]


def _numbers(lengths: str | None, examples: Any, name: str, alone: bool) -> Any:
    """Examples of the lengths asked for; None = all."""
    import numpy as np

    if lengths is None:
        return None
    if examples.lengths is None:
        raise RunError(f"lengths={lengths}: {name} of this task has no lengths")
    low, high = _bounds(lengths)
    all_lengths = np.asarray(examples.lengths)
    numbers = np.flatnonzero((all_lengths >= low) & (all_lengths <= high))
    if not len(numbers) and alone:
        raise RunError(
            f"lengths={lengths}: {name} has no such example; its lengths go from "
            f"{all_lengths.min()} to {all_lengths.max()}"
        )
    return numbers


def _label(own: Mapping[str, str], job: JobConfig, folder: Path) -> str:
    """File name from what was asked: task and split, other task options than the run's, subset, lengths, checkpoint."""
    former, task = read_config(folder / "config.yaml")["task"], job.typed.task
    shown = {"label", "from_run", *label_options(task), *label_options(former)}
    parts = [f"{key}={task[key]}" for key in task if key not in shown and task[key] != former.get(key)]
    parts += [f"{key}={own[key]}" for key in ("subset", "lengths", "checkpoint") if key in own]
    name = ",".join([job.label, *parts]).replace("/", "_")
    return name if len(name) <= LONGEST_NAME else f"{name[:80]},{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def _show(metrics: Mapping[str, float]) -> None:
    for name, value in whole(metrics).items():
        print(f"{name:45s} {text(name, value)}", flush=True)
