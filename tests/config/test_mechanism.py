"""A model's yaml names its mechanism once; slots and presets refer to it, and no row has a name without its class."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.composed_configs import IN_FOLDERS, MODELS
from support.small_runs import jobs_of

from attnlab.config.conf_files import group_choices
from attnlab.config.fill_defaults import model_yaml
from attnlab.config.problem import ConfigError
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.config.targets import attention_nodes, attention_sections

FRAMES = ("claims/recall_norms", "claims/recall_state")
"""presets that put layers around the mechanism of the chosen model"""
CAUSAL = [
    *("delta_rule", "negative_delta_rule", "retention", "gated_linear", "vanilla", "based", "performer", "cosformer"),
    *("transnormer_t2", "inline", "threshold_relative", "long_short", "qin2022/linear_katharopoulos"),
]


def problems(*words: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        check_command(words)
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize("name", [*MODELS, *IN_FOLDERS])
def test_a_yaml_names_its_mechanism_once_and_has_it_in_a_slot(name: str) -> None:
    model = model_yaml(name)
    classes = [node["_target_"] for _, _, node in attention_nodes(model)]
    assert model["mechanism"]["_target_"] in classes
    text = (CONF / f"model/{name}.yaml").read_text()
    assert text.count(model["mechanism"]["_target_"]) <= 1


def test_no_preset_but_a_named_frame_sets_slots_and_frames_refer_to_the_mechanism() -> None:
    """A preset that fixes the classes of all slots would train them under the name of any model."""
    framed = set()
    for choice in group_choices()["experiment"]:
        model = (yaml.safe_load((CONF / f"experiment/{choice}.yaml").read_text()) or {}).get("model") or {}
        nodes = list(attention_sections(model)) if isinstance(model, dict) else []
        # options alone are those of the chosen model's mechanism
        nodes = [key for key, node in nodes if "_target_" in node]
        slots = [slot for slot in ("encoder", "decoder", "cross") if slot in model]
        if nodes or slots:
            framed.add(choice)
            assert "${model.mechanism}" in str(model), choice
    assert framed == set(FRAMES)


@pytest.mark.parametrize("preset", FRAMES)
@pytest.mark.parametrize("model", CAUSAL)
def test_a_frame_trains_the_mechanism_of_the_chosen_model(preset: str, model: str) -> None:
    (config,) = jobs_of([f"experiment={preset}", f"model={model}", "seed=1", "backbone.d_model=64"])
    frame, inner = (group["attention"] for group in config["model"]["decoder"])
    assert inner == config["model"]["mechanism"] != frame
    own = model_yaml(model)["mechanism"]
    assert {name: inner[name] for name in own} == own


FIXED = """# @package _global_
defaults: [{override /task: mqar}, {override /model: linear}]
model:
  encoder:
    - {share: 0.5, attention: {_target_: attnlab.attention.recurrent.retention.RetentionAttention}}
    - {share: 0.5, attention: {_target_: attnlab.attention.linear.LinearAttention}}
"""


def test_a_row_without_the_class_of_its_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/fixed.yaml").write_text(FIXED)
    monkeypatch.chdir(tmp_path)
    assert check_command(["experiment=fixed"]).jobs
    (problem,) = problems("experiment=fixed", "model=delta_rule")
    for named in ("model.encoder.0.attention=", "DeltaRule", "experiment=fixed", "${model.mechanism}"):
        assert named in problem
    softmax = "attnlab.attention.softmax.SoftmaxAttention"
    # in one slot of several, and as the whole mechanism
    assert check_command([f"model.cross._target_={softmax}"]).jobs
    (problem,) = problems(
        f"model.mechanism={{_target_: {softmax}}}", "model.ortho.weight=0", "model.normalization.kind=none"
    )
    assert "LinearAttention" in problem and "linear_l2_ortho" in problem


def test_an_option_of_the_mechanism_reaches_every_slot_and_an_option_of_a_slot_that_slot() -> None:
    def options(*words: str) -> list[Any]:
        (config,) = jobs_of(["model=linear", *words])
        return [node["chunk_size"] for _, _, node in attention_nodes(config["model"])]

    assert options() == [64, 64, 64]
    assert options("++model.mechanism.chunk_size=32") == [32, 32, 32]
    assert options("++model.cross.chunk_size=32") == [64, 64, 32]
    # the decoder follows the encoder
    assert options("++model.encoder.0.attention.chunk_size=32", "++model.mechanism.chunk_size=16") == [32, 32, 16]


def test_an_option_of_the_mechanism_that_no_attention_in_use_has_is_refused() -> None:
    words = ["task=wikitext2", "model=long_short"]
    (problem,) = problems(*words, "++model.mechanism.window_size=3")
    assert "model.mechanism.window_size=3" in problem and "model.decoder.0.attention.window_size" in problem
    assert check_command([*words, "++model.decoder.0.attention.window_size=3"]).jobs


@pytest.mark.parametrize("name", ["rwkv", "RWKV-7", "mamba", "hyena"])
def test_a_mechanism_that_is_not_here_is_said_with_one_of_its_kind(name: str) -> None:
    (problem,) = problems(f"model={name}")
    kin = re.search(r"not in attnlab, (\w+) is of its kind; docs/models.md", problem)
    assert kin and kin[1] in group_choices()["model"]


def test_a_yaml_without_a_mechanism_needs_slots_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf/model").mkdir(parents=True)
    (tmp_path / "conf/model/empty.yaml").write_text("defaults: [_base, _self_]\nname: empty\n")
    monkeypatch.chdir(tmp_path)
    assert any("model.mechanism" in problem and "missing" in problem for problem in problems("model=empty"))
