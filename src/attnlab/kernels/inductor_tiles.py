"""Guard against wrong vector instructions of torch.compile on a CPU (pytorch issue 196681).

Inductor may compute a sum in tiles of two loops. If a third loop lies between them, torch 2.13 stores the last tile at
the full width of a vector: wrong numbers, also outside of the buffer (seen on sort-of-CLEVR's 26 tokens). With the
guard every sum is computed in tiles of one loop. Older versions do the same to other sums (issue 181690).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

FIRST_SAFE, FIRST_UNKNOWN = "2.13", "2.14"
"""the first torch that stores tiles of one loop as it should, and the first for which the guard was not checked"""

CACHE_TAG = "attnlab: sums in tiles of one loop"
"""part of the keys of inductor's cache on disk, so that code compiled without the guard is not taken from there"""

NO_VECTORS = {"cpp.simdlen": 1}
"""options of inductor without explicit vector instructions"""


@cache
def cpu_options() -> dict[str, Any]:
    """Options of inductor on a CPU. The first call sets the guard, for all that this process compiles; a torch in which
    it has no place gets no vector instructions."""
    from torch._inductor.codegen import cpp

    # Any: neither has a type, and older versions lack them.
    tiling: Any = getattr(cpp, "TilingSelect", None)
    config: Any = getattr(torch.compiler, "config", None)
    choose = getattr(tiling, "_select_tiling_indices", None)
    known = FIRST_SAFE <= torch.__version__ < FIRST_UNKNOWN
    if not known or choose is None or not hasattr(config, "cache_key_tag"):
        return NO_VECTORS

    def chosen(self: Any, functions: Any, sizes: Sequence[tuple[Any, Any]], *rest: Any) -> list[int]:
        return one_for_sums(choose(self, functions, sizes, *rest), sizes)

    tiling._select_tiling_indices = chosen
    config.cache_key_tag += CACHE_TAG
    return {}


def one_for_sums(loops: list[int], sizes: Sequence[tuple[Any, Any]]) -> list[int]:
    """The tiled loops of a kernel: the last one alone if a part of the kernel sums.

    Args:
        sizes: for each part of the kernel, the lengths of its loops, and of its loops that sum.
    """
    return loops[-1:] if any(summed for _, summed in sizes) else loops
