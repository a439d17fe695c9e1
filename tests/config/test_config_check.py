"""Wrong command lines get every problem in one message: the key, the allowed values, the nearest word."""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.composed_configs import composed
from support.small_runs import checked, jobs_of

from attnlab.config.conf_files import group_choices, task_yaml
from attnlab.config.fill_defaults import completed
from attnlab.config.job_config import apply_values, check_config, compose_config
from attnlab.config.nearest_word import OTHER_NAMES
from attnlab.config.problem import ConfigError
from attnlab.config.schema import (
    Backbone,
    Config,
    LayerGroup,
    LoggerOptions,
    Optim,
    Ortho,
    Train,
    TrainerOptions,
    schema_keys,
)
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.config.targets import attention_nodes, attention_options, read_signature
from attnlab.config.validation.type_check import conform, hints

LINEAR, SOFTMAX = "attnlab.attention.linear.LinearAttention", "attnlab.attention.softmax.SoftmaxAttention"

OTHER_MODELS = f" and {len(group_choices()['model']) - 8} more"
"""where a message lists the eight nearest"""

WRONG = {
    # Keys.
    "backbone.n_head=4": ["backbone.n_head=4: unknown key; nearest: backbone.n_heads", "d_model, n_heads"],
    "lr=0.1": ["lr=0.1: unknown key; nearest: optim.lr"],
    "train.lr=0.1": ["train.lr=0.1: unknown key; nearest: optim.lr", "allowed in train: max_steps"],
    "modle=linear": ["modle=linear: unknown key; nearest: model; groups: debug, experiment"],
    "optimm.lr=1": ["optimm.lr=1: unknown key; nearest: optim.lr"],
    "+foo=3": ["foo=3: unknown key", "allowed here: seed, task"],
    "++backbone.foo=2": ["backbone.foo=2: unknown key", "allowed here: d_model"],
    "+train.max_step=5": ["train.max_step=5: unknown key; nearest: train.max_steps"],
    "+seed=3": ["seed exists already; drop the plus: seed=3"],
    "+train.validate_every=5": ["exists already; drop the plus"],
    "~backbone.dropout": ["~backbone.dropout: cannot be removed"],
    "~nothing": ["~nothing: unknown key"],
    "backbone=3": ["backbone=3: backbone is a section, not a value", "d_model"],
    "backbone={d_modle: 3}": ["backbone.d_modle=3: unknown key; nearest: backbone.d_model"],
    "model.encoder.3.share=0.1": ["model.encoder.3.share=0.1: unknown key"],
    "model.decoder.0.share=0.5": ["model.decoder follows model.encoder"],
    # Groups.
    "model=linaer": ["model=linaer: no such choice; nearest: linear; model: ", ", linear_l2, ", OTHER_MODELS],
    "model=null": ["model=null: no such choice"],
    "task/scan=x": ["task/scan=x: unknown key; nearest: task=scan"],
    "experiment=quikstart": ["experiment=quikstart: no such choice; nearest: quickstart"],
    "+experiment=quickstart": ["drop the plus: experiment=quickstart"],
    "~model": ["~model: a group cannot be removed"],
    "~debug": ["write debug=null"],
    "hydra/launcher=jobli": ["no such choice; nearest: joblib; hydra/launcher: basic, auto, joblib"],
    "hydra/lancher=joblib": ["unknown key; nearest: hydra/launcher"],
    "hydra.run.dir=/tmp/x": ["hydra.run.dir=/tmp/x: not offered: a run has a folder named by its configuration"],
    "hydra/launcher=slrum": ["nearest: submitit_slurm"],
    "--model vanilla": ["--model: unknown flag; nearest: model=..."],
    "optim.lrate=1e-3": ["optim.lrate=0.001: unknown key; nearest: optim.lr"],
    "model.encoder.0.attention.dropout=0.5": ["dropout=0.5: set by backbone.attention_dropout, not here"],
    "backbone.positions=attnlab.attention.positions.rotary.Rotation": ["expected a class that extends", "Positions"],
    # Words.
    "train.max_steps 10": ["train.max_steps: expected key=value", "10: expected key=value"],
    "scan": ["scan: expected key=value; nearest: task=scan"],
    "=3": ["=3: expected key=value"],
    "optim.betas=[0.9": ["optim.betas=[0.9: brackets [] do not match"],
    "seed=0,1": ["seed=0,1: several values need -m (a sweep): python train.py -m ... seed=0,1"],
    "optim.betas=0.9,0.99": [
        "optim.betas=0.9,0.99: several values need -m",
        "one list is written optim.betas=[0.9,0.99]",
    ],
    "seed=range(0,3)": ["seed=0,1,2: several values need -m"],
    "logger=csv logger=tensorboard": ["logger=tensorboard: no such choice; ", "logger is already set by logger=csv"],
    "model=linear model=lstm": ["model=lstm: no such choice; ", "model is already set by model=linear"],
    "seed=0 seed=1": ["seed=1: seed is already set by seed=0; give it once"],
    "--sede": ["--sede: unknown flag", "--multirun"],
    "--mutlirun": ["--mutlirun: unknown flag; nearest: --multirun"],
    "--lr=3": ["--lr=3: unknown flag; nearest: optim.lr=3"],
    "--batch-size 32": ["--batch-size: unknown flag; nearest: train.batch_size=..."],
    "--modle=linear": ["--modle=linear: unknown flag; nearest: model=linear"],
    "--train.max_stps=3": ["train.max_stps=3: unknown key; nearest: train.max_steps"],
    "--task=scna --cfg=job": ["task=scna: no such choice; nearest: scan"],
    "-m train.log_every=1,5": ["train.log_every changes no number, so these jobs would be one run"],
    "task=glue task.name=colaa": ["task.dataset=colaa: expected one of cola", "nearest: cola"],
    "experiment=mad/baseline task.name=compresion": [
        "task.dataset=compresion: expected one of",
        "nearest: compression",
    ],
    "--plan=1": ["--plan=1: --plan takes no value; write --plan"],
    "-m --plan=true seed=0,1": ["--plan=true: --plan takes no value; write --plan"],
    "--multirun=x": ["--multirun=x: --multirun takes no value"],
    "--info": ["--info: not offered: --cfg all prints Hydra's settings"],
    "--hydra-help": ["--hydra-help: not offered: --help lists flags"],
    "-sc install=bash": ["-sc: not offered: --help lists what can be completed"],
    "-m seed=range(0,1e9)": ["seed=range(0,1e9): more than 100,000 jobs"],
    "-m seed=range(0,1000) train.log_every=range(1,1001)": ["1,000,000 jobs: more than 100,000"],
    "seed=range(0,1000)": ["seed=0,1,2,3,4,5,6,7,8,9,10,11,... (1000 in all): several values need -m"],
    "--config-dir=mine": ["--config-dir=mine: not offered: what is checked here are the yamls of conf/"],
    "seed=0,1 --cfg job": ["seed=0,1: --cfg shows the configuration of one run; give one value"],
    "train.accumulate=1000000000": ["expected a whole number >= 1; more than 100,000 is taken for a slip"],
    "-m model=performer,performer_l2 model.cross.detach_stabilizer=true": [
        "not listed in the yaml files; set it with ++model.cross.detach_stabilizer=true"
    ],
    "--package task=pcfg --plan": ["--package: needs a value, such as --package optim", "write --cfg job too"],
    "train.precision=16-mixed trainer.device=cpu": ["train.precision=16-mixed with trainer.device=cpu: needs a GPU"],
    "--resolve": ["--resolve: only with --cfg"],
    "--cfg": ["--cfg: needs a value, such as --cfg job"],
    "--cfg job --plan": ["--plan with --cfg: one or the other"],
    "-m trainer.threads=1,2": ["trainer.threads changes no number, so these jobs would be one run"],
    "-m logger.project=a,b": ["logger.project changes no number, so these jobs would be one run"],
    "optim.lr=interval(1e-4,1e-2)": ["optim.lr=interval(1e-4,1e-2): an interval is searched, with -m and"],
    "-m seed=range(0,3000) train.log_evry=3": ["train.log_evry=3: unknown key; nearest: train.log_every"],
    "experiment=park2024/table4_scan report.highlight=linear": ["set it with ++report.highlight=linear"],
    "experiment=park2024/table4_scan ++report.columns.iid=[a]": [
        "report.columns.iid=[a]: expected a metric, or metric: ... and where: ..."
    ],
    "--cfg jb": ["--cfg jb: expected one of job, hydra, all"],
    "-m --cfg job": ["-m with --cfg"],
    "-m seed=0,1,0": ["seed=0,1,0: 0 comes twice"],
    "-m seed=range(3,0)": ["seed=range(3,0): a sweep without values"],
    "-m model=glob(x*)": ["matches no choice; model: base_conv, ", OTHER_MODELS],
    # Types.
    "backbone.n_heads=three": ["backbone.n_heads=three: expected a whole number >= 1"],
    "backbone.n_heads=0": ["backbone.n_heads=0: expected a whole number >= 1"],
    "backbone.dropout=1.0": ["backbone.dropout=1.0: expected a number >= 0 and < 1"],
    "train.max_steps=1e5": ["train.max_steps=100000.0: expected a whole number >= 1 or null; write 100000"],
    "train.precision=bf16": ["train.precision=bf16: expected one of 32-true", "nearest: bf16-mixed"],
    "train.validate_every=epohc": ["expected a whole number >= 1 or epoch or null; nearest: epoch"],
    'optim.lr="0.002"': ['optim.lr="0.002": expected a number > 0; this is text, write 0.002 without quotes'],
    'backbone.n_heads="8"': ['backbone.n_heads="8"', "this is text, write 8 without"],
    'backbone.n_heads="0"': ['backbone.n_heads="0": expected a whole number >= 1; this is text'],
    'optim.clip_norm="null"': ['optim.clip_norm="null"', "this is text, write null without"],
    'optim.betas=[0.9,".5"]': ['optim.betas.1=".5"', "this is text, write .5 without"],
    'task.data_seed="1"': ['task.data_seed="1"', "this is text, write 1 without"],
    'trainer.deterministic="true"': ['trainer.deterministic="true"', "this is text, write true without"],
    'model.encoder.0.share="1.0"': ['model.encoder.0.share="1.0"', "this is text, write 1.0 without"],
    'model.ortho.where="[]"': ['model.ortho.where="[]"', "this is text, write [] without"],
    "optim.lr=0": ["optim.lr=0: expected a number > 0"],
    "optim.lr=nan": ["optim.lr=nan: expected a number > 0"],
    "optim.clip_norm=-1": ["optim.clip_norm=-1: expected a number > 0 or null"],
    "optim.betas=[0.9]": ["optim.betas=[0.9]: expected two numbers"],
    "optim.betas=[0.9,1.5]": ["optim.betas.1=1.5: expected a number >= 0 and < 1"],
    "seed=-1": ["seed=-1: expected a whole number >= 0"],
    "seed=true": ["seed=true: expected a whole number"],
    # Numbers that no machine can mean: said as a slip, and quickly (n_heads would be looked for among all divisors).
    "backbone.n_layers=2147483648": [
        "backbone.n_layers=2147483648: expected a whole number >= 1; more than 10,000 is taken for a slip"
    ],
    "train.batch_size=1e11": ["expected a whole number >= 1; more than 10,000,000,000 is taken for a slip"],
    "backbone.d_model=1e9 backbone.n_heads=7": [
        "backbone.d_model=1000000000.0: expected a whole number >= 1; more than"
    ],
    "backbone.d_model=999983 backbone.n_heads=999982": ["does not divide it; nearest: 999983"],
    "optim.lr=inf": ["optim.lr=inf: expected a number > 0; more than 1e+30 is taken for a slip"],
    "optim.lr=1e300": ["optim.lr=1e+300: expected a number > 0; more than"],
    "trainer.workers=100000": ["expected a whole number >= 0; more than 4,096 is taken for a slip"],
    "+model.cross.eps=-1": ["model.cross.eps=-1: expected a number >= 0"],
    "task=sorting": ["task=sorting: no such choice; task: ", "docs/tasks.md", "docs/extending.md shows how to add one"],
    "task=flip_flop task.length=1e30": ["expected a whole number >= 4; more than 10,000,000,000 is taken for a slip"],
    "task=wikitext2 task.vocabulary_size=1e10": ["expected a whole number >= 260; more than 10,000,000"],
    "seed=5000000000": ["seed=5000000000: expected a whole number >= 0 and <= 4,294,967,295"],
    f"train.max_steps={'9' * 5000}": ["999...: a number of so many digits is taken for a slip"],
    "paths.runs=3": ["paths.runs=3: expected text"],
    "model.normalization.kind=l3": ["model.normalization.kind=l3: expected one of none, l1, l2, rms; nearest: l"],
    "model.ortho.where=[encodr]": ["model.ortho.where.0=encodr", "nearest: encoder"],
    "backbone.dropout=${nokey}": ["backbone.dropout=${nokey}: Interpolation key 'nokey' not found"],
    # What classes say: task options, attention arguments, targets.
    "task.splitt=simple": ["task.splitt=simple: unknown key; nearest: task.split"],
    "task.split=simpel": ["task.split=simpel: expected one of length_cutoff, simple", "nearest: simple"],
    "task.length_cutoff=abc": ["task.length_cutoff=abc: expected a whole number >= 1"],
    "task.data_seed=1.5": ["task.data_seed=1.5: expected a whole number >= 0"],
    "model=linear model.name=vanilla": ["the choice is model=linear; its file must say name: linear"],
    "task.label=[]": ["task.label=[]: fixed by conf/task/scan.yaml"],
    "task.name=scn": ["task.name=scn: no file conf/task/scn.yaml; nearest: scan"],
    "model.name=mine": ["model.name=mine: no file conf/model/mine.yaml", "models: ", OTHER_MODELS],
    "model.cross.eps=1e-4": [
        "model.cross.eps=0.0001: not listed in the yaml files; set it with ++model.cross.eps=0.0001"
    ],
    "+model.cross.esp=1": ["model.cross.esp=1: unknown key; nearest: model.cross.eps", "scale_queries"],
    "+model.cross.eps=small": ["model.cross.eps=small: expected a number"],
    "+model.cross.n_heads=2": ["model.cross.n_heads=2: set by backbone.n_heads"],
    "+model.cross.initialization=glorot": ["model.cross.initialization=glorot: expected one of xavier, torch"],
    "+model.cross.normalization={kind: l9}": ["model.cross.normalization.kind=l9: expected one of none, l1"],
    "model.cross._target_=attnlab.attention.linear.LinearAtention": [
        "no class LinearAtention",
        "nearest: LinearAttention",
    ],
    "model.cross._target_=attnlab.attention.lineer.X": [
        "no module attnlab.attention.lineer; nearest: attnlab.attention.linear"
    ],
    # Impossible pairs.
    "backbone.n_heads=7": ["backbone.n_heads=7 with backbone.d_model=128: does not divide it; nearest: 8"],
    "model.encoder.0.share=0.5": ["model.encoder: shares [0.5]", "expected 1"],
    "model.encoder.0.share=1.5": ["model.encoder.0.share=1.5: expected a number >= 0 and <= 1 or null"],
    "model=transnormer_t2 model.encoder.0.share=null model.encoder.1.share=null": ["null (what the others leave) is"],
    "model=transnormer_t2 model.pattern=reversed": ["model.pattern=reversed: expected one of", "sequential_reversed"],
    "model.encoder=[]": ["model.encoder=[]: expected at least one group"],
    "model=linear backbone.positions=relative": [
        "backbone.positions=relative: not possible with LinearAttention",
        "vanilla",
    ],
    "model=relative backbone.embedding_dropout=0.3": [
        "backbone.embedding_dropout=0.3: model relative has model.embedding_dropout=0.0, which is used; "
    ],
    "model=relative backbone.positions=learned": [
        "has model.positions=relative, which is used; write model.positions=learned"
    ],
    "model=linear model.positions=relative": ["model.positions=relative: not possible with LinearAttention"],
    "model=vanilla model.ortho.weight=0.1": [
        "model.ortho.weight=0.1: model vanilla has no",
        "models that can: ",
        " linear, linear_l1,",
    ],
    "task=sort_of_clevr model.ortho.where=[cross]": [
        "model.ortho.where=[cross] names no attention of task sort_of_clevr"
    ],
    "model=vanilla model.normalization.kind=l2": [
        "model.normalization.kind=l2: no attention of model vanilla",
        "linear_l2",
    ],
    "model=vanilla model.normalization.denominator=false": ["model.normalization.denominator=false: no attention"],
    "train.selection=best_validation": ["train.selection=best_validation: task scan has no validation set"],
    "train.validate_every=100": ["train.validate_every=100: task scan has no validation set; write null"],
    "train.diagnose_every=100": ["train.diagnose_every=100: task scan has no validation set; write null"],
    "train.paper_rule=best_validation_per_group": ["task scan has no groups", "task scan has no validation set"],
    "task.validation_share=0.1": ["task.validation_share=0.1 with train.validate_every=null: needs validations"],
    "task.split=simple task.data_seed=3": [
        "task.data_seed=3 with task.split=simple: read only with task.split=length_cutoff or task.validation_share"
    ],
    "task=lra_text task.validation=test task.data_seed=1": ["read only with task.validation=held_out; leave it at 0"],
    "task=pcfg task.validation_share=0.1 train.validate_every=9 train.paper_rule=best_validation_per_group": [
        "the examples of task.validation_share have no groups to select for; write null"
    ],
    "task=sort_of_clevr train.validate_every=null": ["with train.validate_every=null: needs validations"],
    "task=sort_of_clevr backbone.tied_output=true": ["backbone.tied_output=true: task sort_of_clevr"],
    "task=flip_flop model=linformer": ["Linformer: has no causal form", "threshold_relative"],
    "task=formal_language model=forgetting": ["kind tagging needs there unless task.causal=true; models that can: "],
    "task=mqar task.length=63": ["task.length: 63 is odd"],
    "task=mqar task.test_lengths=[128,64,128]": ["task.test_lengths=[64,128,128]: ", "task.test_lengths=[64,128]"],
    "task=wikitext2 model=retention backbone.d_model=8 backbone.n_heads=8": ["model.encoder.0.attention.rotary=true: "],
    "task=wikitext2 model=gated_linear backbone.positions=rotary model.positions=rotary backbone.d_model=16 "
    "backbone.n_heads=8": ["positions=rotary: a head has one column (8 for n_heads=8)"],
    "model=linear backbone.d_model=16 backbone.n_heads=8 backbone.d_attention=8 backbone.positions=rotary": [
        "backbone.positions=rotary: a head has one column (8 for n_heads=8)"
    ],
    "task=mqar task.test_pairs=[4,4]": ["task.test_pairs=[4,4]: ", "write task.test_pairs=[4]"],
    "task=word_problem task.test_lengths=[77,77]": ["task.test_lengths=[77,77]: ", "write task.test_lengths=[77]"],
    "model=vanilla backbone.positions=rotary backbone.d_model=8 backbone.n_heads=8": [
        "backbone.positions=rotary: a head has one column (8 for n_heads=8)"
    ],
    "model=linear model.positions=rotary backbone.d_model=8 backbone.n_heads=8": ["model.positions=rotary: a head"],
    "task=mad task.noise_share=0.3": ["task.noise_share=0.3: task.dataset=in_context_recall does not read it"],
    "task=algorithmic task.test_size=4": ["task.test_size=4: test/ood is larger; expected more than 20"],
    "task=flip_flop task.eval_length=13": ["task.eval_length=13: instructions and bits in turn"],
    "task=wikitext103_masked model=threshold_relative": ["has no bidirectional form", "bigbird"],
    "model=flash": [
        "Flash: has no cross form, which a task of kind encoder_decoder needs there unless "
        "backbone.architecture=decoder_only; models that can: "
    ],
    "model=flash backbone.architecture=decoder_only backbone.prefix=bidi": ["nearest: bidirectional"],
    "model=threshold_relative backbone.architecture=decoder_only backbone.prefix=bidirectional": [
        "model.encoder.0.attention=ThresholdRelativeAttention: has no bidirectional form, which a task of kind "
        "encoder_decoder needs in its one decoder unless backbone.prefix=causal"
    ],
    "model=delta_rule model.normalization.denominator=false backbone.architecture=decoder_only": [
        "no attention of model delta_rule reads denominator; models that can: based, cosformer"
    ],
    "model=forgetting model.normalization.placement=before_feature_map backbone.architecture=decoder_only": [
        "no attention of model forgetting reads placement"
    ],
    "backbone.prefix=bidirectional": ["sees all of the input anyway; write backbone.architecture=decoder_only"],
    "backbone.architecture=decoder_only backbone.n_decoder_layers=2": ["no second stack; write null"],
    "task=flip_flop backbone.architecture=decoder_only": ["no output after its input; write encoder_decoder"],
    "task=flip_flop backbone.n_decoder_layers=2": ["task flip_flop (language_model) has no second stack; write null"],
    "+backbone.pooling=first": ["backbone.pooling=first: task scan (encoder_decoder)", "write mean"],
    "task=flip_flop +backbone.d_classifier=3": ["backbone.d_classifier=3: task flip_flop", "write null"],
    "task=sort_of_clevr backbone.positions=learned": ["have no learned positions; write sinusoidal or none"],
    "task=flip_flop model=linear_ortho model.ortho.where=[cross]": ["names no attention of task flip_flop"],
    "train.max_steps=null": ["train.max_steps=null: needs train.max_epochs"],
    "train.max_epochs=2": ["train.max_epochs=2 with train.max_steps=50000: one or the other"],
    "task=glue task.dataset=coal": ["task.dataset=coal: expected one of cola", "nearest: cola"],
    "task=sort_of_clevr backbone.n_decoder_layers=2": ["backbone.n_decoder_layers=2: task sort_of_clevr", "write null"],
    "task=sort_of_clevr train.bucket_window=8 train.batch_tokens=4096": [
        "train.bucket_window=8: the pictures of task sort_of_clevr have no lengths; write null",
        "train.batch_tokens=4096: the pictures",
    ],
    "trainer.data_on_device=yess": ["trainer.data_on_device=yess: expected"],
    "task.split=simple task.length_cutoff=30": [
        "task.length_cutoff=30 with task.split=simple: read only with task.split=length_cutoff"
    ],
}


CALLED = {
    "lr": "optim.lr",
    "learning_rate": "optim.lr",
    "optim.learning_rate": "optim.lr",
    "train.lr": "optim.lr",
    "+learning_rate": "optim.lr",
    "epochs": "train.max_epochs",
    "optim.epochs": "train.max_epochs",
    "steps": "train.max_steps",
    "batch_size": "train.batch_size",
    "batch": "train.batch_size",
    "data.batch_size": "train.batch_size",
    "hidden_size": "backbone.d_model",
    "d_model": "backbone.d_model",
    "model.d_model": "backbone.d_model",
    "num_layers": "backbone.n_layers",
    "n_layers": "backbone.n_layers",
    "layers": "backbone.n_layers",
    "model.num_layers": "backbone.n_layers",
    "num_heads": "backbone.n_heads",
    "heads": "backbone.n_heads",
    "+model.num_heads": "backbone.n_heads",
    "dropout": "backbone.dropout",
    "model.dropout": "backbone.dropout",
    "lambda": "model.ortho.weight",
    "model.lambda": "model.ortho.weight",
    "wd": "optim.weight_decay",
    "warmup": "optim.warmup_steps",
    "optimizer": "optim.name",
    "gpus": "trainer.device",
    "device": "trainer.device",
    "num_workers": "trainer.workers",
    "dataset": "task",
    "attention": "model",
}


@pytest.mark.parametrize("name", CALLED)
def test_what_people_call_a_key_gets_the_right_one(name: str) -> None:
    (problem,) = problems(f"{name}=3")
    text, _, others = problem.partition(f"=3: unknown key; nearest: {CALLED[name]}")
    assert text == name.lstrip("+")
    assert others[:2] in ("", "; ")


def test_the_table_of_names_names_keys_that_are() -> None:
    keys = {f"task.{key}" for task in group_choices()["task"] for key in task_yaml(task, CONF)}
    assert set(OTHER_NAMES) <= {*schema_keys(), *group_choices(), *keys}


def test_copied_files_need_a_name_of_their_own_and_what_a_base_leaves_open(tmp_path: Path) -> None:
    shutil.copytree(CONF, tmp_path / "conf")
    task = (CONF / "task/scan.yaml").read_text().replace("name: scan", "name: mine").replace("  d_model: 128\n", "")
    (tmp_path / "conf/task/mine.yaml").write_text(task)
    (tmp_path / "conf/model/none.yaml").write_text("defaults: [_base, _self_]\nname: none\ndecoder: []\n")
    shutil.copy(CONF / "model/linear_l2.yaml", tmp_path / "conf/model/copied.yaml")
    with pytest.raises(ConfigError, match=r"model\.name=linear_l2: the choice is model=copied"):
        check_command(["task=scan", "model=copied"], tmp_path / "conf")
    with pytest.raises(ConfigError) as error:
        check_command(["task=mine", "model=none"], tmp_path / "conf")
    named = [problem.partition(": missing; expected ")[0] for problem in error.value.problems]
    assert [name.partition(":")[0] for name in named] == ["model.mechanism", "backbone.d_model"]
    assert check_command(["task=mine", "+backbone.d_model=64"], tmp_path / "conf").jobs


def words(command: str) -> list[str]:
    """Returns the words of a command line; like a shell with quotes, it keeps `{...}` together."""
    return [command] if "{" in command else command.split(" ")


def problems(*argv: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        check_command(argv)
    return error.value.problems


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_command_gets_its_message(command: str) -> None:
    """With one nearest word, then at most eight others; but for the models that can do something, which are the
    answer."""
    messages = problems(*words(command))
    text = "\n".join(messages)
    for part in WRONG[command]:
        assert part in text
    for problem in messages:
        for part in problem.partition("; models that can")[0].split("; "):
            assert part.count(", ") < 8


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("than:linear,column:ood,spread:-1", "spread=-1: expected a number > 0 or null"),
        ("than:linear,column:ood,shown_before:gate", "shown_before=gate: expected one of pilot, claim or null"),
        ("than:linear,column:ood,given:odd", "given: no column odd; nearest: ood"),
        ("sooner_than:linear", "sooner_than=linear: needs report.success.validation, the logged metric"),
        ("fails_less_than:linear,given:ood", "given=ood: fails_less_than has no given; leave it out"),
        ("varies_less_than:linear", "column: missing; expected a column of the report"),
    ],
)
def test_a_wrong_hypothesis_gets_its_message(form: str, message: str) -> None:
    listed = f"report.hypotheses=[{{row:vanilla,{form}}}]"
    assert f"report.hypotheses.0.{message}" in "\n".join(problems("experiment=claims/scan_turn_left", listed))


def number_types() -> Iterator[tuple[str, object]]:
    """Every key of the schema and every option of a shipped task or attention, with its type."""
    for section in (Config, Backbone, Optim, Train, TrainerOptions, LoggerOptions, Ortho, LayerGroup):
        yield from ((f"{section.__name__}.{name}", kind) for name, kind in hints(section).items())
    for task in group_choices()["task"]:
        options = read_signature(task_yaml(task, CONF)["_target_"]).arguments
        yield from ((f"{task}.{name}", option.annotation) for name, option in options.items())
    for model in group_choices()["model"]:
        for key, _, node in attention_nodes(composed(model)["model"]):
            options = attention_options(read_signature(node["_target_"]))
            yield from ((f"{model}: {key}.{name}", option.annotation) for name, option in options.items())


def test_no_number_is_without_a_bound() -> None:
    types = {name: kind for name, kind in number_types() if kind is not Any}
    assert len(types) > 200
    huge = (10**31, 1e300, float("inf"), float("nan"), -(10**31))
    open_ended = {name: value for name, kind in types.items() for value in huge if not conform(value, kind, name)}
    assert open_ended == {}


def test_all_problems_come_together_once() -> None:
    messages = problems(
        "modle=linear", "backbone.n_heads=three", "task.splitt=x", "+foo=1", "model=linaer", "--bar", "seed=0,1"
    )
    starts = ["--bar", "model=linaer", "seed=0,1", "modle=linear", "task.splitt", "foo=1", "backbone.n_heads=three"]
    assert len(messages) == len(starts)
    for problem, start in zip(messages, starts, strict=True):
        assert problem.startswith(start)


def test_wrong_values_do_not_hide_impossible_pairs() -> None:
    messages = problems("train.batch_size=many", "model=vanilla", "model.ortho.weight=0.1")
    assert [problem.partition(":")[0] for problem in messages] == ["train.batch_size=many", "model.ortho.weight=0.1"]


def test_the_error_lists_all_problems() -> None:
    error = ConfigError(["a=1: wrong", "b=2: wrong"])
    lines = str(error).splitlines()
    assert lines[0] == "2 problems in the configuration, nothing was run:"
    assert lines[1:3] == ["  - a=1: wrong", "  - b=2: wrong"]
    assert "python train.py --help" in lines[-1]
    assert str(ConfigError(["a"])).startswith("1 problem in")
    assert "and 60 more" in str(ConfigError(list("a" * 100)))


@pytest.mark.parametrize(
    "command",
    [
        "",
        "backbone={d_model: 64}",
        "+model.cross.eps=1e-4",
        "+model.encoder.0.attention.scale_queries=false",
        "+model.cross.normalization={kind: l2}",
        "++seed=3",
        "~task.data_seed",
        "model=vanilla backbone.positions=relative",
        "model=vanilla model.ortho.weight=0.1 model.ortho.where=[encoder]",
        "task.length_cutoff=30",
        "hydra/launcher=joblib hydra.launcher.n_jobs=2",
        "--cfg job seed=3",
        "experiment=quickstart model=vanilla debug=smoke",
        "optim.lr=1 optim.clip_norm=null",
    ],
)
def test_a_right_command_passes_as_hydra_composes_it(command: str) -> None:
    argv = words(command) if command else []
    job = jobs_of(argv)[0]
    assert job == completed(compose_config([word for word in argv if "=" in word or word.startswith("~")]))
    assert check_config(job) == []


PAIRS = [(model, task) for model in group_choices()["model"] for task in group_choices()["task"]]


def test_every_shipped_pair_passes() -> None:
    """But for a mechanism without a form that the task needs, which test_training.py looks at."""
    wrong = {}
    for model, task in PAIRS:
        messages = check_config(composed(model, task))
        wrong[model, task] = [problem for problem in messages if ", which a task of kind" not in problem]
    assert {pair: messages for pair, messages in wrong.items() if messages} == {}


def assert_composed(pairs: Iterable[tuple[str, str]]) -> None:
    """Hydra composes these pairs of a model and a task as `composed` puts them together."""
    for model, task in pairs:
        assert compose_config([f"task={task}", f"model={model}"]) == composed(model, task), (model, task)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_pairs_are_composed_of_their_two_files(every: int) -> None:
    """Each task, and each or every fourth model, in one pair at least."""
    models, tasks = group_choices()["model"][::every], group_choices()["task"]
    number = max(len(models), len(tasks))
    assert_composed(itertools.islice(zip(itertools.cycle(models), itertools.cycle(tasks), strict=False), number))


def test_checked_gives_typed_objects() -> None:
    config = checked(compose_config(["optim.lr=1", "seed=3"]))
    assert isinstance(config, Config)
    assert isinstance(config.model.encoder[0], LayerGroup)
    assert isinstance(config.optim.lr, float)
    assert config.seed == 3
    with pytest.raises(ConfigError):
        checked({"seed": 1})


def test_mixed_models_say_which_class_lacks_what() -> None:
    groups = "[" + ",".join(f"{{share: 0.5, attention: {{_target_: {name}}}}}" for name in (LINEAR, SOFTMAX)) + "]"
    assert jobs_of([f"model.encoder={groups}"])[0]["model"]["decoder"][1]["attention"]["_target_"] == SOFTMAX
    messages = problems(f"model.encoder={groups}", "backbone.positions=relative")
    assert messages[0].startswith("backbone.positions=relative: not possible with LinearAttention")


def test_a_group_without_layers_is_not_judged() -> None:
    groups = f"[{{share: 0, attention: {{_target_: {LINEAR}}}}}, {{share: null, attention: {{_target_: {SOFTMAX}}}}}]"
    (job,) = jobs_of([f"model.encoder={groups}", "backbone.positions=relative"])
    assert [group["share"] for group in job["model"]["decoder"]] == [0, None]
    messages = problems(f"model.encoder={groups.replace('share: 0,', 'share: 1.0,').replace('null', '0.5')}")
    assert messages == ["model.encoder: shares [1.0,0.5] of its groups add up to 1.5; expected 1"]
    three = groups.replace("[{share: 0,", f"[{{share: 0.8, attention: {{_target_: {LINEAR}}}}}, {{share: 0.5,")
    assert "add up to 1.3 without the one that is null; expected at most 1" in problems(f"model.encoder={three}")[0]


def test_a_class_that_lacks_a_form_is_refused_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limited.py").write_text(
        "from attnlab.attention.base import Attention\n"
        "from attnlab.attention.core.softmax_core import CachedAttention\n"
        "class OneWay(CachedAttention):\n    supports_cross = False\n    supports_bidirectional = False\n"
        "class Parallel(Attention):\n    supports_orthogonality = False\n    def attend(self): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "limited")
    messages = problems("model.cross._target_=limited.OneWay", "model.ortho.weight=0")
    assert messages[0].startswith(
        "model.cross=OneWay: has no cross form, which a task of kind encoder_decoder needs there"
    )
    assert {"linear", "vanilla"} <= set(messages[0].partition("models that can: ")[2].split(", "))
    messages = problems("model.encoder.0.attention._target_=limited.OneWay", "model.ortho.weight=0")
    assert [problem.partition(":")[0] for problem in messages] == ["model.encoder.0.attention=OneWay"]
    messages = problems("model.encoder.0.attention._target_=limited.Parallel")
    assert messages[0].startswith("model.decoder.0.attention=Parallel: has no step form")
    assert messages[1].startswith("model.ortho.weight=0.01: Parallel (model linear_l2_ortho) has no orthogonality loss")
    messages = problems(
        "task=sort_of_clevr", "model.encoder.0.attention._target_=limited.OneWay", "model.ortho.weight=0"
    )
    assert messages[0].startswith("model.encoder.0.attention=OneWay: has no bidirectional form")


def test_values_are_applied_to_a_finished_run() -> None:
    config = compose_config(["task.length_cutoff=30"])
    allowed = ("task.", "train.eval_batch_size")
    changed = apply_values(config, ["task.split=simple", "train.eval_batch_size=8"], allowed).raw
    assert (changed["task"]["split"], changed["train"]["eval_batch_size"]) == ("simple", 8)
    assert changed["task"]["length_cutoff"] == 26, "an option that the new split does not read goes back to its default"
    assert config["task"]["split"] == "length_cutoff", "the original stays as it was"
    checked(changed)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.max_steps=3", "train.max_steps=3: cannot be changed here; allowed: task.*, train.eval_batch_size"),
        ("tsk.split=simple", "unknown key; nearest: task.split"),
        ("model=linear", "model=linear: cannot be changed here"),
        ("task.split=simple,length", "one value only"),
        ("task.split=simpel", "nearest: simple"),
        ("task.split", "task.split: expected key=value"),
    ],
)
def test_wrong_values_for_a_finished_run(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        apply_values(compose_config([]), [override], ("task.", "train.eval_batch_size"))
    assert message in str(error.value)


def test_help_imports_no_torch_and_a_wrong_command_nothing_heavier() -> None:
    code = """
import sys
from attnlab.config.nearest_word import OTHER_NAMES
from attnlab.config.problem import ConfigError
from attnlab.config.sweep import check_command
from attnlab.config.command_line.train_help import help_text
help_text()
assert "torch" not in sys.modules and "numpy" not in sys.modules
check_command(["-m", "model=linear,vanilla", "seed=0,1", "hydra/launcher=joblib"])
try:
    check_command(["modle=linear"])
except ConfigError:
    print([name for name in ("pytorch_lightning", "wandb", "matplotlib", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_option_that_costs_a_form_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "optional.py").write_text(
        "from attnlab.attention.core.softmax_core import CachedAttention\n"
        "class Sometimes(CachedAttention):\n"
        "    limits = {'shared': {True: ['supports_causal', 'supports_step']}}\n"
        "    def __init__(self, d_model: int, n_heads: int, *, shared: bool = False): ...\n"
        "class Mostly(Sometimes):\n"
        "    def __init__(self, d_model: int, n_heads: int, *, shared: bool = True): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "optional")
    overrides = ["model.cross._target_=optional.Sometimes", "model.ortho.weight=0"]
    check_command([*overrides, "+model.cross.shared=false"])
    messages = problems(*overrides, "+model.cross.shared=true")
    assert len(messages) == 1
    assert messages[0].startswith("model.cross=Sometimes: has no step form with shared=true, which a task of kind")
    # A default costs what the same value costs where it is written.
    messages = problems("model.cross._target_=optional.Mostly", "model.ortho.weight=0")
    assert messages[0].startswith("model.cross=Mostly: has no step form with shared=true, which a task of kind")
