"""The delta rule (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule", section 2.2; Schlag et al.
2021, "Linear Transformers Are Secretly Fast Weight Programmers").

    S_t = S_(t-1) + b_t k_t (v_t - k_t S_(t-1))^T,   out_t = q_t S_t / sqrt(K),   b_t = beta_max sigmoid(W x_t)

Queries, keys and values pass a causal convolution and SiLU, queries and keys have length 1 (`normalization.kind` l2),
and the output passes an RMS norm. With `beta_max: 2` the eigenvalues of I - b k k^T are between -1 and 1 (Grazzi et al.
2024, section 4), with 1 between 0 and 1. With keys of another length the update can grow without bound: with
`normalization.kind` none or rms training can diverge.

Cost O(N K C) in chunks. Supports causal and step (constant cost a token), and bidirectional as in
`core.recurrent_layer`; not cross.
"""

from typing import ClassVar

from attnlab.attention.core.recurrent_layer import DeltaRuleAttention, Layer


class DeltaRule(DeltaRuleAttention):
    """The delta rule, without decays.

    Args:
        d_model, n_heads, options: as in DeltaRuleAttention.
    """

    layer: ClassVar[Layer] = Layer(convolution=4, activation=True, normalization="l2")
