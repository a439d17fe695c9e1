"""Copies of arrays on a device, in their compact storage types."""

import warnings
from typing import overload

import numpy as np
import torch
from torch import Tensor

from attnlab.data.ragged_arrays import Ragged, RaggedOnDevice


class DeviceCache:
    """Copies of arrays on a device, each made at its first use and shared by all subsets."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies: dict[int, tuple[np.ndarray, Tensor]] = {}

    @overload
    def get(self, held: np.ndarray) -> Tensor: ...

    @overload
    def get(self, held: Ragged) -> RaggedOnDevice: ...

    def get(self, held: np.ndarray | Ragged) -> Tensor | RaggedOnDevice:
        """The tensor of an array on the device; for a `Ragged`, one with its values there."""
        if isinstance(held, Ragged):
            return RaggedOnDevice(self.get(held.values), held.offsets)
        if id(held) not in self._copies:
            # the reference to the array prevents the reuse of its id
            self._copies[id(held)] = held, self._copied(held)
        return self._copies[id(held)][1]

    def _copied(self, array: np.ndarray) -> Tensor:
        if array.dtype == np.uint16:
            # few operations of torch support uint16
            array = array.view(np.int16) if array.max(initial=0) < 2**15 else array.astype(np.int32)
        # the first use may be an evaluation, whose inference tensors cannot be used in training
        with warnings.catch_warnings(), torch.inference_mode(False):
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array).to(self.device)
