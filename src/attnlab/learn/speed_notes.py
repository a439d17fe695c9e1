"""Notes on compiled steps at the start of a run."""

import torch

from attnlab.config.schema import Config
from attnlab.kernels.inductor_tiles import FIRST_SAFE, NO_VECTORS, cpu_options


def speed_notes(config: Config, device: torch.device) -> list[str]:
    """A line if steps are compiled without the vector instructions of the CPU."""
    if not config.trainer.compile or device.type != "cpu" or cpu_options() != NO_VECTORS:
        return []
    return [
        f"note: trainer.compile=true: torch {torch.__version__} may compute some sums wrongly with a CPU's vector "
        "instructions (pytorch issues 181690 and 196681), so steps are compiled without them and are slow; write "
        f"trainer.compile=false, or install torch {FIRST_SAFE}, for which this is corrected here"
    ]


def compile_notes(config: Config) -> list[str]:
    """What compiled steps take, before the first one; nothing without `trainer.compile`."""
    if not config.trainer.compile:
        return []
    notes = [
        "compiling the training step: the first one takes about a minute, and so does the first of every new length; "
        "Ctrl-C waits for the end of the step, a second one does not"
    ]
    if (limit := config.train.max_tokens) is not None:
        notes.append(
            f"note: batches above train.max_tokens={limit} go in pieces of many lengths, which are not compiled"
        )
    return notes
