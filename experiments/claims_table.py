"""Writes docs/claims.md: every claim of the papers, what answers it, and its state.

    python experiments/claims_table.py

Reads claims_of_the_papers.yaml, the presets of the claims, queue.json and the archives. Reports of
experiments/reports/claims that are newer than archives and preset are read, others are made.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from background.archives import PILOT, restore
from background.places import HERE, MEASURED, PRESETS, REPORTS, ROOT, CampaignError
from background.queue import preset_at, read_queue
from findings import has_outcome, made_report, table

sys.path.append(str(ROOT))
from attnlab.config.message_text import counted, listed
from attnlab.learn.metric_units import SHARE
from attnlab.report.figures.forest import lines_of, numbers_of
from attnlab.report.report_record import ReportFile, read_report
from attnlab.report.runs.select_runs import select_jobs
from attnlab.report.statistics.differences import REFUTED, SUPPORTED, UNDECIDED
from attnlab.run_script import exit_code_of
from benchmarks.harness.speed_by_length_figure import MEMORY, SPEED, tables

PAGE, SOURCE = ROOT / "docs/claims.md", HERE / "claims_of_the_papers.yaml"
KEYS = {"claim", "where", "answered_by", "measured", "exploratory", "cannot"}
MARKS = "opposite", "other_readings"
"""lists of some hypotheses of an answer"""
OTHER_READING = ", another reading of the paper, not counted"
HOLDS, IN_PART, MIXED, AGAINST = "holds", "holds in part", "mixed", "contradicted"
ASKED, WRITTEN, CANNOT, EXPLORATORY, OPEN = "asked", "written", "cannot", "exploratory", "open"
STATES = HOLDS, IN_PART, MIXED, AGAINST, UNDECIDED, ASKED, WRITTEN, CANNOT, EXPLORATORY, OPEN
"""answers to a claim"""
FOR_PAPER, AGAINST_PAPER = "for", "against"
SIDES = FOR_PAPER, AGAINST_PAPER, UNDECIDED
"""of a verdict"""
NOISE = 4 / 3
"""ratio of two measured numbers that repeats of a benchmark can differ by (experiments/measured/table7_cpu)"""
INTRODUCTION = """\
All answers are of small networks; the settings stand in the linked presets, and [findings](findings.md) explains the
numbers.

| answer | verdicts of the hypotheses on the claim |
| --- | --- |
| holds | all for the paper |
| holds in part | some for the paper, none against it; others undecided or to come |
| mixed | some for the paper, some against it |
| contradicted | some against the paper, none for it |
| undecided | none for or against it: an interval lies across the claimed range, or a ratio is near 1 |
| asked | declared before its runs; they are not all done |
| written | a preset, which is not in the queue yet |
| cannot | none here, or none at the published size, for the reason given below |
| exploratory | numbers without a hypothesis |
| open | nothing yet |

A verdict is *against* the paper if a hypothesis of the paper is refuted, or one that claims the opposite is supported,
for example that two rows are equal where the paper says that one fails. Intervals are corrected within a preset, not
over presets. *Shown before*: a pilot or an earlier claim had shown the outcome when the hypothesis was declared, or it
was declared after the first of its runs, so that it is no prediction."""
BENCHMARKS = """\
Verdicts on benchmarks (B8) have no interval, and are not counted above: they take ratios within a third of 1 as equal,
as repeats differ by that."""


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of a preset that answers a claim, and its state.

    verdict:     None = runs are left.
    is_opposite: it claims the opposite of the paper.
    is_other_reading: of another reading of the paper than the one that counts.
    """

    text: str
    verdict: str | None
    shown_before: bool
    is_declared: bool = True
    is_opposite: bool = False
    is_other_reading: bool = False

    @property
    def side(self) -> str | None:
        """Whether the verdict is for the paper or against it, or undecided; None without one."""
        if self.verdict in (None, UNDECIDED):
            return self.verdict
        return FOR_PAPER if (self.verdict == SUPPORTED) != self.is_opposite else AGAINST_PAPER

    @property
    def meaning(self) -> str:
        """What the verdict says of the paper, after a comma; empty if undecided."""
        if self.is_other_reading:
            return OTHER_READING
        return "" if self.side == UNDECIDED else f", {self.side} the paper"


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
        for key in MARKS:
            if unasked := set(references(entry, key)).difference(references(entry)):
                raise CampaignError(
                    f"{SOURCE.name}, {number}: {key}, but no hypothesis of the entry: {sorted(unasked)}"
                )
    return papers


def references(entry: Mapping[str, Any], key: str = "hypotheses") -> Iterator[tuple[str, int]]:
    """The presets of an entry, each with a position in its hypotheses."""
    for answer in entry.get("answered_by", ()):
        for position in answer.get(key, ()):
            yield answer["preset"], position


@cache
def declared(preset: str, section: str, key: str) -> Any:
    """A setting of a preset, as its file or else the last claim that it includes has it; None without one.

    Raises:
        CampaignError: there is no such preset.
    """
    with_included = preset_at(None, preset)
    if with_included is None:
        raise CampaignError(f"{SOURCE.name}: no {PRESETS}/{preset}.yaml")
    return first_setting(with_included, section, key)


def first_setting(with_included: Sequence[Any], section: str, key: str) -> Any:
    """The setting of a preset or of what it includes, from `preset_at`."""
    preset, *included = with_included
    if key in preset.get(section, {}):
        return preset[section][key]
    found = (first_setting(each, section, key) for each in reversed(included) if each is not None)
    return next((setting for setting in found if setting is not None), None)


def declared_hypotheses(preset: str) -> list[dict[str, Any]]:
    """`report.hypotheses` of a preset."""
    return declared(preset, "report", "hypotheses") or []


def claim_of_runs(preset: str) -> str:
    """The claim whose runs a preset reads: another one where it only asks more of archived runs."""
    return Path(declared(preset, "paths", "runs")).name


@cache
def report_of(preset: str) -> ReportFile | None:
    """The report of a claim, made if it is older than archives or preset; None without archives."""
    archives = list((MEASURED / claim_of_runs(preset)).glob("seed*.tar.xz"))
    file = REPORTS / preset / "report.json"
    if not archives:
        return None
    newest = max(each.stat().st_mtime for each in (*archives, ROOT / PRESETS / f"{preset}.yaml"))
    return read_report(file) if file.exists() and file.stat().st_mtime > newest else made_report(preset)


@cache
def progress(preset: str) -> str | None:
    """What is missing for verdicts of a preset; None where every run has an outcome."""
    report = report_of(preset)
    if report is None:
        if claim_of_runs(preset) in read_queue():
            return "declared, nothing archived yet"
        if not (ROOT / PRESETS / f"pilots/{preset}.yaml").exists():
            return "written"
        return "pilot done" if (MEASURED / preset / PILOT).exists() else "written, pilot not run yet"
    if has_outcome(report):
        return None
    runs = select_jobs(f"claims/{preset}", []).runs
    return f"runs {sum(run.state == 'finished' or run.diverged for run in runs)} of {len(runs)}"


def asked_states(entry: Mapping[str, Any]) -> dict[tuple[str, int], Hypothesis]:
    """The hypotheses of presets that answer an entry, by preset and position."""
    opposite, other_readings = (set(references(entry, key)) for key in MARKS)
    return {
        each: replace(state_of(*each), is_opposite=each in opposite, is_other_reading=each in other_readings)
        for each in references(entry)
    }


def state_of(preset: str, position: int) -> Hypothesis:
    """The state of a hypothesis."""
    hypothesis = declared_hypotheses(preset)[position]
    is_shown = bool(hypothesis.get("shown_before"))
    missing, report, link = progress(preset), report_of(preset), f"([{preset}](../{PRESETS}/{preset}.yaml))"
    if missing is not None or report is None:
        return Hypothesis(f"{missing} {link}", None, is_shown, claim_of_runs(preset) in read_queue())
    line = lines_of(report)[position]
    numbers = " ".join(numbers_of(line).split()) + (" points" if line.marks and line.unit == SHARE.name else "")
    low, high = line.answer.claimed or (None, None)
    below = hypothesis.get("direction", "better") == "better" and low is None and high is not None
    text = f"{line.answer.words}{' (lower is better)' if below else ''}; {numbers} {link}"
    return Hypothesis(text, line.answer.verdict, is_shown or line.answer.is_late)


def measured_states(entry: Mapping[str, Any]) -> list[Hypothesis]:
    """The comparisons of an entry that tables of `benchmarks.table7` answer, by steps a second or by memory.

    `{file, of: speed|memory, mode, length, row, than}`: a row is faster than another, or needs less memory. Supported
    or refuted where their ratio is beyond `NOISE` or its inverse. All numbers were known when it was asked.

    Raises:
        CampaignError: no such file, table, row or length.
    """
    states = []
    for asked in entry.get("measured", ()):
        file, mode, n, row, than = (asked[key] for key in ("file", "mode", "length", "row", "than"))
        is_speed = asked["of"] == "speed"
        title, is_better = (SPEED, "is faster") if is_speed else (MEMORY, "needs less memory")
        try:
            batch, measured = tables((ROOT / file).read_text(encoding="utf-8"))
            lines = measured[mode, title]
            ratio = lines[row][n] / lines[than][n] if is_speed else lines[than][n] / lines[row][n]
        except (OSError, LookupError, ValueError) as error:
            raise CampaignError(f"{SOURCE.name}: {file}: no {asked['of']} of {row}, {than} at {mode}, {n}") from error
        verdict = SUPPORTED if ratio > NOISE else REFUTED if ratio < 1 / NOISE else UNDECIDED
        claim = f"{row} {is_better} than {than} in {mode}, batch {batch}, {n:,} tokens"
        text = f"{claim}; {ratio:.2f} times ([measured](../{file}))"
        states.append(Hypothesis(text, verdict, shown_before=True))
    return states


def category(entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> str:
    """The answer to a claim."""
    sides = Counter(each.side for each in hypotheses)
    if sides[FOR_PAPER]:
        return MIXED if sides[AGAINST_PAPER] else HOLDS if sides.total() == sides[FOR_PAPER] else IN_PART
    fits = {
        AGAINST: sides[AGAINST_PAPER],
        UNDECIDED: sides[UNDECIDED],
        ASKED: any(each.is_declared for each in hypotheses),
        WRITTEN: hypotheses,
        CANNOT: CANNOT in entry,
        EXPLORATORY: EXPLORATORY in entry,
    }
    return next((name for name in STATES if fits.get(name)), OPEN)


def row(number: str, entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> list[str]:
    """The line of a claim in the table, with a link to its details."""
    sides = Counter(each.side for each in hypotheses)
    counts = [f"{sides[name]} {name}" for name in SIDES if sides[name]]
    counts += [f"{sides[None]} to come"] if sides[None] else []
    claim = f"{entry['claim']} ({entry['where']})"
    return [f"[{number}](#{number.lower()})", claim, f"**{category(entry, hypotheses)}**", ", ".join(counts)]


def details(number: str, entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> str:
    """The hypotheses of a claim one by one, those with a verdict first, and what else is known of it."""
    waiting = Counter((each.text, each.is_other_reading) for each in hypotheses if each.side is None)
    lines = []
    for each in hypotheses:
        if each.verdict:
            lines.append(
                f"**{each.verdict}**{each.meaning}{' (shown before)' if each.shown_before else ''}: {each.text}"
            )
    lines += [f"{count} to come{OTHER_READING if other else ''}: {text}" for (text, other), count in waiting.items()]
    lines += [f"{key}: {entry[key]}" for key in (EXPLORATORY, CANNOT) if key in entry]
    items = "\n".join(f"* {line}" for line in lines or [OPEN])
    return f"### {number}\n\n{entry['claim']}.\n\n{items}"


def summary(states: Sequence[str], hypotheses: Sequence[Hypothesis]) -> str:
    """Counts of claims by answer, and of verdicts."""
    counts = Counter(states)
    claims = listed([f"{counts[state]} {state}" for state in STATES])
    decided = [each for each in hypotheses if each.side]
    verdicts = f"{counted(len(decided), 'verdict')}: {sides_of(decided)}."
    new = [each for each in decided if not each.shown_before]
    return f"{counted(len(states), 'claim')}: {claims}.\n\n{verdicts} Not shown before: {sides_of(new)}."


def sides_of(hypotheses: Sequence[Hypothesis]) -> str:
    """How many verdicts are for the paper, against it, and undecided."""
    sides = Counter(each.side for each in hypotheses)
    return f"{sides[FOR_PAPER]} for the paper, {sides[AGAINST_PAPER]} against it, {sides[UNDECIDED]} undecided"


def page() -> str:
    """The text of docs/claims.md.

    Raises:
        CampaignError: as `source`, or a report cannot be made.
    """
    tables_of_papers, below, states, asked = [], [], [], {}
    for paper, claims in source().items():
        lines = []
        for number, entry in claims.items():
            found = asked_states(entry)
            hypotheses = [*found.values(), *measured_states(entry)]
            counting = [each for each in hypotheses if not each.is_other_reading]
            asked |= {each: state for each, state in found.items() if not state.is_other_reading}
            states.append(category(entry, counting))
            lines.append(row(number, entry, counting))
            below.append(details(number, entry, hypotheses))
        tables_of_papers.append(f"## {paper}\n\n{table(['', 'claim', 'answer', 'hypotheses'], lines)}")
    written = f"<!-- written by `python experiments/{Path(__file__).name}` from experiments/{SOURCE.name} -->"
    head = f"{written}\n# Claims of the papers\n\n{summary(states, list(asked.values()))}"
    explained = [f"## Answers and verdicts\n\n{INTRODUCTION}", f"## Claim by claim\n\n{BENCHMARKS}"]
    return "\n\n".join([head, *tables_of_papers, *explained, *below]) + "\n"


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
