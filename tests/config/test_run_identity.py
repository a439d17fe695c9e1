"""Run folders: same meaning, same folder; different meaning, different folder."""

import copy
import itertools
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.small_runs import jobs_of
from support.written_runs import a_run

from attnlab.config import interpolations
from attnlab.config.dotted_keys import MISSING, flatten
from attnlab.config.job_config import apply_values, compose_config
from attnlab.config.run_identity import (
    comparable,
    composition,
    differences,
    find_run_folder,
    identity,
    run_folder,
    run_label,
    run_tag,
)
from attnlab.config.shipped_files import CONF


def composed(*argv: str) -> dict[str, Any]:
    return jobs_of(argv)[0]


def tag(*argv: str) -> str:
    return run_tag(composed(*argv))


def test_labels_name_task_and_split() -> None:
    assert run_label(composed()) == "scan-length_cutoff-26"
    assert run_label(composed("task.length_cutoff=30")) == "scan-length_cutoff-30"
    assert run_label(composed("task.split=simple")) == "scan-simple"
    assert run_label(composed("task=sort_of_clevr")) == "sort_of_clevr"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "default"),
        (["backbone.d_model=64", "train.max_steps=1500"], "d_model=64,max_steps=1500"),
        (["train.max_steps=1500", "backbone.d_model=64"], "d_model=64,max_steps=1500"),
        (["model.ortho.weight=0.1"], "ortho.weight=0.1"),
        (["model.normalization.kind=rms"], "normalization.kind=rms"),
        (["optim.name=adamw"], "optim.name=adamw"),
        (["optim.lr=1e-5"], "lr=1e-5"),
        (["optim.lr=0.00001"], "lr=1e-5"),
        (["optim.clip_norm=null"], "clip_norm=null"),
        (["optim.betas=[0.9,0.98]"], "betas=0.9+0.98"),
        (["model.ortho.where=[encoder,cross]"], "ortho.where=encoder+cross"),
        (["model.ortho.where=[cross]"], "ortho.where=cross+"),
        (["model.ortho.where=[]", "model.ortho.weight=0"], "ortho.weight=0,ortho.where=+"),
        (["train.precision=bf16-mixed"], "precision=bf16-mixed"),
        (["backbone.final_norm=true"], "final_norm=true"),
        (["task.data_seed=3"], "data_seed=3"),
        (["+model.cross.eps=1e-4"], "model.cross.eps=0.0001"),
        (["task.split=simple"], "default"),
    ],
)
def test_tags_name_what_differs(argv: list[str], expected: str) -> None:
    assert tag(*argv) == expected


@pytest.mark.parametrize(
    "argv",
    [
        ["seed=5"],
        ["logger=csv"],
        ["logger.project=other"],
        ["trainer=cpu", "trainer.workers=3"],
        ["paths.data=/elsewhere", "paths.cache=/tmp/x"],
        ["optim.lr=0.001"],
        ["optim.clip_norm=5"],
        ["++optim.lr=1e-3"],
        ["backbone={d_model: 128}"],
        ["backbone.attention_dropout=0.1"],
        ["model.decoder=${model.encoder}"],
        ["task=scan", "model=linear_l2_ortho"],
        ["task.length_cutoff=30"],
        ["hydra.mode=RUN"],
    ],
)
def test_what_means_the_same_vanishes(argv: list[str]) -> None:
    assert tag(*argv) == "default"


def test_a_key_that_follows_counts_only_where_it_does_not_follow() -> None:
    assert tag("backbone.dropout=0.2") == "dropout=0.2"
    assert tag("backbone.dropout=0.2", "backbone.attention_dropout=0.2") == "dropout=0.2"
    assert tag("backbone.dropout=0.2", "backbone.attention_dropout=0.1") == "dropout=0.2,attention_dropout=0.1"
    assert tag("backbone.attention_dropout=0.2") == "attention_dropout=0.2"


def test_a_share_that_is_null_is_what_the_others_leave() -> None:
    """In the tag as in the network, so that a sweep over shares meets the plain model where it is the plain model."""
    model, rest = "model=transnormer_t2", "model.encoder.1.share=null"
    assert tag(model, rest) == "default"
    assert tag(model, "model.encoder.0.share=0.3", rest) == "encoder.0.share=0.3,encoder.1.share=0.7"
    none = "model.encoder.0.share=0"
    assert tag(model, none, rest) == tag(model, none, "model.encoder.1.share=1")
    assert differences(*map(comparable, (composed(model), composed(model, rest)))) == []


def test_a_model_in_a_folder_has_a_run_folder_by_its_name() -> None:
    config = composed("model=qin2022/vanilla_then_linear", "backbone.dropout=0.3", "paths.runs=/runs")
    assert run_folder(config) == Path("/runs/scan-length_cutoff-26/vanilla_then_linear/dropout=0.3/seed0")


def test_a_decoder_of_its_own_counts() -> None:
    softmax = "attnlab.attention.softmax.SoftmaxAttention"
    decoder_tag = tag(f"model.decoder=[{{share: 1.0, attention: {{_target_: {softmax}}}}}]")
    both = tag(f"model.encoder.0.attention._target_={softmax}", "model.ortho.weight=0.02")
    assert decoder_tag == f"decoder.0.attention._target_={softmax}"
    assert both == f"ortho.weight=0.02,encoder.0.attention._target_={softmax}"


def test_long_tags_are_cut_at_a_comma_and_hashed() -> None:
    argv = ["train.max_steps=1500", "train.batch_size=128", "train.checkpoint_every=250", "optim.schedule=one_cycle"]
    argv += [
        "backbone.dropout=0.05",
        "backbone.attention_dropout=0.15",
        "backbone.norm_placement=pre",
        "backbone.d_model=64",
        "backbone.n_heads=4",
        "backbone.d_feed_forward=128",
        "optim.lr=3e-3",
        "optim.clip_norm=3",
        "optim.betas=[0.9,0.98]",
        "backbone.n_layers=2",
    ]
    long = tag(*argv)
    head, _, digest = long.rpartition(",")
    # what matters most comes first; checkpoint_every changes no number
    assert head.startswith("d_model=64,n_heads=4,n_layers=2,d_feed_forward=128,") and "max_steps" not in head
    assert 120 < len(head) <= 160
    assert long == tag(*argv, "train.log_every=7", "train.eval_batch_size=3")
    assert len(digest) == 10
    assert long != tag(*argv, "train.accumulate=2")
    assert long == tag(*reversed(argv), "seed=3")


SWEPT = ("experiment=quickstart", "-m", "optim.lr=1e-3,3e-3", "backbone.d_feed_forward=32")


def test_a_tag_names_what_differs_from_the_preset_and_the_preset_but_no_setting_of_it() -> None:
    low, high = (run_tag(job).split(",") for job in jobs_of([*SWEPT]))
    assert low[:3] == ["d_feed_forward=32", "lr=0.001", "quickstart"] and high[:3] == [
        *low[:1],
        "lr=0.003",
        "quickstart",
    ]
    assert len(low) == len(high) == 4 and low[-1] != high[-1]
    assert run_tag(composed("experiment=quickstart", "debug=smoke", "optim.lr=1e-3")).startswith(
        "lr=0.001,quickstart,smoke,"
    )
    small = composed("experiment=park2024/table4_scan_small", "hydra.mode=RUN", "model=linear")
    assert re.fullmatch("park2024-table4_scan_small,[0-9a-f]{10}", run_tag(small))
    # a preset at the plain settings adds no name
    assert tag("experiment=park2024/table4_scan", "hydra.mode=RUN", "optim.lr=1e-4") == "lr=0.0001"


def test_a_run_is_found_under_every_name_of_its_setting(tmp_path: Path) -> None:
    """Asked for by a preset, by its settings one by one, and by another preset."""
    runs = f"paths.runs={tmp_path}"
    config = composed("experiment=quickstart", "optim.lr=1e-3", runs)
    alone = {**config, "experiment": None}
    assert comparable(alone) == comparable(config) and identity(alone) == identity(config)
    assert run_folder(alone) != run_folder(config) == find_run_folder(config)
    for first, second in ((alone, config), (config, alone)):
        folder = a_run(run_folder(first) / "", first)
        assert find_run_folder(first) == find_run_folder(second) == folder
        assert find_run_folder({**second, "seed": 7}) == folder.parent / "seed7"
        other = composed("experiment=quickstart", "optim.lr=1e-3", "optim.clip_norm=7", runs)
        assert find_run_folder(other) == run_folder(other)
        shutil.rmtree(tmp_path / "scan-length_cutoff-26")


def test_a_run_with_former_defaults_is_found_under_its_former_name(tmp_path: Path) -> None:
    """And not where that folder now holds a run of today's defaults."""
    words = ["task=mqar", f"paths.runs={tmp_path}"]
    today, former = composed(*words), composed(*words, "backbone.initialization=normal")
    assert run_folder(today).parent.name == "default"
    assert find_run_folder(former) == run_folder(former) != run_folder(today)
    run_folder(today).mkdir(parents=True)
    for written, found in ((former, run_folder(today)), (today, run_folder(former))):
        (run_folder(today) / "config.yaml").write_text(yaml.safe_dump(written))
        assert find_run_folder(former) == found
        assert find_run_folder(today) == run_folder(today)


def test_a_preset_that_is_gone_leaves_the_plain_name() -> None:
    config = composed("experiment=quickstart")
    assert run_tag({**config, "experiment": "gone"}) == run_tag({**config, "experiment": None})


VALUES = {
    "backbone.d_model": ["64", "128"],
    "backbone.dropout": ["0.0", "0.1", "0.2"],
    "backbone.attention_dropout": ["0.0", "0.1", "0.2"],
    "model.ortho.weight": ["0.01", "0.1"],
    "model.ortho.where": ["[encoder]", "[encoder,decoder]", "[encoder,cross]"],
    "optim.clip_norm": ["null", "5.0", "1"],
    "optim.betas": ["[0.9,0.999]", "[0.9,0.99]"],
    "task.split": ["simple", "length", "length_cutoff"],
    "train.test_curve_every": ["null", "1", "10"],
}


def test_different_configurations_never_share_a_folder_and_order_is_irrelevant() -> None:
    draw = random.Random(0)
    cells = draw.sample(list(itertools.product(*VALUES.values())), 25)
    folders: dict[Path, dict[str, Any]] = {}
    for cell in cells:
        overrides = [f"{key}={value}" for key, value in zip(VALUES, cell, strict=True)]
        config = composed(*overrides)
        draw.shuffle(overrides)
        assert run_folder(composed(*overrides)) == run_folder(config)
        assert folders.setdefault(run_folder(config), config) == config
    assert len(folders) == len(cells)


@pytest.mark.parametrize(
    ("task", "key", "texts"),
    [
        ("scan", "model.ortho.where", ["[encoder,decoder]", "[decoder,encoder]", "[decoder,encoder,decoder]"]),
        ("word_problem", "task.test_lengths", ["[64,160]", "[160,64]"]),
        ("mqar", "task.test_lengths", ["[64,128]", "[128,64]"]),
        ("mqar", "task.test_pairs", ["[4,8]", "[8,4]"]),
    ],
)
def test_a_list_that_is_a_set_has_one_order(task: str, key: str, texts: list[str]) -> None:
    """Also where an evaluation changes it."""
    words = [f"task={task}", "model=linear", "backbone.positions=rotary"]
    first, *others = [composed(*words, f"{key}={text}") for text in texts]
    assert others == [first] * len(others)
    changed = [apply_values(composed(*words), [f"{key}={text}"], [key]) for text in texts]
    assert [job.raw for job in changed] == [first] * len(texts)


def test_every_key_has_a_name_of_its_own() -> None:
    """Changing any one key of the plain configuration gives a tag no other key gives."""
    plain = compose_config([])
    seen: dict[str, str] = {}
    for key, value in flatten(comparable(plain)).items():
        changed = copy.deepcopy(plain)
        *sections, name = key.split(".")
        node: Any = changed
        for section in sections:
            node = node[int(section)] if isinstance(node, list) else node[section]
        node[name] = "changed" if not isinstance(value, str) else value + "%/=,' +"
        if key.startswith(("task.name", "model.name", "task.label", "task.split", "task.length_cutoff")):
            continue
        result = run_tag(changed)
        assert result not in seen
        assert not set(result) & set("/ '\"*?[]{}$\\:")
        seen[result] = key


def test_kinds_of_value_are_told_apart() -> None:
    texts = [
        None,
        "null",
        True,
        "true",
        1,
        "1",
        1.5,
        "1.5",
        [1],
        [],
        "",
        "+",
        [""],
        ["a", "b"],
        "a+b",
        ["a+b"],
        {"a": 1},
    ]
    tags, plain = set(), compose_config([])
    for value in texts:
        config = copy.deepcopy(plain)
        config["task"]["extra"] = value
        tags.add(run_tag(config))
    assert len(tags) == len(texts)


def test_expected_values_are_those_that_omegaconf_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs that differ in what interpolations refer to, in shapes, in classes and in nothing that counts."""
    swept = ["backbone.dropout=0.1,0.2", "optim.lr=0.1,0.2", "model.feed_forward=null,glu", "seed=0,1"]
    configs = jobs_of(["-m", "task=scan", "model=linear_l2_ortho", *swept])
    softmax = "model.cross._target_=attnlab.attention.softmax.SoftmaxAttention"
    configs += jobs_of(["task=scan", "model=linear_l2_ortho", softmax])
    configs += jobs_of(["-m", "task=scan", "model=linear_l2_ortho", "model.encoder.0.share=null,1"])
    shared = composition("scan", "linear_l2_ortho", CONF)
    expected = [shared.expected(config) for config in configs]
    monkeypatch.setattr(interpolations, "value_at", lambda *_: MISSING)
    assert expected == [shared.expected(config) for config in configs]
    assert 3 <= len(set(map(repr, expected))) < len(configs)


def test_tasks_and_models_own_different_keys() -> None:
    """What makes that so, for every pair."""
    for file in (CONF / "task").glob("*.yaml"):
        assert "model" not in yaml.safe_load(file.read_text()), file.name
    for file in (CONF / "model").rglob("*.yaml"):
        assert "@package" not in file.read_text(), file.name


def test_a_run_folder_has_label_model_tag_and_seed() -> None:
    config = composed("seed=4", "model=vanilla", "paths.runs=/runs", "optim.lr=0.01")
    assert run_folder(config) == Path("/runs/scan-length_cutoff-26/vanilla/lr=0.01/seed4")


def test_a_key_that_is_new_with_null_is_no_difference() -> None:
    old, new = {"optim": {"lr": 1.0, "gone": None}}, {"optim": {"lr": 1.0, "clip_value": None}}
    assert differences(old, new) == [] == differences(new, old)
    assert differences(old, {"optim": {"lr": None}}) == ["optim.lr: 1.0 -> null"]


def test_differences_are_readable() -> None:
    old, new = composed("seed=1"), composed("optim.betas=[0.8,0.9]", "optim.clip_norm=null", "+model.cross.eps=0.1")
    assert differences(comparable(old), comparable(new)) == [
        "model.cross.eps: 1e-05 -> 0.1",
        "optim.betas: [0.9,0.999] -> [0.8,0.9]",
        "optim.clip_norm: 5.0 -> null",
    ]
    assert differences({"a": 5}, {"a": 5.0}) == []
