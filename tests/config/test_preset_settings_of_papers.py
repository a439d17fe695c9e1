"""Presets of the papers: resolved settings beside the papers' tables.

Sources: Qin et al. 2022, table 13, section 5.1 and appendix E; src/config.py and src/models of github
pkuzengqi/Skyformer; layers and architectures of github OpenNLPLab/fairseq-evo; linear_attention.py of github
google-research/long-range-arena. Park & Kim 2024 name the settings of earlier work: run.sh and model.py of the
sort-of-CLEVR code of Mittal et al. 2022 for it, main.py and sweeps of Csordas et al. 2021 for the other tasks.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from support.model_cases import SPECS
from support.preset_files import presets_with_reports, text_of
from support.slow_cases import slow_except
from support.small_runs import jobs_of

from attnlab.config.dotted_keys import value_at
from attnlab.config.job_config import compose_config
from attnlab.config.schema import Config
from attnlab.config.validation.type_check import build
from attnlab.nn.network_parts import count_parameters
from attnlab.tasks.kinds.base import build_network

ONE_PLUS_ELU = {
    "_target_": "attnlab.attention.linear.LinearAttention",
    "feature_map": "one_plus_elu",
    "scale_queries": False,
    "eps": 1e-6,
}

TABLE_13 = [
    ("task.length", 512, 512),
    ("backbone.n_layers", 6, 12),
    ("backbone.d_model", 512, 768),
    ("backbone.n_heads", 8, 12),
    ("backbone.d_feed_forward", 1365, 2048),  # printed the other way round; the code has int(8/3 * width)
    ("model.feed_forward", "glu", "glu"),
    ("train.batch_size", 128, 512),
    ("train.max_steps", 100_000, 50_000),
    ("optim.warmup_steps", 8_000, 3_000),
    ("optim.lr", 5e-4, 5e-4),
    ("optim.schedule", "inverse_sqrt", "linear"),
    ("optim.name", "adamw", "adamw"),
    ("optim.eps", 1e-8, 1e-6),
    ("optim.betas", [0.9, 0.98], [0.9, 0.98]),
    ("optim.weight_decay", 0.01, 0.01),
    ("optim.clip_norm", None, None),
    ("backbone.dropout", 0.1, 0.1),
    ("backbone.feed_forward_dropout", 0.0, 0.0),  # fairseq's activation_dropout
    ("backbone.initialization", "xavier", "normal"),  # nearest to fairseq's transformer_lm; init_bert_params of RoBERTa
]
"""key, causal and masked value of the row of T1"""
ATTENTION_DROPOUT = {"vanilla": 0.1, "linear_then_vanilla": 0.1, "vanilla_then_linear": 0.1}
"""of the masked models; 0 for the others: "Attention dropout is only used for vanilla attention" """

APPENDIX_E = [
    ("lra_text", 16, 1e-4, 500),
    ("lra_listops", 32, 1e-4, 500),
    ("lra_retrieval", 16, 2e-4, 1000),
    ("lra_pathfinder", 128, 2e-4, 500),
    ("lra_image", 256, 1e-4, 50),
]
"""task, batch and learning rate, and steps between validations in Skyformer's code (eval_frequency)"""
SKYFORMERS_CODE = {
    "vanilla": (0.1, {}),
    "kernelized": (0.1, {}),
    "nystromformer_128": (0.0, {"n_landmarks": 128, "pinv_iterations": 6, "conv_kernel": None}),
    "linformer_128": (
        0.0,
        {"projected_length": 128, "share_heads": False, "share_key_value": True, "projections": "fixed"},
    ),
    "informer_128": (0.0, {"factor": None, "budget": 128, "mean_over": "sequence"}),
    "performer_128": (
        0.0,
        {
            "kernel": "softmax",
            "n_features": 128,
            "orthogonal": True,
            "scaled_twice": True,
            "key_stabilizer": "sequence",
            "detach_stabilizer": False,
            "redraw_every": None,
            "key_sum_eps": 0.0,
        },
    ),
    "reformer": (0.0, {"n_hashes": 2, "chunk_size": 64}),
    "bigbird": (0.0, {"block_size": 64, "random_blocks": 3}),
    "skyformer": (0.0, {"n_landmarks": 128, "inverse_iterations": 6, "ridge": 0.1, "sampling": "uniform"}),
}
"""dropout of attention weights, and options, of the rows of table 6 that are Skyformer's"""

OUTPUT_BIAS, WORDS = -267_737, 7 * 512
GAINS, ROBERTA = 13 * 2 * 512, 2 * 768 + 2 * 768
PARAMETERS = [
    ("table4_causal", "vanilla", 156.00, [OUTPUT_BIAS, WORDS]),
    ("table4_causal", "linear_katharopoulos", 156.00, [OUTPUT_BIAS, WORDS]),
    ("table4_causal", "performer", 156.00, [OUTPUT_BIAS, WORDS]),
    ("table4_causal", "transnormer_t1", 155.99, [OUTPUT_BIAS, WORDS, -GAINS]),
    ("table4_causal", "transnormer_t2", 155.99, [OUTPUT_BIAS, WORDS, -GAINS]),
    # ScaleNorm for a layer norm, and two rotary vectors, in each of 10 layers
    ("table4_causal", "flash_quad", 153.51, [OUTPUT_BIAS, WORDS, 10 * (1 - 2 * 512 + 2 * 128)]),
    # and a table of 2 * 512 - 1 distances for 2 * 64 - 1
    ("table4_causal", "flash", 153.52, [OUTPUT_BIAS, WORDS, 10 * (1 - 2 * 512 + 2 * 128), 10 * (1_023 - 127)]),
    # two maps of relative positions, two vectors and the bias of the dynamic projection (8 heads, rank 1) in 6 layers
    ("table4_causal", "long_short", 159.46, [WORDS + 7, 6 * (2 * (512 * 512 + 512) + 2 * 512 + 8)]),
    ("table5_pretraining", "vanilla", 124.70, [ROBERTA]),
    ("table5_pretraining", "performer", 124.70, [ROBERTA]),
    ("table5_pretraining", "flash_quad", 127.11, [ROBERTA, -2 * 768, 24 * 2 * 128]),
    ("table5_pretraining", "flash", 127.12, [ROBERTA, -2 * 768, 24 * 2 * 128, 24 * (1_023 - 127)]),
    # the bias of the dynamic projection: 12 heads, rank 32
    ("table5_pretraining", "long_short", 128.28, [ROBERTA, 12 * 12 * 32]),
    ("table5_pretraining", "transnormer_t1", 124.67, [ROBERTA, -24 * 2 * 768]),
    ("table5_pretraining", "transnormer_t2", 124.67, [ROBERTA, -24 * 2 * 768]),
]
"""preset, row, published million parameters, and what the authors' code has more than ours"""
SIZES = {"table4_causal": ("flip_flop", 267_737), "table5_pretraining": ("wikitext103_masked", 50_265)}
OF_PRESET = {
    preset: replace(SPECS[task], input_vocabulary=words, max_input_length=512)
    for preset, (task, words) in SIZES.items()
}

OF_GOOGLES_LONG_RANGE_ARENA = {
    ("image", "vanilla"): (128, 64, 8, 1, 128, 0.3, 0.2),
    ("image", "linear_katharopoulos"): (128, 64, 8, 1, 128, 0.3, 0.2),
    ("image", "performer_relu"): (128, 64, 8, 1, 128, 0.3, 0.2),
    ("pathfinder", "vanilla"): (32, 16, 4, 4, 32, 0.2, 0.1),
    ("pathfinder", "linear_katharopoulos"): (128, 64, 2, 1, 128, 0.2, 0.1),
    ("pathfinder", "performer_relu"): (32, 16, 8, 4, 32, 0.2, 0.1),
}
"""task and row: emb_dim, qkv_dim, num_heads, num_layers, mlp_dim, dropout_rate, attention_dropout_rate of
lra_benchmarks/image/configs at cd31e5c; the Transformer's since ee6649e of 29 August 2021"""

SORT_OF_CLEVR_OF_MITTAL_ET_AL = {
    "backbone.d_model": 256,
    "backbone.n_heads": 4,
    "backbone.n_layers": 4,  # one layer, applied four times
    "backbone.share_layers": True,
    "backbone.d_feed_forward": 512,
    "backbone.dropout": 0.1,
    "backbone.attention_dropout": 0.0,
    "backbone.norm_placement": "pre",
    "backbone.final_norm": False,
    "optim.name": "adam",
    "optim.lr": 1e-4,
    "optim.schedule": "constant",
    "optim.clip_norm": None,
    "train.max_steps": 459_300,  # 100 epochs of 1,531 batches of each kind of question
    "train.batch_size": 64,
    "train.paper_rule": "best_validation_per_group",
}
TASKS_OF_CSORDAS_ET_AL = {
    "scan": (128, 3, 256, 1e-3, 5.0, 256, 50_000),
    "mathematics": (512, 6, 2048, 1e-4, 0.1, 256, 50_000),
    "pcfg": (512, 6, 2048, 1e-4, 1.0, 64, 300_000),
}
"""width, layers of encoder and decoder, feed-forward width, learning rate, clip norm, batch, steps"""
PARK2024 = {
    "sort_of_clevr": [
        "table1_instability",
        "table2_sort_of_clevr",
        "control_pixels",
        "figure2_norms",
        "figure3_value_similarity",
        "figure5_ortho_weight",
        "figure6_value_similarity_after",
    ],
    "scan": ["table4_scan", "ablation_ortho", "ablation_normalization"],
    "mathematics": ["table5_add_or_sub", "table6_place_value", "ablation_precision"],
    "pcfg": ["table7_pcfg", "ablation_precision_pcfg"],
}
ROWS_OF_PARK2024 = [(task, preset) for task, actual in PARK2024.items() for preset in actual]

QIN2022 = presets_with_reports("qin2022")


@cache
def jobs(preset: str, *words: str) -> dict[str, dict[str, Any]]:
    """The complete configurations of a preset's jobs by model."""
    return {job["model"]["name"]: job for job in jobs_of([f"experiment={preset}", *words])}


def attentions(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Every attention that a configuration names."""
    model = job["model"]
    return [group["attention"] for slot in ("encoder", "decoder") for group in model[slot]] + [model["cross"]]


@pytest.mark.parametrize(("preset", "number"), [("qin2022/table4_causal", 1), ("qin2022/table5_pretraining", 2)])
def test_language_models_have_the_settings_of_table_13(preset: str, number: int) -> None:
    job = jobs(preset)["transnormer_t1"]
    assert {row[0]: value_at(job, row[0]) for row in TABLE_13} == {row[0]: row[number] for row in TABLE_13}
    layers = {name: item["backbone"]["n_layers"] for name, item in jobs(preset).items()}
    assert layers.pop("flash") == layers.pop("flash_quad") == (10, 24)[number - 1]
    assert set(layers.values()) == {TABLE_13[1][number]}


def test_attention_dropout_is_used_for_vanilla_attention_only() -> None:
    causal, masked = jobs("qin2022/table4_causal"), jobs("qin2022/table5_pretraining")
    halves = jobs("qin2022/table3_early_late", "model=qin2022/linear_then_vanilla,qin2022/vanilla_then_linear")
    assert {job["backbone"]["attention_dropout"] for job in causal.values()} == {0.0}
    collected = {name: job["backbone"]["attention_dropout"] for name, job in (masked | halves).items()}
    assert collected == {name: ATTENTION_DROPOUT.get(name, 0.0) for name in collected} and len(collected) == 10


def test_every_masked_table_takes_the_settings_that_depend_on_the_model() -> None:
    """By their texts, GLUE too."""
    wanted = text_of("qin2022/_by_model")["backbone"]
    others = {"qin2022/table4_causal", "qin2022/table6_lra"}
    for name in set(QIN2022) - others:
        backbone = text_of(name)["backbone"]
        for key in ("attention_dropout", "norm_placement", "final_norm"):
            assert backbone[key] == wanted[key], f"{name}: {key}"
    assert others < set(QIN2022) and len(QIN2022) > 10


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("qin2022/table1_denominator", ("model=qin2022/linear_without_denominator",)),
        ("qin2022/table3_early_late", ("model=qin2022/linear_then_vanilla,qin2022/vanilla_then_linear",)),
        pytest.param("qin2022/table4_causal", (), marks=pytest.mark.slow),
        pytest.param("qin2022/table5_pretraining", (), marks=pytest.mark.slow),
        ("lra_google/text", ()),
    ],
)
def test_one_plus_elu_is_that_of_katharopoulos_et_al(preset: str, words: tuple[str, ...]) -> None:
    """In every layer of every model with linear attention, halves included (equation 6: queries are not scaled)."""
    linear = [
        node
        for job in jobs(preset, *words).values()
        for node in attentions(job)
        if "LinearAttention" in node["_target_"]
    ]
    assert linear and all(node.items() >= ONE_PLUS_ELU.items() for node in linear)


def test_no_preset_takes_park_and_kims_form_for_it() -> None:
    """By their texts: neither in a sweep nor as the model of a single run."""
    names = [
        *QIN2022,
        "qin2022/_masked",
        "qin2022/_glue",
        *(f"lra_google/{task.removeprefix('lra_')}" for task, *_ in APPENDIX_E),
    ]
    for name in names:
        text = text_of(name)
        swept = str(text.get("hydra", {}).get("sweeper", {}).get("params", {}).get("model", "")).split(",")
        chosen = [entry["override /model"] for entry in text["defaults"] if "override /model" in entry]
        assert "linear" not in [*swept, *chosen], name
    assert (
        "qin2022/linear_katharopoulos" in text_of("qin2022/table1_denominator")["hydra"]["sweeper"]["params"]["model"]
    )


def test_a_network_without_the_denominator_has_none() -> None:
    job = jobs("qin2022/table1_denominator", "model=qin2022/linear_without_denominator")["linear_without_denominator"]
    assert job["model"]["normalization"] == {
        "kind": "none",
        "placement": "after_feature_map",
        "denominator": False,
        "eps": None,
        "only": None,
    }


def test_long_range_arena_has_the_settings_of_appendix_e() -> None:
    collected = []
    for job in jobs_of(["experiment=qin2022/table6_lra", "model=transnormer_t1", "seed=0"]):
        collected.append(
            (job["task"]["name"], job["train"]["batch_size"], job["optim"]["lr"], job["train"]["validate_every"])
        )
        backbone = job["backbone"]
        assert [backbone[key] for key in ("n_layers", "d_model", "n_heads", "d_feed_forward")] == [2, 64, 2, 85]
        assert job["model"]["feed_forward"] == "glu" and backbone["attention_dropout"] == 0.0
        assert job["train"]["max_steps"] == 50_000
    assert collected == APPENDIX_E


def test_rows_from_skyformer_have_its_attentions() -> None:
    swept = text_of("qin2022/table6_lra")["hydra"]["sweeper"]["params"]["model"].split(",")
    chosen = [model for model in swept if model.rpartition("/")[2] in SKYFORMERS_CODE]
    result = jobs("qin2022/table6_lra", "task=lra_text", "seed=0", f"model={','.join(chosen)}")
    assert list(result) == list(SKYFORMERS_CODE)
    for name, (dropout, options) in SKYFORMERS_CODE.items():
        assert result[name]["backbone"]["attention_dropout"] == dropout, name
        for node in attentions(result[name]):
            assert {key: node[key] for key in options} == options, name


@pytest.mark.parametrize("task", ["image", "pathfinder"])
def test_pictures_of_googles_long_range_arena_have_the_sizes_of_its_repository(task: str) -> None:
    keys = ["d_model", "d_attention", "n_heads", "n_layers", "d_feed_forward", "dropout", "attention_dropout"]
    rows = jobs(f"lra_google/{task}", "model=vanilla,qin2022/linear_katharopoulos,performer_relu", "-m")
    actual = {(task, row): tuple(job["backbone"][key] for key in keys) for row, job in rows.items()}
    assert actual == {cell: sizes for cell, sizes in OF_GOOGLES_LONG_RANGE_ARENA.items() if cell[0] == task}
    assert all(job["backbone"]["d_classifier"] == job["backbone"]["d_feed_forward"] for job in rows.values())


@pytest.mark.parametrize(("preset", "row", "published", "differences"), PARAMETERS)
def test_counts_differ_from_the_published_by_what_the_header_says(
    preset: str, row: str, published: float, differences: list[int]
) -> None:
    """To the last printed digit; weights on the meta device have no numbers."""
    config = build(Config, jobs(f"qin2022/{preset}")[row])
    with torch.device("meta"):
        counted = count_parameters(build_network(config.backbone, config.model, OF_PRESET[preset]))
    assert round((counted + sum(differences)) / 1e6, 2) == published


@pytest.mark.parametrize(
    ("task", "preset"),
    slow_except(
        ROWS_OF_PARK2024, [row for row in ROWS_OF_PARK2024 if row[1] in ("table2_sort_of_clevr", "table4_scan")]
    ),
)
def test_park_and_kims_presets_have_the_settings_of_the_work_they_follow(task: str, preset: str) -> None:
    """Every job has them, whatever the preset sweeps but for the seed."""
    expected: dict[str, Any] = SORT_OF_CLEVR_OF_MITTAL_ET_AL
    if task != "sort_of_clevr":
        keys = "backbone.d_model backbone.n_layers backbone.d_feed_forward optim.lr optim.clip_norm train.batch_size"
        of_task = dict(zip([*keys.split(), "train.max_steps"], TASKS_OF_CSORDAS_ET_AL[task], strict=True))
        expected = of_task | {
            "backbone.n_heads": 8,
            "backbone.n_decoder_layers": None,
            "backbone.dropout": 0.1,
            "backbone.embedding_dropout": 0.1,
            "backbone.norm_placement": "post",
            "backbone.tied_output": True,
            "optim.name": "adam",
            "optim.betas": [0.9, 0.999],
            "optim.schedule": "constant",
        }
    actual = jobs_of([f"experiment=park2024/{preset}", "seed=0"])
    assert {job["task"]["name"] for job in actual} == {task}
    for job in actual:
        assert {key: value_at(job, key) for key in expected} == expected


@pytest.mark.parametrize("task", ["cogs", "cfq"])
def test_tasks_without_a_preset_of_park_and_kim_have_the_settings_of_csordas_et_al(task: str) -> None:
    keys = [
        "backbone.d_model",
        "backbone.n_heads",
        "backbone.n_layers",
        "backbone.d_feed_forward",
        "backbone.dropout",
        "optim.schedule",
        "optim.clip_norm",
        "train.batch_size",
        "train.max_steps",
        "train.selection",
    ]
    expected = {
        "cogs": [512, 4, 2, 512, 0.1, "constant", 1.0, 128, 50_000, "last_step"],
        # 35,000 of their 50,000 steps are in their tables
        "cfq": [128, 16, 2, 256, 0.1, "inverse_sqrt", 1.0, 4096, 35_000, "last_step"],
    }
    job = compose_config([f"task={task}"])
    assert [value_at(job, key) for key in keys] == expected[task]
    # the peak of their schedule, 0.9 / sqrt(d_model warmup)
    assert job["optim"]["lr"] == {"cogs": 1e-4, "cfq": pytest.approx(0.9 / (128 * 4000) ** 0.5, rel=0.01)}[task]
