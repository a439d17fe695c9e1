"""Share of a process in the loss of a batch whose rows are divided among several processes."""

import torch
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.learn.process_group import Ranks


def shares_of_ranks(ranks: Ranks, batch: Batch, loss: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss and penalty of the rows of this process, weighted so that the mean of the gradients of all processes is the
    gradient of the whole batch; and loss and penalty of the whole batch, without gradients.

    A loss is a mean over the counts of its rows, a penalty over the rows (the orthogonality loss leaves out rows of
    fewer than two tokens, which all tasks but blocks of text lack). DDP averages the gradients of the processes.
    """
    counts = batch.counts.sum().double()
    own = torch.stack((counts, torch.full_like(counts, len(batch)))) * batch.counted
    means = torch.stack((loss.detach(), penalty.detach())).double()
    # One sum for all four numbers. What is not counted is 0, also if it is not finite.
    sums = ranks.sum(torch.cat((own, torch.where(own > 0, own * means, 0.0))))
    whole = sums[2:] / sums[:2].clamp(min=1)
    weights = ranks.world * own / sums[:2].clamp(min=1)
    return (
        loss * weights[0].to(loss.dtype),
        penalty * weights[1].to(penalty.dtype),
        whole[0].to(loss.dtype),
        whole[1].to(penalty.dtype),
    )
