"""A trained run in Python: its configuration, metrics, network and predictions."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from attnlab.config.user_path import user_path
from attnlab.data.user_inputs import InputError
from attnlab.learn.callbacks import preserved_rng
from attnlab.learn.evaluator import evaluating, precision_context
from attnlab.run.build_runtime import network_with, prepare
from attnlab.run.named_runs import code_note, rebuilt_config
from attnlab.run.read_checkpoints import run_weights
from attnlab.run.read_run_files import read_config, read_result, read_rows, read_status
from attnlab.tasks.base import Prepared, Task, make_task
from attnlab.tasks.kinds.base import kind_of


def load_run(
    folder: str | Path,
    *,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    device: str | torch.device = "cpu",
) -> "Run":
    """A trained run, from its folder; weights and data are read at their first use.

    Args:
        folder: the run folder (`experiments/runs/<task>/<model>/<tag>/seed<k>`).
        data, cache: folders of the official files and of what is derived from them; None = the data folder of the
            training, if it exists, else `ATTNLAB_DATA` or `data`; the cache `ATTNLAB_CACHE` or `data/cache`.
        device: of the network.

    Raises:
        RunError: it is no run folder, or a damaged one.
    """
    paths = {"data": data, "cache": cache}
    return Run(
        user_path("folder", folder),
        {key: str(path) for key, path in paths.items() if path is not None},
        torch.device(device),
    )


class Run:
    """A trained run.

    folder: the run folder.
    config: the whole configuration as plain dicts and lists: `run.config["optim"]["lr"]`.
    """

    def __init__(self, folder: Path, paths: Mapping[str, str], device: torch.device) -> None:
        self.folder, self._typed, self._device = folder, rebuilt_config(folder, paths), device
        self.config = dict(read_config(folder / "config.yaml"))

    def __repr__(self) -> str:
        task, model = self.config["task"]["name"], self.config["model"]["name"]
        state = read_status(self.folder / "status.json").get("state", "not started")
        return f"Run({task} / {model} / seed {self.config['seed']}, {state}, {str(self.folder)!r})"

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """metrics.csv as a table: a row for each step, a column for each metric, NaN where it was not recorded.

        Numbers are as recorded: an accuracy of 0.884, not 88.4 %.
        """
        file = self.folder / "metrics.csv"
        rows, damaged = read_rows(file)
        if damaged:
            warnings.warn(f"{file}: {damaged} damaged lines are left out", stacklevel=2)
        table = pd.DataFrame(rows, columns=["step", "name", "value"])
        return table.drop_duplicates(["step", "name"], keep="last").pivot(index="step", columns="name", values="value")

    @cached_property
    def result(self) -> dict[str, Any]:
        """result.json: test metrics, counts, seconds, versions, hardware; empty for an unfinished run."""
        return read_result(self.folder / "result.json") or {}

    @cached_property
    def task(self) -> Task:
        """The task that the run was trained on."""
        return make_task(self._typed.task)

    @cached_property
    def data(self) -> Prepared:
        """The task's data: `run.data.subsets["test/ood"]`, `run.data.spec`.

        Raises:
            DataError: files are missing; says where to get them.
        """
        return prepare(self.task, self._typed.paths)

    @cached_property
    def network(self) -> nn.Module:
        """The network in evaluation mode, with the weights that were tested; warns if the code is another one than in
        training.

        Raises:
            RunError: there are no weights, or not of this run. DataError: as `data`, which decides vocabularies.
        """
        weights, _ = run_weights(self.folder, "selected", self._typed.train.selection)
        if note := code_note(self.folder, self.config):
            warnings.warn(note.removeprefix("note: "), stacklevel=2)
        with preserved_rng():
            network = network_with(weights, self.folder, self._typed, self.data.spec)
        return network.to(self._device).eval()

    def predict(self, inputs: Sequence[Any], lengths: Sequence[int] | None = None) -> list[Any]:
        """What the network says about inputs; the task's `encode_inputs` says what an input is (docs/python.md).

        Args:
            inputs: such as `["jump twice"]` for scan.
            lengths: tokens of each output, for tasks from sequence to sequence: needed by a run that was trained
                without end tokens (`task.end_token=false`); the outputs of other runs then end there too.

        Returns:
            an output for each input: a text (sequence to sequence: greedy decoding; language models: the next token), a
            class or number, or the list of hidden tokens (masked language models).

        Raises:
            InputError: an input that the task does not know; names its position in the list.
            TypeError: not a list of inputs; lengths are missing, or of a task whose outputs have none.
            ValueError: not one length of at least 1 for each input.
        """
        if isinstance(inputs, str):
            raise TypeError(f"predict takes a list of inputs: predict([{inputs!r}])")
        self._require_lengths(inputs, lengths)
        outputs: list[Any] = []
        kind = kind_of(self.data.spec)
        size, network, precision = self._typed.train.eval_batch_size, self.network, self._typed.train.precision
        for start in range(0, len(inputs), size):
            try:
                batch = self.task.encode_inputs(self.data, inputs[start : start + size]).to(self._device)
            except InputError as error:
                raise InputError(start + error.number, error.problem) from None
            with evaluating(network), precision_context(precision, self._device):
                part = None if lengths is None else lengths[start : start + size]
                outputs += kind.predict(network, batch, part)
        return self.task.decode_outputs(self.data, outputs)

    def _require_lengths(self, inputs: Sequence[Any], lengths: Sequence[int] | None) -> None:
        """Refuses lengths that do not fit the task or the inputs."""
        spec = self.data.spec
        if lengths is None and not spec.end_token:
            raise TypeError("predict(inputs, lengths=[...]): a run without end tokens needs the length of each output")
        if lengths is not None and not kind_of(spec).takes_lengths:
            raise TypeError(f"predict: lengths belong to tasks from sequence to sequence, not to {spec.kind}")
        if lengths is None:
            return
        if len(lengths) != len(inputs) or not all(isinstance(length, Integral) and length >= 1 for length in lengths):
            raise ValueError(f"predict: expected {len(inputs)} whole numbers of at least 1, found {list(lengths)[:8]}")
