"""`attnlab.load_run`, `attnlab.runs`, and the mechanisms by their names."""

import ast
import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.small_runs import ROOT, SMALL_CLEVR, SMALL_SCAN, config_of, environment, run_job
from support.user_inputs import require_true_predictions

import attnlab
from attnlab import attention
from attnlab.attention.base import Attention
from attnlab.config.conf_files import group_choices
from attnlab.config.fill_defaults import model_yaml
from attnlab.config.run_identity import run_folder
from attnlab.config.targets import TargetError, attention_nodes, signature_of
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.vocabulary import Vocabulary
from attnlab.report.runs_table import FIRST
from attnlab.run.read_run_files import RunError
from attnlab.tasks.word_tasks import ClassificationTask, SequenceTask


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a run of scan and of one of sort_of_clevr."""
    folder, result = tmp_path_factory.mktemp("python"), {}
    for task, words in (("scan", SMALL_SCAN), ("sort_of_clevr", SMALL_CLEVR)):
        config = config_of(folder, f"task={task}", *words, "model=linear", "train.max_steps=2")
        assert run_job(config, quiet=True) == 0
        result[task] = run_folder(config)
    return result


@pytest.mark.parametrize("task", ["scan", "sort_of_clevr"])
def test_a_run_is_loaded_with_the_tested_weights(task: str, trained: dict[str, Path]) -> None:
    run = attnlab.load_run(trained[task])
    assert run.config["model"]["name"] == "linear" and not run.network.training
    assert run.metrics.loc[1, "train/loss"] > 0 and run.result["metrics"]
    assert task in repr(run) and "finished" in repr(run)
    part = run.data.subsets["train"]
    assert repr(part) == f"{type(part).__name__}({len(part)} examples)" and f"train: {part!r}" in repr(run.data)
    require_true_predictions(run, next(name for name in run.data.subsets if name.startswith("test")))


def test_predictions_of_scan_are_actions(trained: dict[str, Path]) -> None:
    run = attnlab.load_run(str(trained["scan"]))
    predicted = run.predict(["jump twice", "walk and look"])
    assert len(predicted) == 2 and all(set(text.split()) <= set(run.task.outputs.words) for text in predicted)
    assert run.predict([]) == []
    with pytest.raises(DataError, match=r"^input 0: the word 'jumpp' is not in the vocabulary; the nearest is 'jump'"):
        run.predict(["jumpp twice"])
    with pytest.raises(TypeError, match=r"predict\(\['jump'\]\)"):
        run.predict("jump")


def test_a_wrong_input_is_named_by_its_position_in_the_list(trained: dict[str, Path]) -> None:
    run = attnlab.load_run(trained["scan"])
    run._typed = replace(run._typed, train=replace(run._typed.train, eval_batch_size=2))
    with pytest.raises(DataError, match=r"^input 4: the word 'xyz' is not in .*; its words are .*'jump'"):
        run.predict(["jump"] * 4 + ["xyz"])
    with pytest.raises(DataError, match=r"^input 3 is \(str, int\); expected a text$"):
        run.predict(["jump"] * 3 + [("jump", 3)])
    picture = np.zeros((75, 75, 3), dtype=np.uint8)
    wrong = {
        ": the picture is uint8 of shape (75, 75); expected uint8, 75 x 75 x 3": (picture[..., 0], ("red",)),
        ": ('red',): a question is a colour, a second colour": (picture, ("red",)),
        " is (ndarray, int); expected a picture and a question": (picture, 3),
    }
    run = attnlab.load_run(trained["sort_of_clevr"])
    for message, inputs in wrong.items():
        with pytest.raises(DataError, match=re.escape(f"input 1{message}")):
            run.predict([(picture, ("red", None, "unary", 0)), inputs])


@pytest.mark.parametrize("labelled", [False, True])
def test_a_wrong_word_of_an_own_task_is_named_by_its_example(labelled: bool, tmp_path: Path) -> None:
    class Copy(SequenceTask):
        subsets = ("train", "test")
        inputs = outputs = Vocabulary(["walk"])

        def pairs(self) -> dict[str, list[tuple[list[str], list[str]]]]:
            return {"train": [(["walk"], ["walk"])], "test": [(["walk"], ["walk"]), (["walk"], ["wlak"])]}

    class Only(ClassificationTask):
        subsets, inputs, classes = ("train", "test"), Vocabulary(["walk"]), ("one",)

        def examples(self) -> dict[str, list[tuple[list[str], str]]]:
            return {"train": [(["walk"], "one")], "test": [(["walk"], "one"), (["wlak"], "one")]}

    with pytest.raises(DataError, match=r"^test, example 1: the word 'wlak' is not in .* the nearest is 'walk'$"):
        (Only if labelled else Copy)().prepare(Folders(tmp_path, tmp_path))


def test_loading_changes_no_random_state(trained: dict[str, Path]) -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(3)
    expected = drawn()
    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(3)
    assert attnlab.load_run(trained["scan"]).network is not None
    assert drawn() == expected


def test_loading_warns_of_nothing_with_several_gpus(trained: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.random.fork_rng` copies the state of every GPU, with a warning if there are several."""
    monkeypatch.setattr(torch.random, "fork_rng", lambda: pytest.fail("it warns with several GPUs"))
    assert attnlab.load_run(trained["scan"]).network is not None


def test_no_run_and_no_weights_are_sentences(trained: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such folder"):
        attnlab.load_run(tmp_path / "nothing")
    with pytest.raises(RunError, match="it is no run folder"):
        attnlab.load_run(trained["scan"].parents[2])
    with pytest.raises(RunError, match="there is no run folder at or below it"):
        attnlab.runs(tmp_path)
    with pytest.raises(RunError, match=r"/rnus: no such folder; nearest: .*/runs$"):
        attnlab.runs(trained["scan"].parents[3].with_name("rnus"))
    (tmp_path / "config.yaml").write_text((trained["scan"] / "config.yaml").read_text())
    empty = attnlab.load_run(tmp_path)
    assert empty.metrics.empty and empty.result == {} and "not started" in repr(empty)
    (tmp_path / "metrics.csv").write_text("step,name,value\n1,train/loss,0.5\n2,train\n")
    with pytest.warns(UserWarning, match="metrics.csv: 1 damaged lines are left out"):
        assert len(attnlab.load_run(tmp_path).metrics) == 1
    with pytest.raises(RunError, match="has saved no weights yet"):
        _ = empty.network


def test_the_table_of_runs(trained: dict[str, Path]) -> None:
    table = attnlab.runs(trained["scan"].parents[3])
    assert list(table.task) == ["scan", "sort_of_clevr"] and list(table.state) == ["finished"] * 2
    result = json.loads((trained["scan"] / "result.json").read_text())
    name = "test/ood/sequence_accuracy"
    assert table.loc[0, name] == result["metrics"][name] and np.isnan(table.loc[1, name])
    # the tasks differ in many settings, and no two runs are of one task
    assert not any(column.startswith(("backbone.", "optim.", "model.", "task.")) for column in table)
    assert not any("/length_" in column for column in table)


def test_the_table_shows_settings_that_differ_within_a_task(trained: dict[str, Path], tmp_path: Path) -> None:
    text = (trained["scan"] / "config.yaml").read_text()
    changes = {"a": ("", ""), "b": ("name: linear", "name: other"), "c": ("clip_norm:", "clip_nrom:")}
    for name, change in changes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text.replace(*change, 1) if name != "a" else text)
    assert list(attnlab.runs(tmp_path).columns) == [*FIRST, "optim.clip_norm", "optim.clip_nrom"]
    (tmp_path / "c/config.yaml").write_text((tmp_path / "c/config.yaml").read_text().replace("name: linear", "name: 3"))
    assert list(attnlab.runs(tmp_path).columns) == FIRST
    (tmp_path / "b/config.yaml").write_text(text.replace("max_steps: 2", "max_steps: 3"))
    assert list(attnlab.runs(tmp_path).columns) == [*FIRST, "train.max_steps"]


def test_the_table_names_runs_without_numbers(trained: dict[str, Path], tmp_path: Path) -> None:
    for name, change in (("whole", ""), ("quick", "debug: smoke\n"), ("damaged", "task: [\n")):
        copy = shutil.copytree(trained["scan"], tmp_path / name)
        with (copy / "config.yaml").open("a") as file:
            file.write(change)
    text = (tmp_path / "quick/config.yaml").read_text()
    (tmp_path / "quick/config.yaml").write_text(text.replace("debug: null\n", "", 1))
    table = attnlab.runs(tmp_path).set_index("folder")
    states = {Path(folder).name: state for folder, state in table.state.items()}
    assert states == {"whole": "finished", "quick": "debug", "damaged": "unreadable"}
    assert not any(column.startswith(("backbone.", "optim.")) for column in table)
    assert "config.yaml is cut short or no" in table.loc[str(tmp_path / "damaged"), "reason"]


def test_every_shipped_mechanism_is_exported() -> None:
    used = set()
    for model in group_choices()["model"]:
        for _, _, node in attention_nodes(model_yaml(model)):
            try:
                used.add(signature_of(node).path)
            except TargetError:
                continue
    exported = {f"{getattr(attention, name).__module__}.{name}" for name in attention.__all__}
    assert len(exported & used) > 15, "models of a user need no export"
    assert all(issubclass(getattr(attention, name), Attention) for name in attention.__all__)


def test_names_load_nothing_before_they_are_used() -> None:
    code = "import sys, attnlab, attnlab.attention; assert 'pandas' not in sys.modules and 'torch' not in sys.modules; "
    code += "from attnlab.attention import SoftmaxAttention, LinearAttention, Performer, CosFormer; attnlab.runs"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


def test_the_notebook_runs(trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of code, in order, in a folder with a run of scan."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/runs").symlink_to(trained["scan"].parents[3])
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples/look_inside.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            exec(compile(tree, "look_inside.ipynb", "exec"), names)
    assert len(cells) > 8 and names["predicted"]
