"""Learned positions: a vector for every position, added to the embeddings (BERT)."""

from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import TooLong
from attnlab.attention.positions.base import Positions


class LearnedPositions(Positions):
    """A learned vector for every position of the task's longest sequence."""

    for_patches = False

    def in_embeddings(self, longest: int, width: int, scale: float) -> nn.Module:
        """The vectors are not scaled."""
        return LearnedTable(longest, width)


class LearnedTable(nn.Module):
    """The vectors of all positions, drawn from N(0, 0.02^2).

    Args:
        longest: number of positions.
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(longest, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, x: Float[Tensor, "B N E"], first: int = 0) -> Float[Tensor, "N E"]:
        """Vectors of positions first .. first + N - 1.

        Raises:
            TooLong: there are fewer than first + N.
        """
        longest, end = len(self.table.weight), first + x.shape[1]
        if end > longest:
            raise TooLong(
                f"a sequence of {end} positions, and this network learned {longest} (backbone.positions=learned); "
                "positions that go on without end: backbone.positions=sinusoidal"
            )
        return self.table.weight[first:end]
