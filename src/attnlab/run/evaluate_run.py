"""Evaluation of a trained run on any subsets of its task, without training."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.config.classes.recorded_code import CODE
from attnlab.config.classes.source_hash import code_of
from attnlab.config.job_config import JobConfig
from attnlab.config.run_identity import differences
from attnlab.data.examples import Examples
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.devices.device_choice import choose_device
from attnlab.learn.evaluator import Evaluator, Findings
from attnlab.learn.metrics import subset_scores
from attnlab.learn.reporter import Reporter
from attnlab.run import provenance
from attnlab.run.build_runtime import network_with, place_data, prepare
from attnlab.run.evaluate_options import EvaluateOptions
from attnlab.run.named_runs import code_note, trained_on, unknown_subset
from attnlab.run.read_checkpoints import run_weights
from attnlab.run.read_run_files import Unreadable, read_status
from attnlab.run.run_folder import RunError
from attnlab.tasks.base import Prepared, Task, make_task


def evaluate_run(options: EvaluateOptions, job: JobConfig) -> dict[str, Any]:
    """The metrics of a trained run, with task, data, weights and origin; `job` names task, device and folders.

    Raises:
        RunError: no weights, weights that do not fit, or an unknown subset.
        DataError: the data cannot be had.
    """
    config, folder = job.typed, options.run
    trainer = config.trainer
    device = choose_device(trainer.device, trainer.threads, config.train.tf32, trainer.deterministic)
    weights, where = run_weights(folder, options.checkpoint or "selected", config.train.selection)
    trained = trained_on(folder)
    task, former_task = make_task(config.task), make_task(trained)
    former = prepare(former_task, config.paths)
    prepared = former if config.task == trained else prepare(task, config.paths)
    _require_same_outputs(prepared.spec, former.spec)
    _require_same_tokens(task, former_task)
    prepared = place_data(prepared, device, config.trainer.data_on_device)
    network = network_with(weights, folder, config, former.spec)
    reporter = Reporter(config.trainer.progress)
    digest = prepared.data_hash()
    if changed := _changed_data(folder, digest if config.task == trained else former.data_hash()):
        reporter.say(changed)
    for note in filter(None, (code_note(folder, job.raw), unfinished(folder, where["step"]))):
        reporter.say(note)
    changes = differences({"task": trained}, {"task": config.task})
    if changes:
        reporter.say(f"note: the task is not as in training: {', '.join(changes)}")
    evaluator = Evaluator(config.train, prepared, network.to(device), reporter)
    findings, seen = _evaluate_subsets(options, prepared, evaluator, former, task, bool(changes))
    return {
        "metrics": findings.metrics,
        "counts": findings.counts,
        "shortcuts": findings.shortcuts,
        "task": config.task,
        "lengths": options.lengths,
        "weights": where,
        "seen_in_training": seen,
        "data": {"version": task.version, "hash": digest, "about": prepared.about},
        **evaluator.debug(),
        **provenance.origin(device),
        CODE: [code_of(job.raw)],
    }


def unfinished(folder: Path, step: int) -> str:
    """A note if the run has not been trained to its end; else empty."""
    with suppress(Unreadable):
        if (state := read_status(folder / "status.json").get("state")) != "finished":
            return f"note: the run is not finished ({state}); these are its weights of step {step:,}"
    return ""


def _changed_data(folder: Path, now: str) -> str:
    """A note if the task's data is not what the run was trained on; else empty."""
    try:
        trained = read_status(folder / "status.json").get("data", {}).get("hash")
    except Unreadable as error:
        return f"note: {error.short}, so that it is not known whether the data is still what the run was trained on"
    changed = f"note: the data of this task has changed since the run was trained on it (hash {trained}, now {now})"
    return "" if trained in (None, now) else changed


def _evaluate_subsets(
    options: EvaluateOptions,
    prepared: Prepared[Examples],
    evaluator: Evaluator,
    former: Prepared[Examples],
    task: Task,
    changed: bool,
) -> tuple[Findings, dict[str, int]]:
    """Findings of every subset asked for, and how many of its examples the run was trained on (in `former`).

    Args:
        changed: whether the task has other options than in training.
    """
    findings, seen, say = Findings(), {}, evaluator.reporter.say
    names = evaluator.tests if options.subset is None else [options.subset]
    if missing := set(names) - set(prepared.subsets):
        raise RunError(unknown_subset(missing.pop(), list(prepared.subsets)))
    trained, shortcuts = set(former.subsets["train"].identities()), task.shortcuts(former)
    for name in names:
        numbers = _numbers(options, prepared.subsets[name], name, len(names) == 1)
        numbers = evaluator.chosen(name, numbers)
        if numbers is not None and not len(numbers):
            say(f"note: {name} has no example of lengths {options.lengths}")
            continue
        limit = prepared.decode_limits.get(name) or prepared.spec.max_output_length
        findings.add(name, *evaluator.subset(name, numbers, limit, show=True))
        findings.shortcuts |= subset_scores(shortcuts, prepared.spec, name, prepared.subsets[name], numbers)
        identities = prepared.subsets[name].identities()
        seen[name] = sum(identities[i] in trained for i in (range(len(identities)) if numbers is None else numbers))
        if changed and name in former.subsets and identities == former.subsets[name].identities():
            say(f"note: {name} has the same examples as without these options")
        if seen[name]:
            say(f"note: the run was trained on {seen[name]:,} of these {findings.counts[name]:,} examples of {name}")
    if not findings.metrics:
        raise RunError(f"lengths={options.lengths}: {', '.join(names)} have no such example")
    return findings, seen


def _require_same_outputs(tested: TaskSpec, trained: TaskSpec) -> None:
    """Refuses another kind of task than in training, other numbers of tokens or classes, and end tokens that were not
    trained. The weights of one kind often fit the network of another: which ones do is not asked.
    """
    if tested.kind != trained.kind:
        raise RunError(f"the run was trained on a task of kind {trained.kind} and this one is of kind {tested.kind}")
    if tested.causal != trained.causal:
        raise RunError(f"task.causal={str(tested.causal).lower()}: the run was trained otherwise; leave the key out")
    if tested.end_token != trained.end_token:
        other = "sequence_accuracy_oracle_end is its accuracy at given lengths"
        why = f"with end tokens, and {other}" if trained.end_token else "without end tokens, and can choose none"
        raise RunError(f"task.end_token={str(tested.end_token).lower()}: the run was trained {why}; leave the key out")
    for name in ("input_vocabulary", "output_vocabulary", "n_classes"):
        if getattr(tested, name) != getattr(trained, name):
            trained_value, tested_value = getattr(trained, name), getattr(tested, name)
            quantity = name.replace("_", " ")
            raise RunError(f"the run was trained with {quantity} {trained_value} and this data has {tested_value}")


def _require_same_tokens(tested: Task, trained: Task) -> None:
    """Refuses data whose numbers stand for other tokens than in training."""
    for names, former in zip(tested.token_names() or (), trained.token_names() or (), strict=False):
        if changed := [pair for pair in zip(former, names, strict=False) if pair[0] != pair[1]]:
            token, other = changed[0]
            raise RunError(f"the run was trained with the token {token}, in place of which this data has {other}")


def _numbers(options: EvaluateOptions, examples: Examples, name: str, alone: bool) -> np.ndarray | None:
    """Examples of the lengths asked for; None = all."""
    if options.lengths is None:
        return None
    if examples.lengths is None:
        raise RunError(f"lengths={options.lengths}: {name} of this task has no lengths")
    low, high = options.bounds
    lengths = np.asarray(examples.lengths)
    numbers = np.flatnonzero((lengths >= low) & (lengths <= high))
    if not len(numbers) and alone:
        known = f"its lengths go from {lengths.min()} to {lengths.max()}"
        raise RunError(f"lengths={options.lengths}: {name} has no such example; {known}")
    return numbers
