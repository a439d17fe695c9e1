"""The jobs of one `python train.py`: their numbers, how each of them or several together are run, and the exit code."""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from attnlab.config.naming import run_folder
from attnlab.config.pack_grouping import describe, ranges
from attnlab.config.sweep import Command
from attnlab.launch.joblib_workers import Worker
from attnlab.launch.run_job import FAILED, run_job, start_line
from attnlab.run.finished_run import is_finished, of_run

_WORKER = Worker()
"""of this process, where it runs jobs for another one"""


class Jobs:
    """What Hydra calls for one job. Launchers have it as their task function, and can call `pack` for several.

    It is sent to the processes that other launchers start.

    Args:
        command: the checked command line.
        argv: its words, as every result records them.
    """

    def __init__(self, command: Command, argv: Sequence[str]) -> None:
        self.command, self.argv, self.total = command, list(argv), len(command.jobs)
        self.process, self.group = os.getpid(), os.getpgrp()
        self.codes: list[int] = []
        self.noted = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the other jobs: a worker needs its own only, which Hydra hands over."""
        return self.__dict__ | {"command": replace(self.command, jobs=[])}

    def __call__(self, config: DictConfig) -> int:
        """Run the job that Hydra composed; returns its exit code.

        Raises:
            SystemExit: a signal stopped it; the rest of a sweep must not start.
        """
        from hydra.core.hydra_config import HydraConfig

        # As Hydra was called, and as it is in a worker, are other words than the user's.
        sys.argv[1:] = self.argv
        raw = OmegaConf.to_container(config, resolve=True)
        if not self.command.multirun:
            return self._counted([run_job(raw, quiet=False)])[0]
        number = HydraConfig.get().job.num
        if os.getpid() == self.process:
            self.say([number], start_line(raw))
            return self._counted([run_job(raw, quiet=True)])[0]
        if is_finished(of_run(raw)):
            # A worker loads torch before its first job, which takes seconds.
            self.say([number], f"finished before: {run_folder(raw)}")
            return 0
        return _WORKER.run(lambda: self._beside_others(raw, number), self.process, self.group)

    def pack(self, numbers: Sequence[int], max_packed: int | None) -> list[int]:
        """Train several jobs together; returns their exit codes in order.

        Args:
            numbers: places in the command's jobs, which fit together (`config.pack_grouping`).
            max_packed: as many at once at most.

        Raises:
            SystemExit: as for one job.
        """
        sys.argv[1:] = self.argv
        raws = [self.command.jobs[number] for number in numbers]
        place = os.path.commonpath([run_folder(raw) for raw in raws])
        self.say(numbers, f"packed: {describe(raws)}, device {raws[0]['trainer']['device']}; run folders in {place}")
        if all(is_finished(of_run(raw)) for raw in raws):
            return self._counted([0] * len(raws))
        self._note_device(raws[0]["trainer"]["device"])
        from attnlab.launch.pack.run_pack import run_pack

        try:
            codes = run_pack(raws, max_packed)
        except Exception:
            traceback.print_exc()
            self.say(numbers, "failed: an unexpected error, above; repeat the command to go on")
            codes = [FAILED] * len(raws)
        return self._counted(codes)

    def say(self, numbers: Sequence[int], text: str) -> None:
        """One line about jobs, which people count from 1."""
        print(f"{self._label(numbers)} {text}", file=sys.stderr, flush=True)

    def exit_code(self) -> int:
        """0 when everything is finished; a sweep shows a table of its jobs, whichever process ran them."""
        if not self.command.multirun:
            return self.codes[-1] if self.codes else 0
        from attnlab.launch.console_summary import print_sweep

        return print_sweep(self.command.jobs) or max(self.codes, default=0)

    def _label(self, numbers: Sequence[int]) -> str:
        return f"[{ranges(number + 1 for number in numbers)}/{self.total}]"

    def _counted(self, codes: list[int]) -> list[int]:
        self.codes += codes
        if max(codes) > 128:
            raise SystemExit(max(codes))
        return codes

    def _beside_others(self, raw: dict[str, Any], number: int) -> int:
        """A job in a worker: its lines carry its number, since those of other jobs stand between them."""
        self.say([number], start_line(raw))
        code = run_job(raw, quiet=True, label=self._label([number]))
        if not code:
            self.say([number], "finished")
        return code

    def _note_device(self, device: str) -> None:
        """Say once that packing is for GPUs."""
        import torch

        if not self.noted and (device == "cpu" or not torch.cuda.is_available()):
            print(
                "note: packing is for GPUs; on a CPU runs of published size are faster one after the other",
                file=sys.stderr,
            )
        self.noted = True
