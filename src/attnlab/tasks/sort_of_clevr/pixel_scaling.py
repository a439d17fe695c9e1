"""Input scaling of sort-of-CLEVR's pictures (`task.pixels`), a control for what the network reads.

White paper is 1 in the published input, so that an empty patch is the largest vector of all. Measured on the 9,800
training pictures of data_seed 1, in patches of 15 x 15 pixels as the network reads them:

| pixels       | empty patch | mean cosine of two patches of a picture |
| white_is_one | all ones    | 0.945                                   |
| ink_is_one   | all zeros   | 0.025 (0.100 without empty patches)     |
| standardised | a constant  | 0.195                                   |

89.3 % of the pixels are white, and 49.7 % of the patches are empty. Cosines are between flattened patches [675], over
all pairs of different patches, means over pictures; the cosine with a vector of zeros counts as 0.
"""

from typing import Literal

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

Pixels = Literal["white_is_one", "ink_is_one", "standardised"]
MEANS, DEVIATIONS = (0.9553, 0.9483, 0.9195), (0.1955, 0.2006, 0.2638)
"""of red, green and blue in [0, 1], over all pixels of the training pictures of data_seed 1; the same constants for
every data_seed"""
IN_WORDS = {
    "white_is_one": "white is 1, as published",
    "ink_is_one": "white is 0 (1 minus the published input)",
    "standardised": "mean 0 and standard deviation 1 in each channel, by constants of the training pictures",
}


def scaled(
    images: UInt8[Tensor, "B height width 3"], pixels: Pixels
) -> UInt8[Tensor, "B height width 3"] | Float[Tensor, "B height width 3"]:
    """Pictures as the network reads them: bytes, which it divides by 255, or numbers that it takes as they are."""
    if pixels == "white_is_one":
        return images
    if pixels == "ink_is_one":
        return 255 - images
    means, deviations = (torch.tensor(each, device=images.device) for each in (MEANS, DEVIATIONS))
    return (images / 255 - means) / deviations
