"""Defaults: the configuration is the same whether a yaml writes a default or not."""

import ast
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.composed_configs import MODELS, composed
from support.slow_cases import slow_except
from support.small_runs import ROOT, SMALL_SCAN, config_of, environment, jobs_of, run_job
from support.written_runs import forget_identity

from attnlab.config.compose import CONF, compose_with_hydra
from attnlab.config.conf_files import merged_yaml, unresolved
from attnlab.config.dotted_keys import flatten
from attnlab.config.fill_defaults import class_defaults, completed, defaults, model_yaml
from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.run_identity import differences, run_folder, run_tag
from attnlab.config.sweep import check_command
from attnlab.config.targets import BUILDER_ARGUMENTS, MECHANISM, OFFERED_ARGUMENTS, attention_nodes, values_of_null
from attnlab.launch.train_cli import train_main
from attnlab.nn import network_parts
from attnlab.run.run_folder import read_config

MODEL = """\
name: short
encoder:
  - {share: 1.0, attention: {_target_: attnlab.attention.linear.LinearAttention}}
decoder: ${.encoder}
cross: {_target_: attnlab.attention.linear.LinearAttention}
"""
TASK = """\
# @package _global_
task:
  _target_: attnlab.tasks.scan.task.Scan
  name: brief
backbone:
  {d_model: 16, n_heads: 2, n_layers: 1, d_feed_forward: 16, dropout: 0.0, attention_dropout: 0.0,
   attention_output_dropout: 0.0, embedding_dropout: 0.0, norm_placement: post, positions: sinusoidal}
optim: {lr: 1e-3}
train: {max_steps: 2, batch_size: 16, eval_batch_size: 2048}
"""
COMMANDS = """
import sys
from attnlab.launch.train_cli import train_main
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.report.cli import report_main

words = ["task=brief", "model=short", "logger=wandb_offline", "trainer=cpu", "trainer.threads=1"]
sys.exit(
    train_main(words)
    or train_main(["-m", "hydra/launcher=basic", *words, "seed=1", "optim.lr=1e-3,2e-3"])
    or evaluate_main(["run=experiments/runs/brief/short/default/seed0", "task.length_cutoff=40", "subset=test/ood"])
    or report_main(["runs=experiments/runs/brief"])
)
"""


@pytest.mark.slow
def test_the_shortest_yamls_go_through_every_command(tmp_path: Path) -> None:
    """A model without `normalization` once had no wandb run, a task without `label` a traceback."""
    for name in ("src", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "conf/model/short.yaml").write_text(MODEL)
    (tmp_path / "conf/task/brief.yaml").write_text(TASK)
    (tmp_path / "commands.py").write_text(COMMANDS)
    here = environment() | {"PYTHONPATH": str(tmp_path / "src")}
    line = [sys.executable, "commands.py"]
    done = subprocess.run(line, capture_output=True, text=True, env=here, cwd=tmp_path, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr and "wandb did not start" not in done.stderr, done.stderr
    runs = tmp_path / "experiments/runs"
    folders = sorted(path.parent.relative_to(runs / "brief/short") for path in runs.rglob("result.json"))
    swept = ["default/seed1", "lr=0.002/seed1"]
    assert list(map(str, folders)) == sorted(["default/seed0", *swept])
    assert len(list((runs / "wandb").glob("offline-run-*"))) == 3
    written = yaml.safe_load((runs / "brief/short/default/seed0/config.yaml").read_text())
    assert written["task"]["label"] == [] and written["task"]["length_cutoff"] == 26
    assert written["train"]["precision"] == "32-true" and written["model"]["normalization"]["kind"] == "none"
    assert written["model"]["cross"]["feature_map"] == "one_plus_elu"
    assert list((runs / "brief/short/default/seed0/evaluations").glob("*.json"))


@pytest.mark.parametrize("model", slow_except(MODELS, MODELS[::5]))
def test_a_default_that_is_written_changes_no_folder(model: str) -> None:
    """Every option of every attention; any other value does."""
    raw = compose_with_hydra([])[0] | {"model": model_yaml(model)}
    config = completed(raw)
    default = run_tag(config)
    assert default == "default"
    assert completed(config) == config
    assert differences(raw, config)
    for key, slot, node in attention_nodes(config["model"]):
        if slot == "encoder":
            for path, value in class_defaults(node["_target_"], key):
                name = path.rpartition(".")[2]
                is_default = node[name] == value or (value is None and name in values_of_null(node))
                node[name] = "other" if is_default else value
                assert run_tag(config) != default
                node[name] = completed(raw)["model"]["encoder"][int(key.split(".")[2])]["attention"][name]


def test_a_written_default_is_the_same_run_and_another_class_brings_its_own() -> None:
    assert run_tag(jobs_of(["++model.cross.eps=1e-5"])[0]) == "default"
    assert run_tag(compose_config(["~task.data_seed"])) == "default"
    assert run_tag(compose_config(["+backbone.pooling=mean"])) == "default"
    softmax = "attnlab.attention.softmax.SoftmaxAttention"
    whole = f"model.decoder=[{{share: 1.0, attention: {{_target_: {softmax}}}}}]"
    for model in ("linear", "cosformer", "performer"):
        raw, _ = compose_with_hydra([f"model={model}", whole])
        assert run_tag(completed(raw)) == f"decoder.0.attention._target_={softmax}"


def test_the_bases_of_tasks_and_models_say_the_defaults_of_the_schema() -> None:
    """So a yaml of a user's own means the same, in the same folder, with the base and without."""
    task, model = (unresolved(merged_yaml(group, "_base")) for group in ("task", "model"))
    written = flatten({**task, "model": model})
    of_schema = dict(defaults({**task, "model": model}))
    differing = {key for key in written.keys() & of_schema.keys() if written[key] != of_schema[key]}
    assert differing == {"model.ortho.where", "model.decoder", "model.mechanism"}, (
        "where: what shipped models can do, another class may not; decoder: the encoder's groups; mechanism: of each"
    )
    assert written["model.decoder"] == "${.encoder}" and written["model.encoder.0.attention"] == MECHANISM
    others = {value for key, value in written.items() if key not in of_schema}
    assert others == {"???", "${backbone.dropout}", MECHANISM, 1.0}


def test_what_the_network_builder_offers_is_never_filled_in() -> None:
    """A constructor's `normalization=None` written into a node would win over the model's."""
    tree = ast.parse(inspect.getsource(network_parts.make_attention))
    assigned = {ast.unparse(node.targets[0]): node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    assert {key.value for key in assigned["offers"].keys} <= {*BUILDER_ARGUMENTS, *OFFERED_ARGUMENTS}
    for model in MODELS:
        raw = model_yaml(model)
        inputs = {path: node for path, _, node in attention_nodes(raw)}
        for path, _, node in attention_nodes(completed(composed(model))["model"]):
            added = node.keys() - inputs[path].keys()
            assert not added & {*BUILDER_ARGUMENTS, *OFFERED_ARGUMENTS}, (model, path)


def test_the_configuration_shown_is_the_one_that_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}"]
    words = [*SMALL_SCAN, "model=linear", "train.max_steps=1", "logger=csv", "trainer=cpu", *paths]
    assert train_main([*words, "--cfg", "job"]) == 0
    shown = capsys.readouterr().out
    assert "${" not in shown and "eps: 1.0e-05" in shown and "&id" not in shown
    assert run_job(compose_config(words), quiet=True) == 0
    assert (run_folder(compose_config(words)) / "config.yaml").read_text() == shown
    assert train_main([*words, "--cfg=job", "--package", "model.cross", "--resolve"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == completed(compose_config(words))["model"]["cross"]
    # an experiment whose hypotheses name rows that its first job is not
    assert train_main(["experiment=park2024/table4_scan", "--cfg", "job", "-p", "seed"]) == 0
    assert train_main(["--cfg", "job", "-p", "optimm"]) == 2
    assert "--package optimm: no such part; nearest: optim" in capsys.readouterr().err


def test_an_older_runs_configuration_is_completed_when_it_is_read(tmp_path: Path) -> None:
    """Newer keys get the value of the old behaviour; the finished run is still this run."""
    raw = config_of(tmp_path, *SMALL_SCAN, "model=linear", "train.max_steps=1")
    assert run_job(raw, quiet=True) == 0
    file = run_folder(raw) / "config.yaml"
    whole = yaml.safe_load(file.read_text())
    older: dict[str, Any] = json.loads(json.dumps(whole))
    del older["from_run"], older["train"]["accumulate"], older["model"]["normalization"]["placement"]
    del older["model"]["encoder"][0]["attention"]["chunk_size"], older["task"]["data_seed"]
    file.write_text(yaml.safe_dump(older))
    forget_identity(file.parent)
    assert read_config(file) == whole
    result = (file.parent / "result.json").read_bytes()
    assert run_job(raw, quiet=True) == 0
    assert (file.parent / "result.json").read_bytes() == result


@pytest.mark.parametrize(
    "broken",
    [{}, {"task": 3, "model": []}, {"task": {"_target_": 5}, "model": {"encoder": [3, {"attention": None}]}},
     {"train": None, "model": {"normalization": "x", "encoder": {}, "decoder": "${.encoder}"}}],
)  # fmt: skip
def test_what_is_wrong_stays_as_it_is(broken: dict[str, Any]) -> None:
    result = completed(broken)
    assert {key: result[key] for key in broken if not isinstance(broken[key], dict)} == {
        key: value for key, value in broken.items() if not isinstance(value, dict)
    }


@pytest.mark.parametrize("base", ["defaults: [_base, _self_]\n", ""])
def test_decoder_and_cross_attention_are_optional(base: str, tmp_path: Path) -> None:
    """A model with an encoder alone classifies and models language, where a task needs more the message says what."""
    shutil.copytree(CONF, tmp_path / "conf")
    linear = "attnlab.attention.linear.LinearAttention"
    text = f"{base}name: mine\nencoder:\n  - {{share: 1.0, attention: {{_target_: {linear}}}}}\n"
    (tmp_path / "conf/model/mine.yaml").write_text(text)
    for task in ("sort_of_clevr", "flip_flop"):
        (job,) = check_command([f"task={task}", "model=mine"], tmp_path / "conf").jobs
        assert job.raw["model"]["decoder"] == job.raw["model"]["encoder"] and job.raw["model"]["cross"] is None
        assert job.folder.parts[-2] == "default"
        of_model = {key: job.raw["model"][key] for key in ("name", "mechanism", "cross", "ortho")}
        assert job.raw["model"] == compose_config([f"task={task}", "model=linear"])["model"] | of_model
    with pytest.raises(ConfigError) as error:
        check_command(["task=scan", "model=mine"], tmp_path / "conf")
    (problem,) = error.value.problems
    assert problem.endswith(f"add to the yaml of model mine: cross: {{_target_: {linear}}}")
    (job,) = check_command(["task=scan", "model=mine", "backbone.architecture=decoder_only"], tmp_path / "conf").jobs
    assert job.folder.parts[-2] == "architecture=decoder_only"
    (tmp_path / "conf/model/mine.yaml").write_text(f"{text}decoder: null\n")
    with pytest.raises(ConfigError) as error:
        check_command(["task=flip_flop", "model=mine"], tmp_path / "conf")
    (problem,) = error.value.problems
    assert problem.endswith("add to the yaml of model mine: decoder: ${.encoder}")
