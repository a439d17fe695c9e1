"""Figures of the attentions during training, every `logger.figures_every` steps."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl

from attnlab.config.schema import Config
from attnlab.data.examples import Examples
from attnlab.learn.callbacks import StepCallback, preserved_rng
from attnlab.learn.training_module import TrainingModule
from attnlab.run.run_folder import inner_folder
from attnlab.tasks.base import Prepared, Task

EXAMPLES = 8
FOLDER = "figures"


@dataclass(eq=False)
class Figures(StepCallback):
    """Draws norms, values, weights and locality on eight fixed examples of the validation data (training data if there
    is none), into `<run folder>/figures/step<k>/` and wandb (`show`); about 7 seconds a set for six layers of eight
    heads. Training continues as without figures, also if a set cannot be drawn, which `say` reports.
    """

    folder: Path
    config: Config
    data: tuple[Task, Prepared[Examples]]
    say: Callable[[str], None]
    show: Callable[[int, Sequence[Path]], None]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        if not trainer.global_step:
            # figures of a run that starts again
            shutil.rmtree(self.folder / FOLDER, ignore_errors=True)

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        every = self.config.logger.figures_every
        if every is None or step % every:
            return
        with preserved_rng():
            try:
                folder = inner_folder(self.folder, FOLDER) / f"step{step}"
                if not folder.exists():
                    self._draw(module, step, folder)
                self.show(step, _pictures(folder))
            except Exception as error:
                cause = str(error).split("\n")[0]
                self.say(f"no figures at step {step} ({type(error).__name__}: {cause}); training goes on")

    def _draw(self, module: TrainingModule, step: int, folder: Path) -> None:
        """Draw a set into a new folder, which is renamed at the end, so that no incomplete set is left."""
        # A run without figures imports no matplotlib.
        from attnlab.analysis.compute_summary import QUANTITIES, DiagnosedExamples, choose, summarise_attention
        from attnlab.analysis.summary_figures import draw

        config, (task, prepared) = self.config, self.data
        subset = "val" if "val" in prepared.subsets else "train"
        label = f"{config.model.name}, seed {config.seed}"
        examples = DiagnosedExamples(
            task=task,
            prepared=prepared,
            subset=subset,
            numbers=choose(prepared.subsets[subset], EXAMPLES),
            label=label,
            weights=f"step {step}",
        )
        summary = summarise_attention(module.network, config, examples, QUANTITIES)
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for quantity in QUANTITIES:
            draw(quantity, [summary], part / quantity)
        part.replace(folder)


def drawn_figures(folder: Path, until: int) -> dict[int, list[Path]]:
    """Pictures in a run folder by their step, up to step `until`."""
    names = {path.name.removeprefix("step"): path for path in (folder / FOLDER).glob("step*")}
    pictures = {int(name): _pictures(path) for name, path in names.items() if name.isdigit()}
    return {step: pictures[step] for step in sorted(pictures) if step <= until}


def _pictures(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.png"))
