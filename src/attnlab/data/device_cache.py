"""Data on a device, as compact as it is stored."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.data.ragged_arrays import Ragged


class DeviceStore:
    """Arrays on a device, each copied at its first use; subsets that share an array share its copy."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies: dict[int, tuple[np.ndarray, Tensor]] = {}

    def get(self, held: np.ndarray | Ragged) -> Any:
        """An array as a tensor on the device; a `Ragged` with its values there."""
        if isinstance(held, Ragged):
            return Ragged(self.get(held.values), held.offsets)
        if id(held) not in self._copies:
            # the array is kept, so that no other one gets its id
            self._copies[id(held)] = held, self._copied(held)
        return self._copies[id(held)][1]

    def _copied(self, array: np.ndarray) -> Tensor:
        if array.dtype == np.uint16:
            # few operations of torch know this type
            array = array.view(np.int16) if array.max(initial=0) < 2**15 else array.astype(np.int32)
        # an evaluation may come first, and its tensors are of no use to training
        with warnings.catch_warnings(), torch.inference_mode(False):
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array).to(self.device)
