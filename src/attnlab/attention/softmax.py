"""Softmax attention (Vaswani et al. 2017, section 3.2; "vanilla" in both papers).

    out_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j

Cost O(N M D) time, with torch's fused kernels where possible. Supports bidirectional, causal, cross and step; decoding
keeps all keys and values, so a step costs O(position). With relative positions it is the "relative" attention of
Csordas et al. 2021, after Dai et al. 2019. Positions that add to scores (relative, alibi, t5) need O(N M) memory.
"""

from attnlab.attention.core.softmax_core import ScaledDotAttention


class SoftmaxAttention(ScaledDotAttention):
    """Softmax attention."""

    cross_equals_self = True
    supports_inner_width = True
