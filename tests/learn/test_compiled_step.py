"""Compiled training steps: one graph per kind of task, the numbers of eager steps, and resume."""

import csv
import gc
import json
import signal
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from support.gpu import requires_gpu
from support.model_cases import SPECS, distinct_for, models_for, one_of_each_mechanism
from support.small_runs import SMALL_SCAN, config_of, run_command, run_job, settings
from torch import Tensor, nn
from torch._inductor.exc import InductorError
from torch.torch_version import TorchVersion

from attnlab.config.run_identity import run_folder
from attnlab.kernels import compiled_step
from attnlab.kernels.compiled_step import KeptGradients
from attnlab.learn.devices import device_choice
from attnlab.learn.devices.memory_use import free_earlier_jobs
from attnlab.learn.training_module import TrainingModule
from attnlab.run import train_run

ONE_OF_EACH_KIND = ["scan", "lra_retrieval", "wikitext103_masked"]
"""a causal language model's step is the masked one's"""


def check_steps(backend: str, pairs: Sequence[str]) -> None:
    """Compiles steps of pairs (task/model) in a process without shape checks (see tests/support/compile_steps.py)."""
    line = [sys.executable, "-m", "support.compile_steps", backend, *pairs]
    done = subprocess.run(line, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{pair} ok" for pair in pairs], done.stdout + done.stderr


@pytest.mark.slow
def test_a_training_step_is_one_graph() -> None:
    check_steps("eager", [f"{task}/linear_l2_ortho" for task in ONE_OF_EACH_KIND])


@pytest.mark.slow
@pytest.mark.parametrize("task", SPECS)
def test_compiled_steps_are_the_eager_ones(task: str) -> None:
    check_steps("inductor", [f"{task}/linear_l2_ortho"])


@pytest.mark.slow
@pytest.mark.parametrize("task", ["scan", "lra_listops"])
def test_the_step_of_every_model_is_one_graph(task: str) -> None:
    """Forward and backward, by the operations that inductor compiles; classification for those that cannot decode."""
    others = [] if task == "scan" else models_for("scan")
    models = [model for model in distinct_for(task) if model not in others]
    assert models
    check_steps("aot_eager_decomp_partition", [f"{task}/{model}" for model in models])


@pytest.mark.slow
def test_with_vector_instructions_every_mechanism_has_the_numbers_of_eager_steps() -> None:
    """Sums of every mechanism, by inductor (`kernels.inductor_tiles`)."""
    check_steps("inductor", [f"sort_of_clevr/{model}" for model in one_of_each_mechanism("sort_of_clevr")])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["vanilla", "linear_l2_ortho"])
def test_a_preset_that_compiles_has_the_losses_of_eager_steps(tmp_path: Path, model: str) -> None:
    """At the sizes of the preset, in float32, with the operators that are for compiled steps alone."""
    preset = "experiment=park2024/table2_sort_of_clevr_small"
    little = ("task.train_images=30", "task.val_images=5", "task.test_images=5", "backbone.dropout=0.1")
    short = (*little, "train.max_steps=4", "train.log_every=1")
    collected = []
    for compiles in ("true", "false"):
        inputs = (preset, f"model={model}", "seed=0", *short, f"trainer.compile={compiles}")
        done = run_command("train.py", "-m", *settings(tmp_path / compiles, *inputs))
        assert done.returncode == 0, done.stderr
        assert ("compiling the training step" in done.stderr) == (compiles == "true")
        tables = sorted((tmp_path / compiles).rglob("metrics.csv"), key=lambda path: path.parent.name)
        rows = [(number, row) for number, table in enumerate(tables) for row in csv.DictReader(table.open())]
        named = [(number, row) for number, row in rows if row["name"] in ("train/loss", "train/gradient_norm")]
        collected.append({(number, row["step"], row["name"]): float(row["value"]) for number, row in named})
    compiled, eager = collected
    assert len(eager) >= 6 and compiled == pytest.approx(eager, rel=1e-4)


@pytest.mark.parametrize(("came", "code", "state"), [(True, 130, "stopped"), (False, 1, "failed")])
def test_ctrl_c_that_ends_the_compiler_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came: bool, code: int, state: str
) -> None:
    """A terminal sends it to the compiler too, whose end is then no failure of the run."""

    def step(*inputs: object) -> Tensor:
        if came:
            signal.raise_signal(signal.SIGINT)
        raise InductorError(RuntimeError("g++ was killed" + 3000 * "."), None)

    monkeypatch.setattr(TrainingModule, "training_step", step)
    raw = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    assert run_job(raw, quiet=True) == code
    status = json.loads((run_folder(raw) / "status.json").read_text())
    assert status["state"] == state and len(status.get("reason", "")) <= 2000


def test_without_a_compiler_a_run_says_so_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> object:
        raise RuntimeError("No working C++ compiler found\nand much more")

    monkeypatch.setattr(device_choice.torch, "compile", failing)
    raw = config_of(tmp_path, *SMALL_SCAN, "model=linear", "trainer.compile=true")
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "trainer.compile=true, but torch cannot compile here (No working C++ compiler found)" in message
    assert not (run_folder(raw) / "last.ckpt").exists()


def test_a_torch_that_is_too_old_for_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA graphs need inductor's graph partition; a CPU does not."""
    monkeypatch.setattr(device_choice.torch, "compile", lambda function: function)
    monkeypatch.setattr(device_choice.torch, "zeros", lambda *_, **__: nn.Parameter(torch.ones(1)))
    for version, device in (("2.8.0+cu128", "cpu"), ("2.9.0+cu128", "cuda"), ("2.13.0", "cuda")):
        monkeypatch.setattr(device_choice.torch, "__version__", TorchVersion(version))
        device_choice.require_compilation(torch.device(device))
    monkeypatch.setattr(device_choice.torch, "__version__", TorchVersion("2.8.0+cu128"))
    with pytest.raises(device_choice.DeviceError, match=r"needs torch 2\.9 or newer on a GPU, and this is 2\.8\.0"):
        device_choice.require_compilation(torch.device("cuda"))


def test_graphs_that_a_gpu_recorded_are_dropped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: dropped.append(True))
    compiled_step.compiled(lambda x: (x,), torch.device("cpu"))
    compiled_step.drop_graphs()
    assert not dropped
    compiled_step.compiled(lambda x: (x,), torch.device("cuda", 0))
    compiled_step.drop_graphs()
    compiled_step.drop_graphs()
    assert dropped == [True]


@requires_gpu
@pytest.mark.slow
def test_a_gpu_has_no_memory_of_an_earlier_job(tmp_path: Path) -> None:
    """Two compiled runs; what is allocated when the second begins is what was before the first."""
    collected = []
    for seed in (0, 1):
        free_earlier_jobs()
        collected.append(torch.cuda.memory_reserved())
        compiled_run = (*SMALL_SCAN, "model=linear", "train.max_steps=3", "trainer.compile=true", "trainer.device=cuda")
        assert run_job(config_of(tmp_path, *compiled_run, f"seed={seed}"), quiet=True) == 0
    free_earlier_jobs()
    assert torch.cuda.memory_reserved() <= collected[1] + 2**21


def test_nothing_of_a_job_lives_when_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the collector, which may come at any time; a network stands for all that its run refers to."""
    networks, alive = [], []
    make, begin = train_run.make_network, train_run.prepared_task

    def made(*inputs: object) -> nn.Module:
        network = make(*inputs)
        networks.append(weakref.ref(network))
        return network

    def begun(*inputs: object) -> object:
        alive.extend(network() is not None for network in networks)
        return begin(*inputs)

    monkeypatch.setattr(train_run, "make_network", made)
    monkeypatch.setattr(train_run, "prepared_task", begun)
    monkeypatch.setattr(
        train_run, "record_result", lambda run: run.folder.write_result({"metrics": {}}, run.sinks.file) or {}
    )
    gc.disable()
    try:
        for seed in (0, 1):
            raw = config_of(tmp_path, *SMALL_SCAN, "model=linear", "train.max_steps=2", f"seed={seed}")
            assert run_job(raw, quiet=True) == 0
    finally:
        gc.enable()
    assert alive == [False]


def test_own_gradients_are_added_to_in_place() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    kept_gradients = KeptGradients([used, unused])
    optimizer = torch.optim.SGD([used, unused])
    foreign = torch.full((2,), 3.0)
    used.grad = foreign
    kept_gradients()
    kept = used.grad
    assert kept is not foreign and kept.tolist() == [3, 3] and unused.grad is None
    optimizer.zero_grad(set_to_none=False)
    (2 * used).sum().backward()
    kept_gradients()
    assert used.grad is kept and kept.tolist() == [2, 2] and foreign.tolist() == [3, 3]


def test_each_job_sets_its_own_float32_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFloat-32 where a run asks for it, on a GPU alone; the next job of a sweep does not inherit it."""
    monkeypatch.setattr(device_choice.torch, "use_deterministic_algorithms", lambda *_, **__: None)
    monkeypatch.setattr(device_choice.torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.setattr(device_choice.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    collected = []
    for device, tf32 in (("cuda", True), ("cuda", None), ("cuda", True), ("cpu", True)):
        monkeypatch.setattr(device_choice.torch.cuda, "is_available", lambda device=device: device == "cuda")
        device_choice.choose_device(device, 1, tf32)
        collected.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
    assert collected == [("high", True), ("highest", False)] * 2
