"""Lightning's DDP for a run whose process group is open, and the share of each process in the loss of a batch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pytorch_lightning.plugins.environments import ClusterEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.learn.devices.process_group import Ranks


class RankEnvironment(ClusterEnvironment):
    """The ranks of a run, as Lightning asks for them.

    It reads no environment variable, unlike Lightning's own classes, and removes none, so that the next run of this
    process finds them.
    """

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.ranks = ranks

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return self.ranks.layout.address[0]

    @property
    def main_port(self) -> int:
        return self.ranks.layout.address[1]

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self.ranks.world

    def set_world_size(self, size: int) -> None:
        """Does nothing: the number is known."""

    def global_rank(self) -> int:
        return self.ranks.rank

    def set_global_rank(self, rank: int) -> None:
        """Does nothing: the rank is known."""

    def local_rank(self) -> int:
        return self.ranks.layout.local

    def node_rank(self) -> int:
        return self.ranks.rank // self.ranks.layout.per_node


class RankStrategy(DDPStrategy):
    """DDP on the device of this process.

    Every parameter must have a gradient in every step (`TrainingModule` refuses others): with
    `find_unused_parameters` DDP would search the graph of each step. Buffers are not sent before each step: attentions
    redraw them from seed and step alone, so they are equal everywhere.
    """

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        super().__init__(
            # Lightning takes the entry of the local rank; a process may see its own GPU only.
            parallel_devices=[device] * ranks.layout.per_node,
            cluster_environment=RankEnvironment(ranks),
            find_unused_parameters=False,
            broadcast_buffers=False,
        )

    @property
    def world_size(self) -> int:
        """1: Lightning then leaves stop signals to us (`callbacks.Checkpoint`). It would send a flag of its own by the
        GPU before every batch, which waits for the GPU, and from a signal handler, which may hang.
        """
        return 1


@contextmanager
def threads_as_chosen() -> Iterator[None]:
    """Keeps the number of CPU threads, which Lightning's launcher sets where OMP_NUM_THREADS is not set."""
    name = "OMP_NUM_THREADS"
    was_set = name in os.environ
    os.environ.setdefault(name, str(torch.get_num_threads()))
    try:
        yield
    finally:
        if not was_set:
            del os.environ[name]


def shares_of_ranks(ranks: Ranks, batch: Batch, loss: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss and penalty of the rows of this process, weighted so that the mean of the gradients of all processes is the
    gradient of the whole batch; and loss and penalty of the whole batch, without gradients.

    A loss is a mean over the counts of its rows, a penalty over the rows (the orthogonality loss leaves out rows of
    fewer than two tokens, which all tasks but blocks of text lack). DDP averages the gradients of the processes.
    """
    counts = batch.counts.sum().double()
    share = torch.stack((counts, torch.full_like(counts, len(batch)))) * batch.counted
    means = torch.stack((loss.detach(), penalty.detach())).double()
    # One sum for all four numbers. What is not counted is 0, also if it is not finite.
    sums = ranks.sum(torch.cat((share, torch.where(share > 0, share * means, 0.0))))
    whole = sums[2:] / sums[:2].clamp(min=1)
    weights = ranks.world * share / sums[:2].clamp(min=1)
    return (
        loss * weights[0].to(loss.dtype),
        penalty * weights[1].to(penalty.dtype),
        whole[0].to(loss.dtype),
        whole[1].to(penalty.dtype),
    )
