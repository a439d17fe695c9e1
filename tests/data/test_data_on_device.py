"""Data kept on a device gives the batches and the run of data kept on the host."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.gpu import requires_gpu
from support.small_runs import checked, run_job
from support.tiny_data import TINY, raw_of

from attnlab.config.run_identity import run_folder
from attnlab.data.batch import Batch
from attnlab.data.examples import Examples, SequencePairs, held_bytes, resident
from attnlab.data.length_padding import LengthBuckets
from attnlab.data.ragged_arrays import Ragged
from attnlab.learn.devices import memory_use
from attnlab.run.build_runtime import place_data, prepare
from attnlab.run.run_folder import MetricsFile
from attnlab.tasks.base import Prepared, make_task

DEVICES = ["cpu", pytest.param("cuda", marks=requires_gpu)]
FROM_HOST = {("wikitext103_masked", "val"), ("wikitext103_masked", "test")}
"""tokens are hidden row by row, on the host"""


def prepared(tiny_data: Path, tmp_path: Path, task: str) -> Prepared:
    config = checked(raw_of(tiny_data, tmp_path, task, "model=vanilla"))
    return prepare(make_task(config.task), config.paths)


def assert_equal(actual: Batch, expected: Batch, device: str) -> None:
    assert type(actual) is type(expected)
    for name, value in expected.tensors().items():
        other = vars(actual)[name]
        assert (other.device.type, other.dtype, other.shape) == (device, value.dtype, value.shape), name
        assert torch.equal(other.cpu(), value), name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("task", TINY)
def test_batches_of_a_device_are_those_of_the_host(task: str, device: str, tiny_data: Path, tmp_path: Path) -> None:
    host = prepared(tiny_data, tmp_path, task).subsets
    there = resident(host, torch.device(device))
    for name, examples in host.items():
        assert (there[name].store is None) == ((task, name) in FROM_HOST)
        every = np.arange(len(examples))
        for numbers in (every, every[-1:], np.array([0, *every[:4], 0])):
            expected = examples.batch(numbers)
            if there[name].store is not None:
                assert_equal(there[name].batch(numbers), expected, device)
            if (extents := examples.extents()) is not None:
                np.testing.assert_array_equal(extents[numbers], torch.stack(expected.extents, 1).numpy())
        assert there[name].groups is examples.groups and there[name].lengths is examples.lengths
        assert there[name].identities() == examples.identities()


@pytest.mark.parametrize("largest", [200, 300, 40_000, 100_000])
@pytest.mark.parametrize("device", DEVICES)
def test_every_width_of_integers_comes_back(largest: int, device: str) -> None:
    rows = [[largest, 0, 5], [], [largest - 1] * 4]
    host = SequencePairs(Ragged.of(rows), Ragged.of(rows[::-1]), 7)
    there = resident({"train": host}, torch.device(device))["train"]
    for numbers in ([0, 1, 2], [1], []):
        assert_equal(there.batch(np.array(numbers, dtype=np.int64)), host.batch(np.array(numbers)), device)


@requires_gpu
def test_a_batch_waits_for_nothing() -> None:
    rows = [[3] * n for n in range(1, 50)]
    there = resident({"train": SequencePairs.of(rows, rows, 0)}, torch.device("cuda"))["train"]
    buckets = LengthBuckets(there)
    there.batch(np.arange(3))
    torch.cuda.set_sync_debug_mode("error")
    try:
        buckets(there.batch(np.arange(9, 30)).to("cuda"))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_an_array_that_subsets_share_is_copied_once(tiny_data: Path, tmp_path: Path) -> None:
    subsets = prepared(tiny_data, tmp_path, "lra_image").subsets
    there = resident(subsets, torch.device("cpu"))
    images = {there[name].stored("all_images").data_ptr() for name in there}
    assert len(images) == 1
    part = subsets["train"]
    assert held_bytes(subsets.values()) == part.all_images.nbytes + part.all_answers.nbytes


def test_mapped_files_are_not_read_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(np.ndarray):
        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> None:
            raise AssertionError("read")

        def __getitem__(self, key: Any) -> None:
            raise AssertionError("read")

    ragged = Ragged(np.zeros(12, dtype=np.uint16).view(Closed), np.array([0, 5, 12]))
    examples: Examples = SequencePairs(ragged, ragged, 0)
    assert held_bytes([examples]) == 24
    assert examples.extents().tolist() == [[5, 5], [7, 7]]
    ready = Prepared(spec=None, subsets={"train": examples})
    assert place_data(ready, torch.device("cpu"), "auto") is ready
    gpu, free = torch.device("cuda", 0), 100
    monkeypatch.setattr(memory_use, "free_memory_bytes", lambda device: free)
    assert place_data(ready, gpu, "auto").subsets["train"].store is not None
    assert place_data(ready, gpu, False) is ready
    free = 95
    assert place_data(ready, gpu, "auto") is ready
    assert place_data(ready, gpu, True).subsets["train"].store is not None


def test_a_run_with_its_data_on_the_device_is_the_same_run(
    tiny_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By length at that, so that both ways to a batch go through one order."""
    more = ("model=linear", "train.bucket_window=3", "train.batch_tokens=400")
    actual, folders = [], []
    for storage, options in (("host", ()), ("device", ("trainer.data_on_device=true", "trainer.workers=2"))):
        raw = raw_of(tiny_data, tmp_path / storage, "mathematics", *more, *options)
        assert run_job(raw, quiet=True) == 0
        folder = run_folder(raw)
        result = json.loads((folder / "result.json").read_text())
        actual.append((MetricsFile(folder / "metrics.csv").rows(), result["metrics"], result["padding_share"]))
        folders.append(folder.relative_to(tmp_path / storage))
    assert folders[0] == folders[1]
    assert actual[0] == actual[1]
    assert 0 < actual[0][2] < 0.4
    assert "trainer.workers=2 is not used: the data is on the device" in "".join(capfd.readouterr())


def test_a_budget_that_is_too_small_is_one_sentence(
    tiny_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = raw_of(tiny_data, tmp_path, "mathematics", "model=linear", "train.batch_tokens=20")
    assert run_job(raw, quiet=True) != 0
    assert "train.batch_tokens=20: training example" in "".join(capfd.readouterr())
