"""Parts of benchmarks.gpu: command lines, their tiny forms for any machine, and time limits."""

from dataclasses import dataclass

STARTING = 150
"""seconds of a training run's part that are no training: start, data, compiling twice, saving"""


@dataclass(frozen=True)
class Part:
    """A benchmark's command line, its tiny form, and its time limit in seconds.

    training: number of training runs, which share the seconds after `STARTING`; 0: a benchmark without training runs.
    """

    name: str
    line: str
    tiny: str
    seconds: int
    training: int = 0

    @property
    def least(self) -> int:
        """Seconds below which the part is not begun."""
        return STARTING + 30 if self.training else 20

    def command(self, tiny: bool, device: str, limit: float) -> list[str]:
        """Returns the words after `python -m`, with the seconds of training that the limit leaves."""
        words = (self.tiny if tiny else self.line).split()
        length = ["--seconds", f"{max(limit - STARTING, 10) / self.training:.0f}"] if self.training and not tiny else []
        return [f"benchmarks.{words[0]}", "--device", device, *length, *words[1:]]


SHRUNK = "backbone.d_model=16 backbone.n_heads=2 backbone.n_layers=1 backbone.d_feed_forward=16 train.batch_size=8"


def training(task: str, members: int) -> Part:
    """Returns the part of a training run: eager and compiled, five minutes together, and what starting takes."""
    name, line = f"{task}_{'packed' if members > 1 else 'single'}", f"training_run --task {task}"
    small = f"{line} --members {min(members, 2)} --threads 1 --seconds 1 {SHRUNK} train.log_every=2"
    small += " task.train_images=50 task.val_images=10 task.test_images=10" * (task == "sort_of_clevr")
    return Part(name, f"{line} --members {members} --compile both", small, 300 + STARTING, training=2)


# The most important first.
SPEED = (
    Part(
        "packed_scan",
        "packed --ways packed --members 5,16 --compile both --seconds 25",
        # so large that every batch has the longest examples: one length is compiled
        f"packed --ways packed --members 2 --compile both --seconds 1 --warm 1 {SHRUNK.replace('=8', '=256')}",
        200,
    ),
    Part(
        "packed_sort_of_clevr",
        "packed --ways packed --task sort_of_clevr --members 5 --compile both --seconds 20",
        f"packed --ways packed --task sort_of_clevr --members 2 --seconds 1 {SHRUNK}",
        110,
    ),
    Part(
        "processes",
        "packed --ways processes --members 1,2,4,8,16,32 --compile yes --seconds 5 --steps 100",
        f"packed --ways processes --members 1,2 --seconds 1 --steps 2 {SHRUNK}",
        130,
    ),
    Part(
        "decoding",
        "decode --parts position --passes 2 --rows 64",
        f"decode --parts position --passes 1 --rows 2 --tokens 64 {SHRUNK}",
        70,
    ),
    Part(
        "orthogonality_loss",
        "orthogonality_loss --tasks scan,sort_of_clevr --published-batch --compile scan,sort_of_clevr --seconds 1",
        "orthogonality_loss --tasks scan --gram-lengths 64 --lengths 64 --seconds 0",
        90,
    ),
    Part(
        "attention",
        "attention --modes causal --seconds 2 --memory 60 --limit 1 --lengths 1024,4096,16384 "
        "--models vanilla,linear,linear_l2,performer,cosformer,transnormer_t2",
        "attention --modes causal --seconds 0 --lengths 64,128 --models vanilla,linear --batch 1",
        70,
    ),
    Part(
        "training_steps",
        "train_step --task scan,sort_of_clevr --seconds 5 --steps 20",
        f"train_step --task scan --seconds 1 --models vanilla {SHRUNK}",
        80,
    ),
)
TRAINING = (training("scan", 1), training("scan", 5), training("sort_of_clevr", 1), training("sort_of_clevr", 5))
GROUPS = {"all": (*SPEED, *TRAINING), "speed": SPEED, "training": TRAINING}


def chosen(names: str) -> list[Part]:
    """Returns the parts of `--parts`: names of parts and of groups, in the order of importance.

    Raises:
        ValueError: names no part has.
    """
    parts = {part.name: part for part in GROUPS["all"]}
    wanted = [part.name for name in names.split(",") for part in GROUPS.get(name, ())]
    wanted += [name for name in names.split(",") if name not in GROUPS]
    if unknown := [name for name in wanted if name not in parts]:
        raise ValueError(f"{', '.join(unknown)}: no such part; there are {', '.join((*GROUPS, *parts))}")
    return [part for part in parts.values() if part.name in wanted]
