"""One training step of several models on a task: steps and tokens a second, padding, waiting, memory.

Every model trains in a separate process with the real `pl.Trainer`, `TrainingModule` and data loader (batch, forward,
loss, backward, finite check, clipping, Adam; no metrics, no checkpoints), on the same batches in the same order. The
processes take turns: all but one wait, so the models are measured A B A B ... and ratios are of one turn.

tokens/s    real tokens, of inputs and outputs; the positions of a picture and its question count as tokens
padding %   share of the computed positions that are padding
waiting %   share of the time until the data loader gives the next batch
memory      the process's peak in training: on a CPU resident, with Python, torch and the data; on a GPU torch's own

    python -m benchmarks.train_step --task scan --models vanilla,linear
    python -m benchmarks.train_step --task all --small-batch
    python -m benchmarks.train_step --task sort_of_clevr --compile backbone.d_model=128
"""

from argparse import Namespace
from collections.abc import Sequence

from benchmarks.harness.environment import begin, parser
from benchmarks.harness.interleaved_training import Contestant, Job, Turn
from benchmarks.harness.tables import show
from benchmarks.harness.timing import Timings, progress, settle, timed_turns
from benchmarks.harness.workload import COMPILED, make_config, small_batch, tasks_of

MODELS = "linear_l2,vanilla,linear_l2_ortho,transnormer_t2,performer"


def compete(jobs: Sequence[Job], seconds: float, threads: int) -> tuple[dict[str, list[Turn]], dict[str, int]]:
    """Returns turns of all models, and the peak memory of each process in bytes."""
    task = jobs[0].task
    progress(f"{task}: starting {', '.join(job.model for job in jobs)}")
    contestants = {job.model: Contestant(job, threads) for job in jobs}
    for contestant in contestants.values():
        contestant.warm()
    measured: dict[str, list[Turn]] = {model: [] for model in contestants}
    for shown in timed_turns(seconds, 3):
        settle()
        for model, contestant in contestants.items():
            measured[model].append(contestant.turn())
        progress(f"{task}: {shown}")
    progress(None)
    return measured, {model: contestant.stop() for model, contestant in contestants.items()}


def rates(turns: Sequence[Turn], peak_bytes: int) -> dict[str, object]:
    """Returns tokens a second and shares of one model from its turns."""
    seconds, positions = sum(turn.seconds for turn in turns), sum(turn.positions for turn in turns)
    return {
        "tokens/s": sum(turn.real for turn in turns) / seconds,
        "padding %": 100 * (1 - sum(turn.real for turn in turns) / positions),
        "waiting %": 100 * sum(turn.waited for turn in turns) / seconds,
        "peak memory GB": peak_bytes / 1e9,
        "turns": len(turns),
    }


def measure(task: str, models: Sequence[str], overrides: Sequence[str], inputs: Namespace) -> list[dict]:
    """Returns a row per model on one task."""
    config = make_config(task, models[0], overrides, inputs.device)
    jobs = [Job(task, model, overrides, inputs.steps, inputs.device) for model in models]
    turns, peaks = compete(jobs, inputs.seconds, inputs.threads)
    times = Timings({model: [turn.seconds / inputs.steps for turn in turns[model]] for model in models})
    return [
        {
            "task": task,
            "model": model,
            "batch": config.train.batch_size,
            "ms a step": 1000 * times.median(model),
            "steps/s": 1 / times.median(model),
            f"time / {models[0]}": times.ratio(model, models[0]),
            "middle half": times.quartiles(model, models[0]),
            **rates(turns[model], peaks[model]),
        }
        for model in models
    ]


def main() -> None:
    options = parser(__doc__, seconds=60, devices=True)
    options.add_argument("--task", default="scan", help="names, or all (default: %(default)s)")
    options.add_argument("--models", default=MODELS, help="the first is the baseline (default: %(default)s)")
    options.add_argument("--steps", type=int, default=2, help="steps in one turn (default: %(default)s)")
    options.add_argument("--compile", action="store_true", help="compiled steps")
    options.add_argument("--small-batch", action="store_true", help="batches that two cores take in seconds")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    arguments = options.parse_args()
    environment, shown = (
        begin(arguments.threads, arguments.device),
        arguments.overrides + [COMPILED] * arguments.compile,
    )
    for task in tasks_of(arguments.task):
        overrides = [*(small_batch(task) if arguments.small_batch else ()), *shown]
        rows = measure(task, arguments.models.split(","), overrides, arguments)
        words = f" ({' '.join(shown)})" if shown else ""
        show(f"train_step_{task}{'_compiled' * arguments.compile}", f"Training step, {task}{words}", rows, environment)


if __name__ == "__main__":
    main()
