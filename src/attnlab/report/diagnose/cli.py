"""`python report.py diagnose=<run folder> ...`: figures of what the attentions of a run do."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from attnlab.config.report_schema import Quantity
from attnlab.config.suggest import hint, listed, nearest
from attnlab.run.run_argument import asked_config, folder_words, subset_problem
from attnlab.run.run_folder import RunError, require_writable

HELP = """python report.py diagnose=<run folder> [key=value ...]

Figures of what the attentions of a finished or stopped run do, and their numbers as csv.

  diagnose=...     the run folder (experiments/runs/<task>/<model>/<tag>/seed<k>)
  compare=...      another run of the same task, drawn into the same pictures
  quantities=...   some of norms,values,weights,locality,gradients (default: all)
  subset=...       test/ood, val, train, ... (default: the first test subset)
  examples=...     how many examples of it are read (default: 64)
  example=...      the number of the example that maps show (default: one of middling length)
  out=...          folder of the files (default: diagnosis/ in the run folder)
  paths.data=... paths.cache=...   where the data lies (default: as in the run's configuration)
"""

KEYS = ("diagnose", "compare", "quantities", "subset", "examples", "example", "out", "paths.data", "paths.cache")
QUANTITIES: tuple[str, ...] = get_args(Quantity)
USAGE_ERROR, FAILED = 2, 1


def diagnose_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code. torch is imported when the words are right."""
    if not argv or any(word in ("--help", "-h") for word in argv):
        print(HELP)
        return 0 if argv else USAGE_ERROR
    own = dict(word.split("=", 1) for word in argv if "=" in word)
    problems = _word_problems(argv) or _value_problems(own)
    if problems:
        n = len(problems)
        print(f"{n} problem{'' if n == 1 else 's'} in the command, nothing was drawn:", file=sys.stderr)
        print(*(f"  - {problem}" for problem in problems), sep="\n", file=sys.stderr)
        print("`python report.py diagnose=<run folder> --help` lists what is allowed.", file=sys.stderr)
        return USAGE_ERROR
    try:
        written = _draw(own)
    except RunError as error:
        print(f"failed: {error}", file=sys.stderr)
        return FAILED
    print(*written, sep="\n")
    return 0


def _draw(own: Mapping[str, str]) -> list[Path]:
    from attnlab.attention.base import TooLong
    from attnlab.config.check import ConfigError
    from attnlab.data.files.fetch import DataError
    from attnlab.report.diagnose.run_figures import EXAMPLES, ExampleChoice, diagnose_run

    folder = Path(own["diagnose"])
    out = Path(own.get("out", folder / "diagnosis"))
    require_writable(out, "choose another folder with out=")
    source = ExampleChoice(
        subset=own.get("subset"),
        examples=int(own.get("examples", EXAMPLES)),
        example=int(own["example"]) if "example" in own else None,
        paths={key.partition(".")[2]: value for key, value in own.items() if key.startswith("paths.")},
    )
    compare = Path(own["compare"]) if "compare" in own else None
    try:
        return diagnose_run(folder, out, _quantities(own), compare, source)
    except (DataError, TooLong, ConfigError) as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror}; choose another folder with out=") from None


def _quantities(own: Mapping[str, str]) -> list[str]:
    return own["quantities"].split(",") if "quantities" in own else list(QUANTITIES)


def _word_problems(argv: Sequence[str]) -> list[str]:
    """Words that say nothing to this command."""
    folders = folder_words(argv, ("diagnose", "compare"))
    problems = [f"{word}: write {instead}" for word, instead in folders.items()]
    for word in argv:
        key, equals, value = word.partition("=")
        if key in KEYS:
            problems += [] if equals and value else [f"{word}: expected {key}=value"]
        elif word not in folders:
            problems.append(f"{key}: unknown key{hint(nearest(key, KEYS))}; allowed: {listed(KEYS)}")
    if not any(word.split("=")[0] == "diagnose" for word in argv):
        problems.append("diagnose: missing; give diagnose=<run folder>")
    return problems


def _value_problems(own: Mapping[str, str]) -> list[str]:
    problems = [
        f"quantities={name}: expected some of {listed(QUANTITIES)}{hint(nearest(name, QUANTITIES))}"
        for name in _quantities(own)
        if name not in QUANTITIES
    ]
    for key, least in (("examples", 1), ("example", 0)):
        if key in own and not (own[key].isdecimal() and int(own[key]) >= least):
            problems.append(f"{key}={own[key]}: expected a whole number from {least} on")
    configs = {key: _run_config(key, Path(own[key]), problems) for key in ("diagnose", "compare") if key in own}
    if _quantities(own) == ["gradients"]:
        return problems
    problems += [problem for key in configs if configs[key] for problem in _weights_problems(key, Path(own[key]))]
    if "subset" in own:
        tasks = [config["task"] for config in configs.values() if config]
        problems += list(dict.fromkeys(filter(None, (subset_problem(task, own["subset"]) for task in tasks))))
    tasks = [config["task"]["name"] for config in configs.values() if config]
    if len(set(tasks)) > 1:
        problems.append(f"compare={own['compare']}: a run of {tasks[1]}, which has no axes in common with {tasks[0]}")
    return problems


def _run_config(key: str, folder: Path, problems: list[str]) -> dict[str, Any] | None:
    """The configuration of a run folder, or None and one more problem."""
    try:
        return asked_config(key, folder)
    except RunError as error:
        problems.append(str(error))
        return None


def _weights_problems(key: str, folder: Path) -> list[str]:
    if (folder / "last.ckpt").exists():
        return []
    return [
        f"{key}={folder}: the run has saved no weights yet (no last.ckpt); wait for its first checkpoint, repeat "
        "its training command, or draw quantities=gradients, which needs none"
    ]
