"""The contract of positional encodings: what they add to embeddings, and what they do in the scores of self-attention.

A positional encoding is one file here, named by `backbone.positions`: `rotary` is `rotary.RotaryPositions`. One in a
package of your own is named by its dotted path.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.tensor_types import Keys, Queries


class InScores(nn.Module):
    """What positions do in one self-attention: score_ij = queries(q_i) . keys(k_j) / sqrt(D) + added_ij.

    With a feature map phi, queries and keys are features, and only the sums of values have positions:
    out_i = sum_j (queries(phi(q_i)) . keys(phi(k_j))) v_j / (sum_j phi(q_i) . phi(k_j) + eps).
    """

    def queries(self, q: Queries, first: int = 0) -> Queries:
        """Queries as they enter the product with the keys; `first` is the position of the first row."""
        return q

    def keys(self, k: Keys, first: int = 0) -> Keys:
        """Keys as they enter the product with the queries."""
        return k

    def added(self, q: Queries, n_keys: int, first: int = 0, causal: bool = False) -> Float[Tensor, "#B #H N M"] | None:
        """The part of the scores that is added to the scaled products with all keys, in the format of q; None = 0.

        Args:
            first: position of the first query.
            causal: keys after a query are masked, so that their numbers do not matter.
        """
        return None


@dataclass(frozen=True)
class Positions:
    """A positional encoding; a network makes one for its embeddings and one for the self-attentions of each stack.

    needs:      the capability that an attention needs for it: supports_rotation for other queries and keys,
                supports_position_scores where something is added too; None = it does nothing in attention.
    for_patches: whether the patches of an image may have it.
    """

    needs: ClassVar[str | None] = None
    for_patches: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.in_scores is not Positions.in_scores and cls.needs is None:
            raise TypeError(f"{cls.__name__} acts in scores and names no capability in `needs` that it wants there")
        known = (None, "supports_rotation", "supports_position_scores")
        if cls.needs not in known:
            raise TypeError(f"{cls.__name__}: needs={cls.needs}; expected one of {', '.join(map(str, known))}")

    @classmethod
    def misfit(cls, d_model: int, n_heads: int) -> str:
        """Why the widths do not suit it, for the configuration check; empty if they do."""
        return ""

    def in_embeddings(self, longest: int, width: int, scale: float) -> nn.Module | None:
        """A module that gives what is added to embeddings [B, N, E], called with these and their first position.

        Args:
            longest: length of the longest sequence.
            scale: factor that `backbone.embedding` asks for.
        """
        return None

    def of_patches(self, patches: Float[Tensor, "B N E"]) -> Float[Tensor, "N E"] | None:
        """What is added to the patches of an image."""
        return None

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores | None:
        """What it does in the scores of one self-attention; called for every layer of a stack.

        Raises:
            ValueError: the width does not suit it.
        """
        return None
