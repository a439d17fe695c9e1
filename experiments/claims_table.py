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
from attnlab.report.statistics.differences import REFUTED, SUPPORTED, UNDECIDED, VERDICTS
from attnlab.run_script import exit_code_of
from benchmarks.harness.speed_by_length_figure import SPEED, tables

PAGE, SOURCE = ROOT / "docs/claims.md", HERE / "claims_of_the_papers.yaml"
KEYS = {"claim", "where", "answered_by", "measured", "exploratory", "cannot"}
DECIDED, DECLARED, WRITTEN = "decided", "declared", "written"
CANNOT, EXPLORATORY, OPEN = "cannot", "exploratory", "open"
STATES = DECIDED, UNDECIDED, DECLARED, WRITTEN, CANNOT, EXPLORATORY, OPEN
"""of a claim; the first one that fits is its state"""
NOISE = 4 / 3
"""ratio of two measured numbers that repeats of a benchmark can differ by (experiments/measured/table7_cpu)"""
INTRODUCTION = """\
*Decided*: a hypothesis on the claim is supported or refuted, in small networks, as the linked presets say;
[findings](findings.md) explains the numbers. They are differences with intervals that are corrected within a preset,
not over presets. *Against the paper*: the hypothesis claims the opposite, for example that two rows are equal where
the paper says that one of them fails. *Shown before*: a pilot or an earlier claim had shown the outcome when it was
declared, so that it is no prediction. *Asked*: not all runs are done. *Written*: not in the queue yet.
*Exploratory*: there are numbers, and no hypothesis. *Cannot*: why there can be no verdict, here or at the published
size. *Open*: nothing answers it yet. Verdicts on benchmarks (B8) have no interval: they take ratios within a third of
1 as equal, as repeats differ by that."""


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of a preset that answers a claim, and its state.

    verdict: None = runs are left.
    """

    text: str
    verdict: str | None
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
        if unasked := set(references(entry, "opposite")).difference(references(entry)):
            raise CampaignError(f"{SOURCE.name}, {number}: opposite, but no hypothesis of the entry: {sorted(unasked)}")
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
        if preset in read_queue():
            return "declared, not begun"
        return "pilot done" if (MEASURED / preset / PILOT).exists() else "written, pilot not run yet"
    if has_outcome(report):
        return None
    runs = select_jobs(f"claims/{preset}", []).runs
    return f"runs {sum(run.state == 'finished' or run.diverged for run in runs)} of {len(runs)}"


def state_of(preset: str, position: int, is_opposite: bool) -> Hypothesis:
    """The state of a hypothesis, which may claim the opposite of the paper."""
    is_shown = bool(declared_hypotheses(preset)[position].get("shown_before"))
    missing, report, link = progress(preset), report_of(preset), f"([{preset}](../{PRESETS}/{preset}.yaml))"
    if missing is not None or report is None:
        return Hypothesis(f"{missing} {link}", None, is_shown, preset in read_queue())
    line = lines_of(report)[position]
    numbers = " ".join(numbers_of(line).split()) + (" points" if line.marks and line.unit == SHARE.name else "")
    marks = ["shown before"] * is_shown + ["against the paper"] * is_opposite
    mark = f" ({', '.join(marks)})" if marks else ""
    text = f"**{line.answer.verdict}**{mark}: {line.answer.words}; {numbers} {link}"
    return Hypothesis(text, line.answer.verdict, is_shown, is_declared=True)


def measured_states(entry: Mapping[str, Any]) -> list[Hypothesis]:
    """The comparisons of an entry that tables of `benchmarks.table7` answer, by steps a second.

    `{file, mode, length, row, than}`: a row is faster than another. Supported or refuted where their ratio is beyond
    `NOISE` or its inverse. All numbers were known when it was asked.

    Raises:
        CampaignError: no such file, table, row or length.
    """
    states = []
    for asked in entry.get("measured", ()):
        file, mode, n, row, than = (asked[key] for key in ("file", "mode", "length", "row", "than"))
        try:
            batch, measured = tables((ROOT / file).read_text(encoding="utf-8"))
            lines = measured[mode, SPEED]
            ratio = lines[row][n] / lines[than][n]
        except (OSError, LookupError, ValueError) as error:
            raise CampaignError(f"{SOURCE.name}: {file} has no speed of {row} and {than} at {mode}, {n}") from error
        verdict = SUPPORTED if ratio > NOISE else REFUTED if ratio < 1 / NOISE else UNDECIDED
        claim = f"{row} is faster than {than} in {mode}, batch {batch}, {n:,} tokens"
        text = f"**{verdict}** (shown before): {claim}; {ratio:.2f} times ([measured](../{file}))"
        states.append(Hypothesis(text, verdict, shown_before=True, is_declared=True))
    return states


def category(entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> str:
    """The state of a claim."""
    fits = {
        DECIDED: any(each.verdict in (SUPPORTED, REFUTED) for each in hypotheses),
        UNDECIDED: any(each.verdict for each in hypotheses),
        DECLARED: any(each.is_declared for each in hypotheses),
        WRITTEN: bool(hypotheses),
        CANNOT: "cannot" in entry,
        EXPLORATORY: "exploratory" in entry,
    }
    return next((name for name in STATES if fits.get(name)), OPEN)


def row(number: str, entry: Mapping[str, Any], hypotheses: Sequence[Hypothesis]) -> list[str]:
    """The line of a claim in the table."""
    verdicts = Counter(each.verdict for each in hypotheses if each.verdict)
    waiting = Counter(each.text for each in hypotheses if not each.verdict)
    counts = [f"{verdicts[name]} {name}" for name in VERDICTS if verdicts[name]]
    counts += [f"{waiting.total()} asked"] if waiting else []
    states = [f"**{listed(counts)}**"] if len(counts) > 1 else []
    states += [each.text for each in hypotheses if each.verdict]
    states += [f"{count} asked: {text}" for text, count in waiting.items()]
    states += [f"{key}: {entry[key]}" for key in (EXPLORATORY, CANNOT) if key in entry]
    return [number, f"{entry['claim']} ({entry['where']})", "<br>".join(states) or OPEN]


def summary(states: Sequence[str], hypotheses: Sequence[Hypothesis]) -> str:
    """Counts of claims by state, and of verdicts."""
    counts = Counter(states)
    claims = listed([f"{counts[state]} {state}" for state in STATES])
    decided = [each for each in hypotheses if each.verdict]
    verdicts = Counter(each.verdict for each in decided)
    parts = listed([f"{verdicts[name]} {name}" for name in VERDICTS])
    new = Counter(each.verdict for each in decided if not each.shown_before)
    predictions = listed([f"{new[name]} {name}" for name in VERDICTS])
    verdict_text = (
        f"{counted(len(decided), 'verdict')}: {parts}. Their outcome had not been shown before: {predictions}."
    )
    return f"{counted(len(states), 'claim')}: {claims}. {verdict_text}"


def page() -> str:
    """The text of docs/claims.md.

    Raises:
        CampaignError: as `source`, or a report cannot be made.
    """
    parts, states, all_hypotheses = [], [], {}
    for paper, claims in source().items():
        lines = []
        for number, entry in claims.items():
            opposite = set(references(entry, "opposite"))
            found: dict[Any, Hypothesis] = {each: state_of(*each, each in opposite) for each in references(entry)}
            found |= {(number, at): state for at, state in enumerate(measured_states(entry))}
            all_hypotheses |= found
            states.append(category(entry, list(found.values())))
            lines.append(row(number, entry, list(found.values())))
        parts.append(f"## {paper}\n\n{table(['number', 'claim', 'state'], lines)}")
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
