"""The processes of one run as a group of torch.distributed: sums, the largest number, objects of all, outcomes.

On CPUs everything goes by gloo. On GPUs sums of GPU tensors go by NCCL, and everything else by gloo, so that nothing
waits for a GPU. A run in one process (`ALONE`) communicates nothing and opens no group.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments import ClusterEnvironment
from pytorch_lightning.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
from torch import Tensor
from torch.distributed.distributed_c10d import _set_pg_timeout

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import first_line
from attnlab.config.problem import UserError
from attnlab.config.run_identity import unique_text
from attnlab.learn.devices.network_interface import GLOO_VARIABLE, address_towards, choose_interface
from attnlab.learn.devices.rank_layout import AGENT, ONE_PROCESS, EndedElsewhere, RankError, RankLayout, left_open
from attnlab.learn.stop_signals import Stopped, StopRequest

T = TypeVar("T")

ARRIVAL_SECONDS = 600.0
"""until all processes of a run have begun; their imports may take minutes on a shared file system"""
DATA_SECONDS = 86400.0
"""that a process waits for another, which may prepare data"""
ANSWER_SECONDS = 600.0
"""that a process waits for another once all have their data; a machine that does not answer by then is gone"""
GLOO_WORDS = ("gloo", "pair closure")
"""in messages of lost connections: one that an earlier timeout of the process has closed is not named by gloo"""
CLOSE_SECONDS = 10.0
"""that the end of the connections may take after an error"""
_stores: dict[tuple[str, int], dist.Store] = {}
"""stores of processes that torchrun or srun started: one for all runs of a process, since rank 0 keeps its port"""
_opened = 0
"""number of groups that this process has opened; equal in all processes of torchrun or srun"""


class _Outcome(NamedTuple):
    """How an action ended on a process: without an error, by a signal, or by an error with a message."""

    signum: int = 0
    error: str = ""


class Ranks:
    """The processes of a run, of which this one is number `rank` of `world`."""

    def __init__(self, layout: RankLayout = ONE_PROCESS) -> None:
        self.layout = layout
        self.rank, self.world = layout.rank, layout.world

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes the run folder."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, on its device; the tensor is not changed."""
        if self.world == 1:
            return values
        total = values.clone()
        dist.all_reduce(total)
        return total

    def largest(self, number: int) -> int:
        """The largest of the numbers of all processes."""
        if self.world == 1:
            return number
        tensor = torch.tensor(number)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return int(tensor)

    def wait(self) -> None:
        """Wait until every process is here."""
        self.largest(0)

    def gather(self, value: T) -> list[T]:
        """The objects of all processes, by rank."""
        if self.world == 1:
            return [value]
        gathered: list[Any] = [None] * self.world
        dist.all_gather_object(gathered, value)
        return gathered

    def from_first(self, make: Callable[[], T]) -> T:
        """What a function returns on rank 0, where alone it is called."""
        if self.world == 1:
            return make()
        objects: list[Any] = [make() if self.is_first else None]
        dist.broadcast_object_list(objects, src=0)
        return objects[0]

    def together(self, action: Callable[[], T], stop: StopRequest) -> T:
        """Call a function on every process. If it fails on one, or a stop signal came, it fails on all.

        Afterwards signals are deferred until a step has ended, since a process must not leave the others.

        Raises:
            BaseException: the error of the function; on rank 0, the one of the first process that has one.
            EndedElsewhere: on other processes, for an error that rank 0 reports.
        """
        if self.world == 1:
            return action()
        result: T | None = None
        our_error: BaseException | None = None
        try:
            result = action()
        except (Exception, Stopped) as error:
            our_error = error
        stop.deferred = True
        outcomes = self.gather(_outcome(our_error, stop.pending()))
        failed = [(rank, outcome) for rank, outcome in enumerate(outcomes) if any(outcome)]
        if not failed:
            # the function has returned: there is no error
            return result  # type: ignore[return-value]
        stop.deferred = False
        raise self._common_error(our_error, *failed[0])

    def refuse(self, error: UserError) -> NoReturn:
        """End the run on all processes, which have found the same error."""
        raise error if self.is_first else EndedElsewhere(FAILED)

    def _common_error(self, error: BaseException | None, rank: int, outcome: _Outcome) -> BaseException:
        """The error that ends this process, from the outcome of the first process that failed."""
        unexpected = error is not None and not isinstance(error, UserError | Stopped)
        if error is not None and (self.is_first or unexpected):
            return error
        if not self.is_first:
            return EndedElsewhere(128 + outcome.signum if outcome.signum else FAILED)
        return Stopped(outcome.signum) if outcome.signum else RankError(f"on rank {rank}: {outcome.error}")

    def limit_waiting(self) -> None:
        """From now on, another process that does not answer for `ANSWER_SECONDS` is an error (`cause`)."""
        if self.world > 1:
            _set_pg_timeout(timedelta(seconds=ANSWER_SECONDS))

    def cause(self, error: BaseException) -> BaseException:
        """The error itself; for a stop or a lost connection, what it means for this process."""
        if isinstance(error, Stopped) and not self.is_first:
            return EndedElsewhere(128 + error.signum)
        text = str(error).lower()
        is_gloo = isinstance(error, RuntimeError) and any(words in text for words in GLOO_WORDS)
        if self.world == 1 or not (is_gloo or isinstance(error, dist.DistError)):
            return error
        advice = "repeat the command to go on from the last checkpoint"
        if ("timed out" in text or "timeout" in text) and not self.layout.local:
            silence = f"for {ANSWER_SECONDS / 60:.0f} minutes another process of this run did not answer"
            return RankError(f"{silence}: its machine or the network may be gone; {advice}")
        if not self.is_first or self.layout.starter == AGENT:
            return EndedElsewhere(FAILED)
        return RankError(f"another process of this run was killed, or has ended with a message of its own; {advice}")


ALONE = Ranks()


def _outcome(error: BaseException | None, pending: int | None) -> _Outcome:
    if isinstance(error, Stopped):
        return _Outcome(signum=error.signum)
    if error is None:
        return _Outcome(signum=pending or 0)
    return _Outcome(error=str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"[:2000])


@contextmanager
def opened_ranks(layout: RankLayout, uses_gpu: bool, stop: StopRequest) -> Iterator[Ranks]:
    """The group of the processes of a run, open in this block; `ALONE` for a run in one process.

    Raises:
        RankError: not all processes have come, or they do not reach each other.
    """
    if layout.world == 1:
        yield ALONE
        return
    global _opened  # noqa: PLW0603
    _opened += 1
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    # A prefix for each group, since keys of an earlier one may be left.
    store = dist.PrefixStore(f"attnlab/{restart}/{_opened}", _store(layout))
    backend = "cpu:gloo,cuda:nccl" if uses_gpu and torch.cuda.is_available() else "gloo"
    # A process that has said that it is here must not leave the others while they connect.
    with stop.after_block():
        addresses = _addresses(store, layout, stop)
        _connect(backend, store, layout, choose_interface(addresses, layout.rank) if layout.nodes > 1 else "")
    alone, ranks = True, Ranks(layout)
    try:
        yield ranks
        alone = False
    except RuntimeError as error:
        if (cause := ranks.cause(error)) is error:
            raise
        raise cause from error
    finally:
        _close_group(may_wait=alone and backend != "gloo")


def _connect(backend: str, store: dist.Store, layout: RankLayout, interface: str) -> None:
    """Open the group; `interface`: of the network between machines, where it is known."""
    arrival = timedelta(seconds=ARRIVAL_SECONDS)
    try:
        dist.init_process_group(backend, store=store, rank=layout.rank, world_size=layout.world, timeout=arrival)
    except RuntimeError as error:
        if layout.nodes == 1:
            raise Ranks(layout).cause(error) from error
        way = f" by the network interface {interface}" if interface else ""
        advice = f"set {GLOO_VARIABLE} on each machine to the interface that connects them"
        raise RankError(f"rank {layout.rank} does not reach the others{way}; {advice} ({first_line(error)})") from error
    _set_pg_timeout(timedelta(seconds=DATA_SECONDS))


def _close_group(may_wait: bool) -> None:
    """Close the group of this process.

    Args:
        may_wait: an error ended the run on this process, and NCCL would wait for the others without end: they may not
            know of the error yet. Then the group is left open after a while (`rank_layout.left_open`).
    """
    if not may_wait:
        dist.destroy_process_group()
        return
    closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)
    if closing.is_alive():
        left_open.set()


def cluster_environment(layout: RankLayout) -> ClusterEnvironment:
    """Lightning's view of the program that started the processes; it requeues no job."""
    return SLURMEnvironment(auto_requeue=False) if layout.starter == "srun" else TorchElasticEnvironment()


def _store(layout: RankLayout) -> dist.Store:
    """The store by which processes find each other: at rank 0, or with torchrun at its agent."""
    environment, at_agent = cluster_environment(layout), os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    # One machine needs no name that resolves. Steps of one job may run at the same time.
    alone = layout.starter == "srun" and layout.nodes == 1
    host = "127.0.0.1" if alone else environment.main_address
    port = environment.main_port + (int(os.environ.get("SLURM_STEP_ID", "0")) if layout.starter == "srun" else 0)
    if (host, port) not in _stores:
        arrival, is_host = timedelta(seconds=ARRIVAL_SECONDS), layout.rank == 0 and not at_agent
        try:
            _stores[host, port] = dist.TCPStore(host, port, is_master=is_host, wait_for_workers=False, timeout=arrival)
        except dist.DistError as error:
            raise RankError(f"rank {layout.rank} does not reach rank 0 at {host}:{port}: {error}") from error
    return _stores[host, port]


def _addresses(store: dist.Store, layout: RankLayout, stop: StopRequest) -> list[str]:
    """Wait until all processes have begun; torch itself would wait as long as for data.

    Returns:
        by rank, the address that each machine has on its way to rank 0; empty on one machine.
    """
    names = [f"address/{rank}" for rank in range(layout.world)]
    ours = address_towards(cluster_environment(layout).main_address) if layout.nodes > 1 else ""
    store.set(names[layout.rank], ours)
    until = time.monotonic() + ARRIVAL_SECONDS
    while not store.check(names):
        if (signum := stop.pending()) is not None:
            raise Stopped(signum)
        if time.monotonic() > until:
            missing = [rank for rank, name in enumerate(names) if not store.check([name])]
            raise RankError(
                f"of the {layout.world} processes of this run, rank {', '.join(map(str, missing))} did not begin "
                f"within {ARRIVAL_SECONDS / 60:.0f} minutes"
            )
        time.sleep(0.05)
    return [store.get(name).decode() for name in names]


def require_same_job(ranks: Ranks, job: JobConfig) -> None:
    """Refuse processes that torchrun or srun started with different words, or that differ in the runs left to do."""
    values = {key: value for key, value in job.raw.items() if key != "paths"}
    jobs = ranks.gather((job.folder.name, unique_text(values)))
    if other := _other_than_first(jobs):
        ranks.refuse(
            RankError(
                f"rank {other} trains {jobs[other][0]} and rank 0 {jobs[0][0]}, or with other options; start all "
                "processes with the same words, and repeat the command if another one was training these runs"
            )
        )


def require_same_start(ranks: Ranks, step: int, data_hash: Callable[[], str], folder: Path) -> None:
    """Refuse processes with different data or checkpoints: each reads the files, and rank 0 has written them."""
    if ranks.world == 1:
        return
    starts = ranks.gather((step, data_hash()))
    if other := _other_than_first(starts):
        steps = [reached for reached, _ in starts]
        read = "other data than rank 0; paths.data must hold the same files on all machines"
        if steps[other] != steps[0]:
            read = (
                f"a checkpoint of step {steps[other]:,} in {folder}, and rank 0 one of step {steps[0]:,}; paths.runs "
                "must be the same folder on all machines"
            )
        ranks.refuse(RankError(f"rank {other} reads {read}"))


def _other_than_first(values: Sequence[Any]) -> int:
    """The first rank whose value is not the one of rank 0; 0 if there is none."""
    return next((rank for rank, value in enumerate(values) if value != values[0]), 0)
