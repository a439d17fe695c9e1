"""Notes at the start of a run on settings of speed that cannot do what they are for."""

import torch

from attnlab.config.schema import Config
from attnlab.kernels.inductor_tiles import FIRST_SAFE, NO_VECTORS, cpu_options
from attnlab.learn.devices.usable_cores import usable_cores


def speed_notes(config: Config, examples: int, device: torch.device) -> list[str]:
    """One line for each setting that has no or less effect on this data and hardware.

    Args:
        examples: number of training examples.
    """
    notes, train, cores = [], config.train, usable_cores()
    window = (train.bucket_window or 0) * train.batch_size
    if window > examples:
        notes.append(
            f"note: train.bucket_window={train.bucket_window} x train.batch_size={train.batch_size} is more than the "
            f"{examples:,} training examples; all of an epoch is sorted together"
        )
    if train.precision == "bf16-mixed" and device.type == "cpu" and not _computes_bfloat16():
        notes.append(
            "note: train.precision=bf16-mixed: this processor has no instructions for bfloat16, so a step is likely "
            "slower than with 32-true"
        )
    for name in ("threads", "workers"):
        wanted = getattr(config.trainer, name) or 0
        if wanted > cores:
            notes.append(
                f"note: trainer.{name}={wanted} is more than the {cores} {'core' if cores == 1 else 'cores'} that this "
                "process may use; they wait for each other"
            )
    if config.trainer.compile and device.type == "cpu" and cpu_options() == NO_VECTORS:
        notes.append(
            f"note: trainer.compile=true: torch {torch.__version__} may compute some sums wrongly with a CPU's vector "
            "instructions (pytorch issues 181690 and 196681), so steps are compiled without them and are slow; write "
            f"trainer.compile=false, or install torch {FIRST_SAFE}, for which this is corrected here"
        )
    return notes


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


def _computes_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 numbers: AVX-512 BF16 or AMX; True where torch cannot tell."""
    known = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    answers = [one() for one in known if one is not None]
    return any(answers) or not answers
