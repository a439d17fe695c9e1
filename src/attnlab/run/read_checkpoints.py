"""Reads weights that a run has saved, after checks that the file is complete and belongs to this run and step."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from attnlab.config.classes.recorded_code import Code, recorded_code
from attnlab.config.validation.type_check import Record, record_problem
from attnlab.data.files.regular_file import NotRegular, open_regular
from attnlab.learn.validation import saved_best, weights_name
from attnlab.learn.weight_files import IDENTITY, is_edited
from attnlab.run.read_run_files import BestWeights, Checkpoint, other_run
from attnlab.run.run_folder import RunError, RunFolder


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The checkpoint `last.ckpt` of the run in its folder; a RunError if it is missing, damaged or another run's."""
    return _read(path, Checkpoint)


def _read(path: Path, kind: type[Record]) -> dict[str, Any]:
    """Reads a file of torch that holds plain types only, and compares its content with its checksums."""
    try:
        with open_regular(path) as file:
            # torch.load ignores the checksums of the archive, and damaged weights would load without an error
            with zipfile.ZipFile(file) as archive:
                if changed := archive.testzip():
                    raise zipfile.BadZipFile(changed)
            file.seek(0)
            saved = torch.load(file, map_location="cpu", weights_only=True)
        edited = isinstance(saved, dict) and is_edited(saved)
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: the run has saved no weights yet, or they were removed") from None
    except NotRegular as error:
        raise RunError(f"{path} {error.strerror}; {_advice(path.parent)}") from None
    except Exception as error:  # damaged bytes raise many kinds of errors
        raise RunError(f"{path} is cut short or damaged ({type(error).__name__}); {_advice(path.parent)}") from error
    _require_identity(saved, path)
    if problem := record_problem(saved, kind):
        raise RunError(f"{path} is another kind of file than its name says ({problem}); {_advice(path.parent)}")
    if edited:
        raise RunError(f"{path} was edited after the run had saved it; {_advice(path.parent)}")
    return saved


def reached(folder: RunFolder) -> tuple[int, list[Code]]:
    """Training steps in the last checkpoint, or 0, and the code of the parts of the run that it is from.

    Raises:
        RunError: the checkpoint, or the weights that it names, cannot be used.
    """
    if not folder.checkpoint.exists():
        return 0, []
    saved = read_checkpoint(folder.checkpoint)
    for rule, best in saved_best(saved).items():
        _require_best(folder.path / weights_name(rule, best["step"]))
    return saved["global_step"], recorded_code(saved)


def network_weights(checkpoint: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Weights of the network in the checkpoint of a run."""
    prefix = "network."
    return {key[len(prefix) :]: value for key, value in checkpoint["state_dict"].items() if key.startswith(prefix)}


def best_weights(folder: Path, step: int, rule: str = "") -> dict[str, torch.Tensor]:
    """Weights at the best validation by a rule; a RunError if they are missing, damaged, or of another run or step."""
    path = folder / weights_name(rule, step)
    _require_best(path)
    saved = _read(path, BestWeights)
    if (recorded_step := saved["step"]) != step:
        problem = f"{path} holds the weights of step {recorded_step}, not {step} as last.ckpt says"
        raise RunError(f"{problem}; {_advice(folder)}")
    return saved["network"]


def _require_best(path: Path) -> None:
    if not path.exists():
        raise RunError(f"{path} is missing, the weights that last.ckpt names as best; {_advice(path.parent)}")


def _require_identity(saved: Any, path: Path) -> None:
    """Refuse weights of another run, which may fit the network and would be reported as results of this run."""
    run_identity = saved.get(IDENTITY) if isinstance(saved, dict) else None
    if not isinstance(run_identity, dict):
        raise RunError(f"{path} does not say which run it is of; {_advice(path.parent)}")
    if other := other_run(run_identity, path.parent):
        raise RunError(f"{path} holds the weights of {other} than the config.yaml beside it; {_advice(path.parent)}")


def _advice(folder: Path) -> str:
    return f"restore it from a copy, or move {folder} away and repeat the training command to train from the start"


def run_weights(folder: Path, wanted: str, rule: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Returns weights of the network of a run, and which checkpoint and step they are from.

    Args:
        wanted: selected (as in the final test of the run), last or best.
        rule: `train.selection` of the run.

    Raises:
        RunError: there are no such weights, or they are damaged or from another run.
    """
    if wanted == "best" and rule != "best_validation":
        raise RunError("checkpoint=best: this run kept no best weights, its train.selection is last_step; use last")
    saved = read_checkpoint(folder / "last.ckpt")
    if wanted == "last" or rule != "best_validation":
        return network_weights(saved), {"checkpoint": "last", "step": saved["global_step"]}
    best = saved_best(saved).get("")
    if best is None:
        step = saved["global_step"]
        raise RunError(f"{folder}: no validation has selected weights yet, at step {step}; write checkpoint=last")
    return best_weights(folder, best["step"]), {"checkpoint": "best", "step": best["step"]}
