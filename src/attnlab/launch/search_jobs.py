"""Runs the jobs of a search (`hydra/sweeper=optuna`): each returns its validation metric, by which the next is chosen.

A job has the folder of any other run: repeated, it goes on where it stopped, or shows its result.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attnlab.config.command_line.command_frame import FAILED, USAGE_ERROR
from attnlab.config.conf_files import join_search_path
from attnlab.config.job_config import JobConfig, job_config
from attnlab.config.message_text import first_line, short_path
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import Command
from attnlab.config.validation.launcher_options import register
from attnlab.config.validation.search import CHOSEN, Search
from attnlab.launch.run_job import run_job
from attnlab.learn.metric_units import lower_is_better, problem, text
from attnlab.run.run_folder import RunFolder, is_finished, objective


class SearchJobs:
    """The jobs of a search that have run so far.

    Args:
        search: the search.
        argv: arguments of the command line, which every result records.
        aim: minimize or maximize, by the first metric of the task.
    """

    def __init__(self, search: Search, argv: Sequence[str], aim: str) -> None:
        self.search, self.argv, self.aim = search, list(argv), aim
        self.jobs: list[JobConfig] = []
        self.names: list[str] = []
        self.results: list[tuple[str, float] | None] = []
        self.codes: list[int] = []
        self.folder = Path()

    def __call__(self, config: DictConfig) -> float | None:
        """Run a job that the sweeper has chosen; returns its objective, None if it failed: a failed trial of optuna.

        Raises:
            SystemExit: a signal stopped it, and with it the search.
        """
        sys.argv[1:] = self.argv
        settings = HydraConfig.get()
        self.folder = Path(settings.sweep.dir)
        swept = [word for word in settings.overrides.task if word.lstrip("+").partition("=")[0] in self.search.keys]
        name, label = " ".join(swept), f"[{settings.job.num + 1}/{self.search.trials}]"
        composed: Any = OmegaConf.to_container(config, resolve=True)
        composed["experiment"] = settings.runtime.choices.get("experiment")
        result = self._run(composed, name, label)
        if result is not None:
            print(f"{label} {result[0]} {text(*result)}", file=sys.stderr, flush=True)
        return None if result is None else result[1]

    def _run(self, config: Any, name: str, label: str) -> tuple[str, float] | None:
        """Name and value of the objective of a job; None, with a message, if it has none."""
        try:
            job = job_config(config)
        except ConfigError as error:
            print(f"{label} {name}\n{error}", file=sys.stderr, flush=True)
            self.codes.append(USAGE_ERROR)
            return None
        finished = is_finished(job)
        print(f"{label} {name}{', finished before' if finished else ''}", file=sys.stderr, flush=True)
        code = 0 if finished else run_job(job, quiet=True, name=f"{label} {name}")
        if code > 128:
            raise SystemExit(code)
        result = None if code else objective(RunFolder(job.folder).result() or {})
        if not code and (result is None or _aim(result[0]) != self.aim):
            lack = f"its result has {result[0] if result else 'no validation metric'}, and this is one to {self.aim}"
            print(f"{label} failed: {lack}", file=sys.stderr, flush=True)
            code, result = FAILED, None
        if result is not None and (wrong := problem(*result)):
            print(f"{label} failed: its {result[0]} is {wrong}", file=sys.stderr, flush=True)
            code, result = FAILED, None
        self.jobs.append(job)
        self.names.append(name)
        self.codes.append(code)
        self.results.append(result)
        return result

    def _report_words(self) -> list[str]:
        """Words of report.py for the folder of all jobs, with those of `debug=...`, which it leaves out by itself."""
        folder = Path(os.path.commonpath([job.folder.parent for job in self.jobs]))
        is_debug = any(job.raw.get("debug") for job in self.jobs)
        return [f"runs={short_path(folder)}", *(["include=debug"] if is_debug else [])]

    def exit_code(self) -> int:
        """Print a table of the jobs and the best of them; returns 0 if all are finished."""
        from attnlab.launch.console_summary import print_sweep

        values = ["failed" if result is None else f"{result[0]} {text(*result)}" for result in self.results]
        code = print_sweep(self.jobs, self.names, values, self._report_words()) if self.jobs else 0
        # a sampler may choose the same values again
        results = {name: result for result, name in zip(self.results, self.names, strict=True) if result is not None}
        if results:
            metric, value = (min if self.aim == "minimize" else max)(results.values(), key=lambda result: result[1])
            best = [name for name, result in results.items() if result[1] == value]
            others = f" and {len(best) - 1} others as good" if len(best) > 1 else ""
            print(f"best of {len(results)}: {best[0]}{others}, {metric} {text(metric, value)}")
            if (record := self.folder / "optimization_results.yaml").is_file():
                print(f"as Hydra records it: {short_path(record)}")
        return code or max(self.codes, default=0)


def _aim(metric: str) -> str:
    return "minimize" if lower_is_better(metric) else "maximize"


def run_search(command: Command, search: Search, argv: Sequence[str]) -> int:
    """Run the search of a command line with the sweeper of Hydra; returns the exit code.

    Args:
        argv: as in `SearchJobs`.
    """
    import optuna

    # Our own lines say what each job is and what it reached.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Without it, Hydra hides the traceback of our errors.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    from attnlab.run.build_runtime import prepared_task

    jobs = SearchJobs(search, argv, _aim(prepared_task(command.jobs[0].typed)[1].spec.metrics[0]))
    sys.argv[1:] = [*command.hydra_argv, *search.words, f"hydra.sweeper.direction={jobs.aim}"]
    join_search_path()
    register()
    run = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(jobs)
    try:
        run()
    except ValueError as error:
        # Raised at the end if no job has a value; each has said why.
        if not jobs.codes:
            raise ConfigError([Problem(CHOSEN, f": {first_line(error)}")]) from error
        if any(result is not None for result in jobs.results):
            raise
    except RuntimeError as error:
        # A grid asks its study to stop after its last job, and the sweeper expects that of a finished one only.
        if "Study.stop" not in str(error):
            raise
    return jobs.exit_code()
