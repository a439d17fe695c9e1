"""Where a run's metrics and pictures go."""

from collections.abc import Callable, Sequence
from pathlib import Path

from attnlab.run.run_folder import MetricsFile
from attnlab.run.wandb_mirror import WandbMirror


class Sinks:
    """metrics.csv, and a wandb run where asked for; what wandb cannot do never stops a run.

    Args:
        file: the truth.
        mirror: the wandb run, or None.
        say: told once when wandb fails.
    """

    def __init__(self, file: MetricsFile, mirror: WandbMirror | None, say: Callable[[str], None]) -> None:
        self.file, self.mirror, self.say = file, mirror, say

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.file.log(step, metrics)
        self.mirrored(lambda mirror: mirror.log(step, metrics))

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        """Figures that lie in the run folder, for the wandb run."""
        self.mirrored(lambda mirror: mirror.pictures(step, files))

    def mirrored(self, action: Callable[[WandbMirror], None]) -> None:
        """Do something with the wandb run, if there is one that works."""
        if self.mirror is None:
            return
        try:
            action(self.mirror)
        except Exception as error:
            self.mirror = None
            self.say(f"wandb stopped working ({error}); metrics go on into {self.file.path}")
