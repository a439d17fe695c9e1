"""Writes docs/claims.md: every claim of the papers, what answers it, and its state.

    python experiments/claims_table.py

Reads claims_of_the_papers.yaml, the presets of the claims, queue.json and the archives. Reports of
experiments/reports/claims that are newer than archives and preset are read, others are made.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from campaign import HERE, MEASURED, PRESETS, REPORTS, ROOT, CampaignError, read_queue, restore
from findings import has_outcome, made_report, table

from attnlab.config.message_text import counted, listed
from attnlab.config.shipped_files import CONF
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.figures.forest import lines_of, numbers_of
from attnlab.report.page.sections import verdicts
from attnlab.report.report_record import ReportFile, read_report
from attnlab.report.runs.select_runs import select_jobs
from attnlab.run_script import exit_code_of

PAGE, SOURCE = ROOT / "docs/claims.md", HERE / "claims_of_the_papers.yaml"
KEYS = {"claim", "where", "answered_by", "exploratory", "cannot"}
VERDICT, DECLARED, CANNOT, EXPLORATORY, OPEN = "with a verdict", "declared", "cannot", "exploratory", "open"
"""states of a claim; the first one that fits is its state"""
INTRODUCTION = """\
Numbers are differences with corrected intervals, which [findings](findings.md) explains; presets say which small
networks they are about. A verdict is one on the hypothesis in its words, which may claim the opposite of the paper:
that two rows are equal where the paper says that one of them fails. *Shown before*: a pilot or an earlier claim had
shown the difference when the hypothesis was declared, so that its verdict is no prediction. *Exploratory*: there are
numbers, and no hypothesis. *Cannot*: why there can be no verdict, here or at the published size. *Open*: nothing
answers it yet."""


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of a preset that answers a claim, and its state.

    answer: None = runs are left.
    """

    text: str
    answer: HypothesisAnswer | None
    shown_before: bool
    is_declared: bool


def source() -> dict[str, dict[str, dict[str, Any]]]:
    """The claims by paper and number, checked against the presets.

    Raises:
        CampaignError: an entry has other keys, or names a preset or a hypothesis that does not exist.
    """
    papers: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    for number, entry in ((number, entry) for claims in papers.values() for number, entry in claims.items()):
        if not {"claim", "where"} <= entry.keys() <= KEYS:
            raise CampaignError(
                f"{SOURCE.name}, {number}: needs claim and where, and may have {', '.join(sorted(KEYS))}"
            )
        for preset, position in references(entry):
            count = len(declared_hypotheses(preset))
            if not 0 <= position < count:
                raise CampaignError(f"{SOURCE.name}, {number}: {preset} has no hypothesis {position}, it has {count}")
    return papers


def references(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The presets of an entry, each with a position in its hypotheses."""
    for answer in entry.get("answered_by", ()):
        for position in answer["hypotheses"]:
            yield answer["preset"], position


@cache
def preset_file(preset: str) -> Path:
    """The file of a preset of the claims.

    Raises:
        CampaignError: there is none.
    """
    file = CONF / "experiment" / "claims" / f"{preset}.yaml"
    if not file.is_file():
        raise CampaignError(f"{SOURCE.name}: no {PRESETS}/{preset}.yaml")
    return file


@cache
def declared_hypotheses(preset: str) -> list[dict[str, Any]]:
    """`report.hypotheses` of a preset, as its file or the last claim that it includes has them.

    Raises:
        CampaignError: there is no such preset.
    """
    text = yaml.safe_load(preset_file(preset).read_text(encoding="utf-8"))
    if "hypotheses" in text.get("report", {}):
        return list(text["report"]["hypotheses"])
    place = "/experiment/claims/"
    included = [str(each).removeprefix(place) for each in text.get("defaults", ()) if str(each).startswith(place)]
    return declared_hypotheses(included[-1]) if included else []


@cache
def report_of(preset: str) -> ReportFile | None:
    """The report of a claim, made if it is older than archives or preset; None without archives."""
    archives, file = list((MEASURED / preset).glob("seed*.tar.xz")), REPORTS / preset / "report.json"
    if not archives:
        return None
    newest = max(each.stat().st_mtime for each in (*archives, preset_file(preset)))
    return read_report(file) if file.exists() and file.stat().st_mtime > newest else made_report(preset)


@cache
def progress(preset: str) -> str | None:
    """What is missing for verdicts of a preset; None where every run has an outcome."""
    report = report_of(preset)
    if report is None:
        return "declared, not begun" if preset in read_queue() else "not in the queue"
    if has_outcome(report):
        return None
    runs = select_jobs(f"claims/{preset}", []).runs
    return f"runs {sum(run.state == 'finished' or run.diverged for run in runs)} of {len(runs)}"


def state_of(preset: str, position: int) -> Hypothesis:
    """The state of a hypothesis."""
    is_shown = bool(declared_hypotheses(preset)[position].get("shown_before"))
    mark, missing, report = " (shown before)" if is_shown else "", progress(preset), report_of(preset)
    if missing is not None or report is None:
        return Hypothesis(f"`{preset}`{mark}: {missing}", None, is_shown, preset in read_queue())
    line = lines_of(report)[position]
    numbers = " ".join(numbers_of(line).split())
    text = f"**{line.answer.verdict}**{mark}: {line.answer.words}; {numbers} (`{preset}`)"
    return Hypothesis(text, line.answer, is_shown, is_declared=True)


def category(entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> str:
    """The state of a claim."""
    fits = {
        VERDICT: any(each.answer for each in hypotheses),
        DECLARED: any(each.is_declared for each in hypotheses),
        CANNOT: "cannot" in entry,
        EXPLORATORY: "exploratory" in entry,
    }
    return next((name for name, does_fit in fits.items() if does_fit), OPEN)


def row(number: str, entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> list[str]:
    """The line of a claim in the table."""
    presets = dict.fromkeys(preset for preset, _ in references(entry))
    links = [f"[{preset}](../{PRESETS}/{preset}.yaml)" for preset in presets]
    states = [each.text for each in hypotheses]
    states += [f"{key}: {entry[key]}" for key in (EXPLORATORY, CANNOT) if key in entry]
    return [number, f"{entry['claim']} ({entry['where']})", ", ".join(links), "<br>".join(states) or OPEN]


def summary(states: Sequence[str], hypotheses: Sequence[Hypothesis]) -> str:
    """Counts of claims by state, and of verdicts."""
    counts = Counter(states)
    claims = listed([f"{counts[state]} {state}" for state in (VERDICT, DECLARED, EXPLORATORY, CANNOT, OPEN)])
    decided = [each for each in hypotheses if each.answer]
    parts = listed([f"{n} {name}" for name, n in verdicts([each.answer for each in decided if each.answer]).items()])
    shown = sum(each.shown_before for each in decided)
    predictions = f"{len(decided) - shown} were predictions, {shown} were shown before" if shown else ""
    remark = predictions or "none of them is marked as shown before"
    return f"{counted(len(states), 'claim')}: {claims}. {counted(len(decided), 'verdict')}: {parts}; {remark}."


def page() -> str:
    """The text of docs/claims.md.

    Raises:
        CampaignError: as `source`, or a report cannot be made.
    """
    parts, states, all_hypotheses = [], [], {}
    for paper, claims in source().items():
        lines = []
        for number, entry in claims.items():
            found = {each: state_of(*each) for each in references(entry)}
            all_hypotheses |= found
            states.append(category(entry, list(found.values())))
            lines.append(row(number, entry, list(found.values())))
        parts.append(f"## {paper}\n\n{table(['number', 'claim', 'answered by', 'state'], lines)}")
    written = f"<!-- written by `python experiments/{Path(__file__).name}` from experiments/{SOURCE.name} -->"
    head = f"{written}\n# Claims of the papers\n\n{summary(states, list(all_hypotheses.values()))}"
    return "\n\n".join([head, INTRODUCTION, *parts]) + "\n"


def main(argv: Sequence[str]) -> int:
    """Command line; returns the exit code."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS, formatter_class=formatter).parse_args(argv)
    try:
        source()
        restore()
        PAGE.write_text(page())
    except CampaignError as error:
        print(f"claims_table.py: {error}", file=sys.stderr)
        return 2
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
