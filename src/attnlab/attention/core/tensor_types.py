"""Names of the tensor shapes that the methods of an attention share; all are checked in tests.

Letters: B batch, H heads, N queries, M keys, D head width, C value width, E model width. The shapes of
self-attention have N keys: for mechanisms without cross-attention.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

Queries = Float[Tensor, "B H N D"]
Keys = Float[Tensor, "B H M D"]
Values = Float[Tensor, "B H M C"]
SelfKeys = Float[Tensor, "B H N D"]
SelfValues = Float[Tensor, "B H N C"]
Attended = Float[Tensor, "B H N C"]
"""output of every head, before the output projection"""

AttentionWeights = Float[Tensor, "B H N M"]
SelfAttentionWeights = Float[Tensor, "B H N N"]

Memory = Float[Tensor, "B M E"]
"""what cross-attention attends to, such as the encoder's output"""

KeyMask = Bool[Tensor, "B M"]
"""padding mask of the keys: True = keep, real positions first"""

SelfMask = Bool[Tensor, "B N"]

ScoreHook = Callable[[Tensor], Tensor]
"""receives the scores (B, H, N, M) and returns their replacement, for gradients with respect to scores"""
