"""Several runs at once against the same runs one after the other: packed in one process, and as several processes.

Members differ in their seed alone. All ways take turns (A B A B ...); a time is one training step of every member.

single     a step without Lightning of one run, eager and compiled; the baselines
packed     `attnlab.launch.pack`: all members as one computation, gathering to optimiser step
processes  the simple way: one process a run, all at once on one device, by the real `pl.Trainer`, with threads /
           members each; against one such process alone with all threads

"times as fast" is members x time of one single step / time of the step of all, both eager or both compiled; for
processes both as --compile says. Peak memory is what a step needs beyond what was in use before it, and for a compiled
step on a GPU the memory that all CUDA graphs hold after it was recorded: single and packed steps may share it, so that
the packed one's is an upper bound. Of processes, it is the sum of what each takes.

Rows are written after every number of members, so that what stops later loses none of them. Packing is for GPUs: on a
CPU one small model of published size fills the cores already.

    python -m benchmarks.packed --members 1,5,16 --compile both
    python -m benchmarks.packed --members 1,2 --ways packed backbone.d_model=32 train.batch_size=8
"""

import gc
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import torch

from attnlab.kernels.compiled_step import drop_graphs
from attnlab.learn.objectives import objective_for
from attnlab.learn.training_module import TrainingModule
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.interleaved_training import Contestant, Job
from benchmarks.harness.peak_memory import graph_memory, peak_of
from benchmarks.harness.tables import show
from benchmarks.harness.timing import Timings, interleaved, progress
from benchmarks.harness.workload import COMPILED, Workload, make_workload, step_of, stepper

SINGLE = "single"
FORMS = {"no": (False,), "yes": (True,), "both": (False, True)}


def members_stepper(workloads: Sequence[Workload]) -> Callable[[], object]:
    """Returns a packed training step of all workloads: batches, forward, backward, clipping, optimiser.

    Whether it is compiled stands in their configuration.
    """
    from attnlab.launch.pack.network_stack import NetworkStack
    from attnlab.launch.pack.packed_module import PackedModule
    from attnlab.launch.pack.trainer import PackOrder

    first = workloads[0]
    # Only what the module reads of its members; folders and metrics are not measured.
    members = [
        SimpleNamespace(
            run=workload,
            module=TrainingModule(workload.config, workload.network, workload.prepared.spec),
            order=workload.order,
            active=True,
            error=None,
        )
        for workload in workloads
    ]
    stack = NetworkStack([workload.network for workload in workloads], objective_for(first.prepared.spec))
    return step_of(PackedModule(members, stack), first, first.batches(PackOrder(members)))


def label(way: str, compiled: bool) -> str:
    return f"{way}, {'compiled' if compiled else 'eager'}"


def row(way: str, members: int, compiled: bool, seconds: float, faster: float, peak: float) -> dict[str, object]:
    return {
        "way": way,
        "members": members,
        "compiled": "yes" if compiled else "no",
        "ms a step of all": 1000 * seconds,
        "steps/s of all": members / seconds,
        "times as fast as one after another": faster,
        "peak memory GB": peak / 1e9,
    }


def in_one_process(given: Namespace) -> Iterator[dict[str, object]]:
    """Measures single and packed steps for each number of members; single steps are shown for the first number."""
    first = make_workload(given.task, given.model, given.overrides, given.device)
    for number, members in enumerate(given.members):
        yield from (row for row in side_by_side(given, first, members) if not number or row["way"] != SINGLE)
        # the memory of its graphs counts for no later number
        drop_graphs()
        gc.collect()


def side_by_side(given: Namespace, first: Workload, members: int) -> list[dict[str, object]]:
    """Returns rows of a single step and of a packed step, timed in turn."""
    runs: dict[str, Callable[[], object]] = {}
    of: dict[str, tuple[str, int, bool]] = {}
    for compiled in FORMS[given.compile]:

        def workload(seed: int, more: tuple[str, ...] = (COMPILED,) * compiled) -> Workload:
            words = [*given.overrides, *more, f"seed={seed}"]
            return make_workload(given.task, given.model, words, given.device, first.prepared)

        progress(f"{members} members: building")
        name = label(SINGLE, compiled)
        runs[name], of[name] = stepper(workload(0)), (SINGLE, 1, compiled)
        name = label(f"{members} packed", compiled)
        runs[name] = members_stepper([workload(seed) for seed in range(members)])
        of[name] = ("packed", members, compiled)
    graphs = dict.fromkeys(runs, 0)
    for name, (_, _, compiled) in of.items():
        if compiled:
            progress(f"{members} members: compiling {name}")
            for _ in range(given.warm):
                runs[name]()
            graphs[name] = graph_memory(given.device)
    times = interleaved(runs, given.seconds, f"{given.task}, {members} members", least=3)
    rows = []
    for name, (way, size, compiled) in of.items():
        faster = size / times.ratio(name, label(SINGLE, compiled))
        peak = peak_of(runs[name], given.device) + graphs[name]
        rows.append(row(way, size, compiled, times.median(name), faster, peak))
    return [against_eager(one, times) for one in rows] if given.compile == "both" else rows


def against_eager(one: dict[str, object], times: Timings) -> dict[str, object]:
    """Returns the row with the speed-up by compiling."""
    way = SINGLE if one["way"] == SINGLE else f"{one['members']} packed"
    faster = times.ratio(label(way, False), label(way, one["compiled"] == "yes"))
    return one | {"times as fast as eager": faster}


def turn_of(contestants: Sequence[Contestant], threads: int) -> int:
    """Takes one simultaneous turn of all processes; returns the sum of their peak memory so far."""
    for contestant in contestants:
        contestant.start(threads)
    return sum(contestant.finish().peak_bytes for contestant in contestants)


def processes(given: Namespace, compiled: bool) -> Iterator[dict[str, object]]:
    """Measures several simultaneous processes; the largest number of them is started, the others wait."""
    more = [COMPILED] * compiled
    jobs = [
        Job(given.task, given.model, [*given.overrides, *more, f"seed={seed}"], given.steps, given.device)
        for seed in range(max(given.members))
    ]
    progress(f"starting {len(jobs)} processes")
    # The first process fills the cache of the compiler before the others start.
    contestants = [Contestant(jobs[0], given.threads)]
    contestants[0].warm()
    contestants += [Contestant(job, max(1, given.threads // len(jobs))) for job in jobs[1:]]
    for contestant in contestants[1:]:
        contestant.warm()
    for members in given.members:
        threads = max(1, given.threads // members)
        runs = {
            "one": lambda: turn_of(contestants[:1], given.threads),
            "all": lambda members=members, threads=threads: turn_of(contestants[:members], threads),
        }
        times = interleaved(runs, given.seconds, f"{members} processes", least=3)
        faster = members / times.ratio("all", "one")
        peak = turn_of(contestants[:members], threads)
        yield row("processes", members, compiled, times.median("all") / given.steps, faster, peak)
    for contestant in contestants:
        contestant.stop()


def main() -> None:
    options = parser(__doc__, seconds=20, devices=True)
    options.add_argument("--task", default="scan", help="(default: %(default)s)")
    options.add_argument("--model", default="linear_l2_ortho", help="(default: %(default)s)")
    options.add_argument("--members", default="1,2,4,5,8,16,32", help="(default: %(default)s)")
    options.add_argument("--ways", default="packed,processes", help="(default: %(default)s)")
    options.add_argument("--compile", choices=FORMS, default="no", help="compiled steps (default: %(default)s)")
    options.add_argument("--warm", type=int, default=10, help="steps before, if compiled (default: %(default)s)")
    options.add_argument("--steps", type=int, default=20, help="steps in a turn of processes (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    given = options.parse_args()
    given.members = sorted({int(n) for n in given.members.split(",")})
    environment = begin(given.threads, given.device)
    words = " ".join([given.task, given.model, *given.overrides])
    if given.device == torch.device("cpu"):
        print("packing is for GPUs: on a CPU one small model of published size fills the cores already")
    if "packed" in given.ways:
        title = f"Packed training steps, {words}"
        show(f"packed_{given.task}", title, in_one_process(given), environment)
    if "processes" in given.ways:
        rows = (one for compiled in FORMS[given.compile] for one in processes(given, compiled))
        show(f"processes_{given.task}", f"Several processes on one device, {words}", rows, environment)


if __name__ == "__main__":
    main()
