"""Composition of the configuration: choices of groups, merged yaml files, resolvers."""

from pathlib import Path

from omegaconf import OmegaConf

from attnlab.config.compose import CONF, compose_unresolved
from attnlab.config.conf_files import choice_named, group_choices, merged_yaml, unresolved
from attnlab.config.job_config import compose_config


def test_files_for_defaults_lists_are_no_choices_and_models_in_folders_are(tmp_path: Path) -> None:
    for name in ("model/plain.yaml", "model/_part.yaml", "model/paper/mixed.yaml", "model/paper/_part.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert group_choices(tmp_path) == {"model": ["paper/mixed", "plain"]}
    assert choice_named("model", "mixed", tmp_path) == "paper/mixed"
    assert choice_named("model", "plain", tmp_path) == "plain"


def test_yamls_of_tasks_are_merged_as_hydra_merges_them() -> None:
    """Of models: test_pairs_are_composed_of_their_two_files."""
    for name in group_choices()["task"]:
        merged, (composed, _) = unresolved(merged_yaml("task", name)), compose_unresolved([f"task={name}"])
        assert merged == {key: composed[key] for key in merged}, name


def test_a_defaults_list_is_merged_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    texts = {
        "_base": "{a: 0, b: 0, c: 0}",
        "last": "{defaults: [_base, _self_], a: 1}",
        "first": "{defaults: [_base], a: 1}",
    }
    texts["no_such"] = "{defaults: [_base, /model/_part@_here_, _self_, {/model: 3}], a: 1}"
    for name, text in texts.items():
        (tmp_path / "model" / f"{name}.yaml").write_text(text)
    assert (
        merged_yaml("model", "last", tmp_path) == merged_yaml("model", "no_such", tmp_path) == {"a": 1, "b": 0, "c": 0}
    )
    assert merged_yaml("model", "first", tmp_path) == {"a": 0, "b": 0, "c": 0}


def test_a_value_by_case() -> None:
    node = OmegaConf.create({"kind": "glu", "width": "${choose:${kind},{glu:85,relu:64},128}"})
    widths = []
    for node.kind in ("glu", "relu", "gelu", None):
        widths.append(node.width)
    assert widths == [85, 64, 128, 128]


def test_composition_works_inside_a_running_hydra_job() -> None:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with initialize_config_dir(str(CONF), version_base="1.3"):
        running = GlobalHydra.instance().hydra
        assert compose_config(["seed=7"])["seed"] == 7
        assert GlobalHydra.instance().hydra is running
    assert not GlobalHydra.instance().is_initialized()
