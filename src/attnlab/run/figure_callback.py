"""Figures of the attentions during training, every `logger.figures_every` steps."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytorch_lightning as pl

from attnlab.config.schema import Config
from attnlab.learn.callbacks import MetricsSink, StepCallback, preserved_rng
from attnlab.learn.training_module import TrainingModule
from attnlab.tasks.base import Prepared, Task

EXAMPLES = 8
FOLDER = "figures"


class PictureSink(MetricsSink, Protocol):
    """Where metrics and pictures go."""

    def pictures(self, step: int, files: Sequence[Path]) -> None: ...


class Figures(StepCallback):
    """Norms, values, weights and locality on a fixed batch of eight examples of the validation data (training data
    where there is none; never test data), into `<run folder>/figures/step<k>/` and to wandb.

    Training goes on as if nothing had been drawn: random states and modes are put back. What was drawn before a resume
    is not drawn again. A set that cannot be drawn costs one line, not the run.

    Cost of a set: a forward pass over the batch with all attention weights written out, one over one example, and the
    drawing, about 0.05 seconds of a CPU core a map or panel (six layers of eight heads: 6 seconds); it counts as
    training time.

    Args:
        folder: the run folder.
        data: the task and its data.
        say: told of a set that cannot be drawn.
        show: handed the step and the pictures of every set.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        data: tuple[Task, Prepared],
        say: Callable[[str], None],
        show: Callable[[int, Sequence[Path]], None],
    ) -> None:
        self.folder, self.config, (self.task, self.prepared) = folder / FOLDER, config, data
        self.say, self.show = say, show

    def on_train_start(self, trainer: pl.Trainer, pl_module: TrainingModule) -> None:
        super().on_train_start(trainer, pl_module)
        if not trainer.global_step:
            # of a run that starts over
            shutil.rmtree(self.folder, ignore_errors=True)

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.config.logger.figures_every:
            return
        with preserved_rng():
            try:
                place = _place(self.folder, step)
                if not place.exists():
                    self._draw(module, step, place)
                self.show(step, _pictures(place))
            except Exception as error:
                cause = str(error).split("\n")[0]
                self.say(f"no figures at step {step} ({type(error).__name__}: {cause}); training goes on")

    def _draw(self, module: TrainingModule, step: int, place: Path) -> None:
        """The whole set, or none of it."""
        # Only here: a run without figures needs no matplotlib.
        from attnlab.analysis.attention_figures import draw
        from attnlab.analysis.attention_statistics import QUANTITIES, DiagnosedExamples, choose, summarise_attention

        config, subsets = self.config, self.prepared.subsets
        subset = "val" if "val" in subsets else "train"
        label = f"{config.model.name}, seed {config.seed}"
        examples = DiagnosedExamples(
            task=self.task,
            prepared=self.prepared,
            subset=subset,
            numbers=choose(subsets[subset], EXAMPLES),
            label=label,
            weights=f"step {step}",
        )
        summary = summarise_attention(module.network, config, examples, QUANTITIES)
        part = place.with_name(f"{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for quantity in QUANTITIES:
            draw(quantity, [summary], part / quantity)
        part.replace(place)


def drawn_figures(folder: Path, until: int) -> dict[int, list[Path]]:
    """Pictures in a run folder, by their step, of steps up to `until`."""
    names = {place.name.removeprefix("step"): place for place in (folder / FOLDER).glob("step*")}
    found = {int(name): _pictures(place) for name, place in names.items() if name.isdigit()}
    return {step: found[step] for step in sorted(found) if step <= until}


def _place(folder: Path, step: int) -> Path:
    return folder / f"step{step}"


def _pictures(place: Path) -> list[Path]:
    return sorted(place.glob("*.png"))
