"""Packed runs equal single runs: numbers, files and ends."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.gpu import requires_gpu
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, config_of, folder_of, run_job, run_pack, stop_after
from support.tiny_data import TINY, raw_of
from torch import Tensor
from torch.nn.functional import linear

from attnlab.config.job_config import job_config
from attnlab.config.run_identity import run_folder
from attnlab.config.schema import Optim
from attnlab.launch.pack import trainer
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.optimizer_groups import OptimizerGroups
from attnlab.launch.pack.packed_module import PackedModule
from attnlab.launch.pack.pending_run import pending_runs
from attnlab.learn.loss_monitor import LossMonitor
from attnlab.learn.stop_signals import StopRequest
from attnlab.learn.training_module import NonFiniteLoss
from attnlab.run import train_run as single
from attnlab.run.run_context import RunContext
from attnlab.run.run_folder import MetricsFile, RunFolder

# Fused softmax has no batching rule on the CPU and falls back to a loop there.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:There is a performance drop")]

STEPS = "train.max_steps=12"
SCAN = (*SMALL_SCAN, STEPS, "backbone.dropout=0", "task.length_cutoff=40", "train.checkpoint_every=5")
CLEVR = (
    *SMALL_CLEVR,
    STEPS,
    "model=performer",
    "backbone.dropout=0",
    "train.validate_every=4",
    "train.diagnose_every=5",
)
SCHEDULED = ("optim.schedule=one_cycle", "optim.clip_norm=0.5", "train.accumulate=2", "model.ortho.weight=0.1")
CASES = {
    # Different rates, weights and limits; gradients of two batches; one run has a schedule, one no orthogonality loss.
    "scan": [
        (*SCAN, "model=linear_l2_ortho", "train.accumulate=2", "model.ortho.weight=0", "optim.clip_norm=null"),
        (*SCAN, "model=linear_l2_ortho", *SCHEDULED, "seed=1", "optim.lr=0.003"),
    ],
    # Validation, groups in turn, random features drawn anew.
    "sort_of_clevr": [
        (*CLEVR, f"seed={seed}", "model.encoder.0.attention.redraw_every=3", "optim.clip_value=0.01") for seed in (4, 5)
    ],
}


def configs(folder: Path, runs: Sequence[Sequence[str]]) -> list[dict]:
    return [config_of(folder, *run) for run in runs]


def rows_of(folder: Path, run: Sequence[str]) -> list[tuple[int, str, float]]:
    return MetricsFile(folder_of(folder, *run) / "metrics.csv").rows()


def assert_close(one: Path, other: Path, run: Sequence[str], rtol: float = 1e-4) -> None:
    """The same metrics at the same steps, up to rounding."""
    here, there = rows_of(one, run), rows_of(other, run)
    assert [row[:2] for row in here] == [row[:2] for row in there]
    assert len(here) > 30
    torch.testing.assert_close([row[2] for row in here], [row[2] for row in there], rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_packed_runs_equal_single_ones(tmp_path: Path, case: str) -> None:
    runs = CASES[case]
    assert run_pack(configs(tmp_path / "packed", runs)) == [0] * len(runs)
    for run in runs:
        assert run_job(config_of(tmp_path / "single", *run), quiet=True) == 0
        assert_close(tmp_path / "packed", tmp_path / "single", run)
        packed, single = (
            json.loads((folder_of(tmp_path / name, *run) / "result.json").read_text()) for name in ("packed", "single")
        )
        assert packed["counts"] == single["counts"] and packed["selection"].keys() == single["selection"].keys()
        assert packed["packed"] == {"members": len(runs)}


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end with their training: the test of one run by itself is tested above."""

    def without_test(run: RunContext, **more: object) -> dict:
        run.folder.write_result({"metrics": {}} | more, run.sinks.file)
        return {}

    monkeypatch.setattr(trainer, "record_result", without_test)
    monkeypatch.setattr(single, "record_result", without_test)


DROPOUT = (*SMALL_SCAN, "train.max_steps=8", "train.checkpoint_every=3", "model=vanilla", "task.length_cutoff=40")
TRIO = [
    (*DROPOUT, "seed=1", "backbone.dropout=0.1"),
    (*DROPOUT, "seed=2", "backbone.dropout=0.3", "optim.schedule=cosine"),
    # shares the parameter group of the first
    (*DROPOUT, "seed=3", "backbone.dropout=0.1", "optim.clip_norm=0.5"),
]


@pytest.mark.usefixtures("untested")
def test_a_pack_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between two checkpoints, with dropout, whose random state goes on."""
    assert run_pack(configs(tmp_path / "whole", TRIO)) == [0, 0, 0]
    with monkeypatch.context() as during:
        stop_after(5, during)
        assert run_pack(configs(tmp_path / "parts", TRIO)) == [130] * 3
    assert RunFolder(folder_of(tmp_path / "parts", *TRIO[0])).status()["state"] == "stopped"
    assert run_pack(configs(tmp_path / "parts", TRIO)) == [0, 0, 0]
    for run in TRIO:
        whole, parts = (folder_of(tmp_path / name, *run) for name in ("whole", "parts"))
        assert (whole / "metrics.csv").read_text() == (parts / "metrics.csv").read_text()
        one, other = (torch.load(folder / "last.ckpt", weights_only=True) for folder in (whole, parts))
        assert one["global_step"] == 8
        torch.testing.assert_close(one["optimizer_states"], other["optimizer_states"], rtol=0, atol=0)
        torch.testing.assert_close(one["state_dict"], other["state_dict"], rtol=0, atol=0)


def test_runs_with_equal_optimisers_share_a_group() -> None:
    """Limits of gradients are no part of an optimiser; torch counts parameters group by group."""
    one, other = Optim(lr=0.1, clip_norm=1.0), Optim(lr=0.1, schedule="cosine")
    groups = OptimizerGroups([one, other, replace(one, clip_norm=None), replace(one, clip_value=0.5)])
    assert groups.rows == [[0, 2, 3], [1]] and groups.optims == [one, other]
    assert groups.places == [(0, 0), (1, 3), (0, 1), (0, 2)]


@requires_gpu
@pytest.mark.usefixtures("untested")
def test_a_pack_on_a_gpu_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its random state and its optimiser groups."""
    runs = [(*run, "trainer.device=cuda") for run in TRIO]
    assert run_pack(configs(tmp_path / "whole", runs)) == [0, 0, 0]
    with monkeypatch.context() as during:
        stop_after(5, during)
        assert run_pack(configs(tmp_path / "parts", runs)) == [130] * 3
    assert run_pack(configs(tmp_path / "parts", runs)) == [0, 0, 0]
    for run in runs:
        one, other = (torch.load(folder_of(tmp_path / name, *run) / "last.ckpt") for name in ("whole", "parts"))
        torch.testing.assert_close(one["state_dict"], other["state_dict"], rtol=0, atol=0)


@pytest.mark.usefixtures("untested")
def test_either_way_goes_on_where_the_other_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started alone and finished in a pack, started in a pack and finished alone."""
    runs = [(*SCAN, "model=linear_l2_ortho", f"seed={seed}", "optim.schedule=cosine") for seed in (7, 8)]
    for run in runs:
        assert run_job(config_of(tmp_path / "alone", *run), quiet=True) == 0
    for name, first, then in (("a", run_singly, run_pack), ("b", run_pack, run_singly)):
        with monkeypatch.context() as during:
            during.setattr(StopRequest, "pending", lambda self: 15)
            assert first(configs(tmp_path / name, runs)) == [143, 143]
        assert then(configs(tmp_path / name, runs)) == [0, 0]
        for run in runs:
            assert_close(tmp_path / name, tmp_path / "alone", run)


@pytest.mark.usefixtures("untested")
def test_pieces_of_large_batches(tmp_path: Path) -> None:
    runs = [(*SCAN, "model=vanilla", f"seed={seed}", "train.max_tokens=500") for seed in (6, 7)]
    assert run_pack(configs(tmp_path / "packed", runs)) == run_singly(configs(tmp_path / "single", runs)) == [0, 0]
    for run in runs:
        assert_close(tmp_path / "packed", tmp_path / "single", run)


def run_singly(raws: Sequence[dict]) -> list[int]:
    return [run_job(raw, quiet=True) for raw in raws]


@pytest.mark.usefixtures("untested")
def test_a_loss_that_explodes_ends_its_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        (*SCAN, "model=linear", f"seed={seed}", *more) for seed, more in ((3, ()), (4, ("optim.lr=1e30",)), (5, ()))
    ]
    assert run_pack(configs(tmp_path, runs)) == [0, 1, 0]
    assert rows_of(tmp_path, runs[0])[-1][0] == rows_of(tmp_path, runs[2])[-1][0] == 12
    status = RunFolder(folder_of(tmp_path, *runs[1])).status()
    assert status["state"] == "failed" and "NonFiniteLoss: the loss is" in status["reason"]
    assert "16 in the batch" in status["reason"] and "at step 1," in status["reason"]
    assert "failed: scan-length_cutoff-40/linear, seed=4, lr=1e+30" in capsys.readouterr().err
    assert not (folder_of(tmp_path, *runs[1]) / "last.ckpt").exists()
    single = run_job(config_of(tmp_path / "single", *runs[1]), quiet=True)
    assert single == 1
    alone = RunFolder(folder_of(tmp_path / "single", *runs[1])).status()["reason"]
    assert alone.split(";")[0] == status["reason"].split(";")[0]


@pytest.mark.usefixtures("untested")
def test_each_run_has_its_own_dropout(tmp_path: Path) -> None:
    """Rates of 0 and of 0.9: one loses nothing, and the other most, in softmax weights too."""
    runs = [(*SCAN, "model=vanilla", "seed=3", f"backbone.dropout={rate}") for rate in (0, 0.9)]
    assert run_pack(configs(tmp_path / "packed", runs)) == [0, 0]
    assert run_job(config_of(tmp_path / "single", *runs[0]), quiet=True) == 0
    assert_close(tmp_path / "packed", tmp_path / "single", runs[0])
    losses = [[v for _, name, v in rows_of(tmp_path / "packed", run) if name == "train/loss"] for run in runs]
    assert losses[1][0] != losses[0][0] and losses[1][-1] > losses[0][-1]


@pytest.mark.usefixtures("untested")
def test_a_late_look_finds_the_right_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU losses are looked at one step later; here the same on a CPU."""
    monkeypatch.setattr("attnlab.learn.training_module.LossMonitor", lambda late: LossMonitor(late=True))
    runs = [(*SMALL_SCAN, "train.max_steps=4", "model=linear", "seed=3", *lr) for lr in ((), ("optim.lr=1e30",))]
    assert run_pack(configs(tmp_path, runs)) == [0, 1]
    reason = RunFolder(folder_of(tmp_path, *runs[1])).status()["reason"]
    assert "the loss is" in reason and "at step 1," in reason
    assert rows_of(tmp_path, runs[0])[-1][0] == 4 and not (folder_of(tmp_path, *runs[1]) / "last.ckpt").exists()


@pytest.mark.usefixtures("untested")
def test_runs_that_others_hold_are_left_to_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [(*SCAN, "model=linear", "train.max_steps=2", f"seed={seed}") for seed in (3, 4, 5)]
    runs = [tuple(word for word in run if word != STEPS) for run in runs]
    held = RunFolder(folder_of(tmp_path, *runs[1]))
    held.create()
    with held.locked():
        assert run_pack(configs(tmp_path, runs)) == [0, 1, 0]
    assert "another process" in capsys.readouterr().err
    assert run_pack(configs(tmp_path, runs)) == [0, 0, 0]


@pytest.mark.usefixtures("untested")
def test_runs_that_do_not_fit_are_trained_in_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [(*SCAN, "model=linear", f"seed={seed}") for seed in range(3)]
    sizes = []

    def limited(networks: list, *args: object, **options: object) -> NetworkStack:
        sizes.append(len(networks))
        if len(networks) > 2:
            # if members x batch x blocks are more than 65,535
            raise RuntimeError("CUDA error: invalid configuration argument\nCUDA kernel errors might be ...")
        return NetworkStack(networks, *args, **options)

    monkeypatch.setattr(trainer, "NetworkStack", limited)
    assert run_pack(configs(tmp_path, runs), max_packed=3) == [0, 0, 0]
    assert sizes == [3, 2, 1]
    assert "3 runs are more than a kernel of the GPU takes together; going on with 2" in capsys.readouterr().err


@pytest.mark.usefixtures("untested")
def test_memory_that_runs_out_later_mixes_no_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run has ended before, at another step than the checkpoints of the others."""
    healthy, ran_out = PackedModule.on_after_backward, []

    def hook(self: PackedModule) -> None:
        healthy(self)
        if not ran_out and self.global_step == 3:
            self.members[0].error = NonFiniteLoss("the loss is nan")
        if not ran_out and self.global_step == 5:
            ran_out.append(True)
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")

    monkeypatch.setattr(PackedModule, "on_after_backward", hook)
    runs = [
        (
            *SMALL_SCAN,
            "train.max_steps=8",
            "train.checkpoint_every=2",
            "model=linear",
            "backbone.dropout=0",
            f"seed={k}",
        )
        for k in range(3)
    ]
    assert run_pack(configs(tmp_path / "packed", runs), max_packed=3) == [1, 0, 0]
    for run in runs[1:]:
        assert [step for step, name, _ in rows_of(tmp_path / "packed", run) if name == "train/loss"] == list(
            range(1, 9)
        )
    assert run_job(config_of(tmp_path / "single", *runs[1]), quiet=True) == 0
    torch.testing.assert_close(
        *[[value for *_, value in rows_of(tmp_path / name, runs[1])] for name in ("packed", "single")],
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.usefixtures("untested")
def test_a_signal_leaves_runs_at_other_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(*SMALL_SCAN, "train.max_steps=6", "model=linear", f"seed={k}") for k in range(2)]
    with monkeypatch.context() as during:
        stop_after(3, during)
        assert run_job(config_of(tmp_path, *runs[0]), quiet=True) == 130
    with monkeypatch.context() as during:
        during.setattr(StopRequest, "pending", lambda self: 15)
        assert run_pack(configs(tmp_path, runs)) == [143, 143]
    assert not folder_of(tmp_path, *runs[1]).joinpath("last.ckpt").exists()


def test_the_number_of_runs_follows_from_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [entry] = pending_runs([job_config(config_of(tmp_path, *SCAN, "model=linear"))])
    held = trainer.PackTrainer(entry, StopRequest())
    monkeypatch.setattr("attnlab.learn.devices.memory.free_memory_bytes", lambda device: 10**6)
    assert held.most() == 1
    monkeypatch.setattr("attnlab.learn.devices.memory.free_memory_bytes", lambda device: 10**12)
    assert held.most() > 100


NO_DROPOUT = tuple(
    f"backbone.{rate}=0" for rate in ("dropout", "attention_dropout", "attention_output_dropout", "embedding_dropout")
)
FAST = ("flip_flop", "lra_retrieval", "wikitext103_masked")
"""of each kind of network that is not above"""


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=[] if task in FAST else [pytest.mark.slow]) for task in TINY if task != "scan"]
)
def test_every_task_is_packed(task: str, tiny_data: Path, tmp_path: Path) -> None:
    """Seeds 1 and 2 get the same numbers in a pack and alone; the pack draws the hidden words of the masked model."""
    seeds = [
        [
            raw_of(tiny_data, tmp_path / name, task, "model=linear_l2_ortho", *NO_DROPOUT, f"seed={seed}")
            for seed in (1, 2)
        ]
        for name in ("packed", "alone")
    ]
    assert run_pack(seeds[0]) == run_singly(seeds[1]) == [0, 0]
    tables = [[MetricsFile(run_folder(raw) / "metrics.csv").rows() for raw in raws] for raws in seeds]
    assert tables[0][0] != tables[0][1]
    for packed, alone in zip(*tables, strict=True):
        assert [row[:2] for row in packed] == [row[:2] for row in alone]
        if not task.endswith("masked"):
            torch.testing.assert_close([row[2] for row in packed], [row[2] for row in alone], rtol=1e-4, atol=1e-6)


def summed_backwards(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map whose products are added up from the last to the first."""
    return linear(x.flip(-1), weight.flip(-1), bias)


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("model", ["linear_l2_ortho", "vanilla", "transnormer_t2", "cosformer", "universal"])
def test_two_hundred_steps_stay_together(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, up to 1e-11 and a hundred times what the order of summation changes in a single run, 1e-4 at most.

    Training makes rounding grow: in float32 a pre-activation within 1e-7 of a relu's corner changes a gradient by 1e-4
    at once, and cosformer's small denominators make two single runs, summed in two orders, differ by 5 % in the loss
    after 200 steps. So float32 would test how a machine rounds; in float64 the two differ by 1e-8 at most.
    """
    # with one layer the universal network is the vanilla one
    layers = f"backbone.n_layers={2 if model == 'universal' else 1}"
    steps = ("train.max_steps=200", "train.precision=64-true", "backbone.dropout=0", layers)
    runs = [(*SMALL_SCAN, f"model={model}", *steps, f"seed={k}") for k in range(2)]
    assert run_pack(configs(tmp_path / "packed", runs)) == [0, 0]
    assert run_singly(configs(tmp_path / "single", runs)) == [0, 0]
    monkeypatch.setattr(torch.nn.functional, "linear", summed_backwards)
    assert run_singly(configs(tmp_path / "backwards", runs)) == [0, 0]
    for run in runs:
        tables = [rows_of(tmp_path / name, run) for name in ("packed", "single", "backwards")]
        assert [row[:2] for row in tables[0]] == [row[:2] for row in tables[1]] and len(tables[0]) >= 600
        rounding = 0.0
        for (step, name, packed), (*_, alone), (*_, backwards) in zip(*tables, strict=True):
            rounding = max(rounding, abs(backwards - alone) / abs(alone))
            allowed = min(1e-4, 1e-11 + 100 * rounding)
            assert packed == pytest.approx(alone, rel=allowed, abs=0), f"{name} at step {step}"
