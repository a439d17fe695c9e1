"""Writes docs/findings.md, its pictures and the results in README.md from the archives of the claims.

    python experiments/findings.py

Unpacks experiments/measured/claims, makes the report of each claim in experiments/reports/claims, and fills the numbers
of these reports into findings.md.j2 and results.md.j2. The page answers the claims in which every run has an outcome,
and lists the others.
"""

import argparse
import contextlib
import io
import math
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from background.archives import restore
from background.places import HERE, MEASURED, REPORTS, ROOT, RUNS, CampaignError
from background.queue import read_queue
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy import stats

from attnlab.analysis.power_of_tests import LEVEL
from attnlab.config.message_text import counted, listed
from attnlab.learn.metric_units import SHARE, lower_is_better, number, scaled, unit_of
from attnlab.plots.style import save
from attnlab.report.analysis_record import HypothesisAnswer, RowSuccess
from attnlab.report.cli import report_main
from attnlab.report.figures.forest import ForestLine, forest_of_reports, lines_of, numbers_of
from attnlab.report.page.sections import verdicts
from attnlab.report.published_numbers import published_table
from attnlab.report.report_record import Cell, Origin, ReportFile, read_report
from attnlab.report.runs.read_runs import ReportRun, look
from attnlab.report.statistics.data_seeds import paired_on_data
from attnlab.report.statistics.differences import (
    UNDECIDED,
    ClaimedRange,
    PairedDifference,
    mean,
    p_text,
    verdict,
)
from attnlab.report.statistics.rank_correlation import RankCorrelation
from attnlab.report.text_tables import mean_and_sd
from attnlab.run_script import exit_code_of

PAGE, PICTURES, README = ROOT / "docs/findings.md", ROOT / "docs/images/findings", ROOT / "README.md"
RESULTS = re.compile(r"(?s)(<!-- below: `python experiments/findings.py` -->\n).*?(<!-- end -->)")
PUBLISHED = {
    ("sort_of_clevr_background", "binary"): "park2024/table2_sort_of_clevr",
    ("cogs", "gen"): "csordas2021/cogs",
}
"""tables of larger networks that were published, by claim and column of hypotheses on the same models and metric"""


@dataclass(frozen=True)
class SignedRanks(PairedDifference):
    """A difference over seeds with Wilcoxon's signed-rank test in place of the t-test, and without an interval."""

    def one_sided(self, end: float) -> tuple[float, float]:
        """The p-values of the claims that the difference is above an end, and that it is below."""
        if math.isinf(end):
            return super().one_sided(end)
        gains = [gain - end for gain in self.differences]
        above, below = (float(stats.wilcoxon(gains, alternative=side).pvalue) for side in ("greater", "less"))
        return above, below


@dataclass(frozen=True)
class Claim:
    """A claim and its report, with the texts that the templates ask for.

    Numbers are in the unit of their column. A row or a column that the report lacks is an error.

    tests: hypotheses of all claims together.
    """

    name: str
    report: ReportFile
    tests: int

    @property
    def origin(self) -> Origin:
        """Cost, commits, processors and versions of the runs."""
        return self.report.origin or Origin()

    @property
    def runs(self) -> int:
        """The runs that are finished or diverged."""
        return self.origin.runs or 0

    @property
    def hours(self) -> float:
        """Hours of training on one thread."""
        return (self.origin.seconds or 0.0) / 3600

    @property
    def lines(self) -> list[ForestLine]:
        """The hypotheses with their answers."""
        return lines_of(self.report)

    @property
    def origin_row(self) -> list[str]:
        """Name, commit of the runs, their number, hours on one thread, processors."""
        origin = self.origin
        processors = dict.fromkeys(hardware.partition(",")[0] for hardware in origin.hardware)
        return [f"`{self.name}`", listed(origin.commits), f"{self.runs:,}", f"{self.hours:.1f}", listed(processors)]

    def hypotheses(self) -> str:
        """A list of the hypotheses with verdicts, effects, corrected p-values, and what would decide them."""
        lines = []
        for line in self.lines:
            answer = line.answer
            parts = [" ".join(numbers_of(line).split())]
            parts += ["equal in all seeds"] if line.marks and line.marks[1] == line.marks[2] else []
            parts += [f"corrected {p_text(answer.corrected)}"] if answer.corrected is not None else []
            parts += [f"published {number(answer.published, line.unit)}"] if answer.published is not None else []
            parts += filter(None, [answer.fragility, answer.needed, answer.known])
            lines.append(f"* **{answer.verdict}**: {answer.words}; {'; '.join(parts)}")
        return "\n".join(lines)

    def lost_together(self, answer: HypothesisAnswer) -> bool:
        """Whether a verdict would be undecided if corrected for the hypotheses of all claims."""
        return answer.verdict != UNDECIDED and answer.p is not None and answer.p * self.tests > LEVEL

    def verdict_by_ranks(self, answer: HypothesisAnswer) -> str | None:
        """The verdict by Wilcoxon's signed-rank test in place of the t-test, with the same correction; None of shares
        of failed runs and adjusted differences, where runs diverged, and where they are too few for any verdict by this
        test."""
        if answer.claimed is None or answer.statistic is not None:
            return None
        pair, tests = self.pair(answer.row, answer.than, answer.column), len(self.lines)
        low, high = answer.claimed
        claimed = ClaimedRange(-math.inf if low is None else low, math.inf if high is None else high)
        is_enough = pair.ranks is None and tests * 0.5 ** (len(pair.by_seed) - 1) <= LEVEL
        ranks = SignedRanks(pair.by_seed, pair.mean, None, None, None, "Wilcoxon's test", tests=tests)
        return verdict(ranks, claimed) if is_enough else None

    def verdict(self, row: str, than: str) -> str:
        """The verdict of a hypothesis, with a star if it would be undecided if corrected for all claims."""
        answers = self.report.hypotheses or ()
        answer = next(answer for answer in answers if (answer.row, answer.than) == (row, than))
        return f"{answer.verdict}{'*' if self.lost_together(answer) else ''}"

    def cell(self, row: str, column: str) -> Cell:
        """The cell of a row and a column."""
        rows = {each.name: each for each in self.report.rows}
        cell = rows[row].cell(column)
        if cell is None or cell.mean is None:
            raise KeyError(f"{self.name}: {row} has no number in {column}")
        return cell

    def mean(self, row: str, column: str = "ood") -> str:
        """The mean over seeds: `70.9`."""
        cell = self.cell(row, column)
        return number(cell.mean or 0.0, cell.column.unit)

    def runs_of(self, row: str, column: str) -> list[ReportRun]:
        """The runs of a cell."""
        return [look(RUNS / self.name / str(seed.folder)) for seed in self.cell(row, column).seeds]

    def of_runs(self, row: str, column: str, metric: str) -> str:
        """The mean of another metric over the runs of a cell: `99.2`."""
        values = [run.value(metric) for run in self.runs_of(row, column)]
        if None in values:
            raise KeyError(f"{self.name}: runs of {row} have no {metric}")
        return number(mean(values), unit_of(metric).name)

    def spread(self, row: str, column: str = "ood") -> str:
        """Mean, standard deviation and number of seeds: `70.9 ± 5.4 (20)`."""
        return spread(self.cell(row, column))

    def extremes(self, row: str, column: str) -> str:
        """The lowest and the highest run of a cell: `12.0 to 50.6`."""
        cell = self.cell(row, column)
        values = [seed.value for seed in cell.seeds if seed.value is not None]
        return extremes(values, cell.column.unit)

    def of_seed(self, row: str, seed: int, column: str) -> str:
        """The number of one run: `95.7`."""
        cell = self.cell(row, column)
        return number(cell.values[seed], cell.column.unit)

    def below(self, threshold: float, column: str, row: str = "", metric: str | None = None) -> str:
        """Runs with less than a threshold in a column, or in another metric: `2 of 8`.

        Args:
            row: counted are runs of this row, or of this model; empty: of all rows.
        """
        rows = [each.name for each in self.report.rows if f"{each.name}, ".startswith(f"{row}, " if row else "")]
        runs = [run for name in rows for run in self.runs_of(name, column)]
        values = [run.value(metric or self.cell(rows[0], column).column.metric) for run in runs]
        return f"{sum(value < threshold for value in values if value is not None)} of {len(values)}"

    def extremes_at(self, row: str, column: str, metric: str, step: int) -> str:
        """The lowest and the highest number of a metric at a step over the runs of a cell: `0.57 to 1.69`."""
        rows = (logged for run in self.runs_of(row, column) for logged in run.logged((metric,)))
        values = [scaled(metric, value) for at, _, value in rows if at == step]
        return extremes(values, unit_of(metric).name)

    def at_length(self, row: str, column: str, length: str) -> str:
        """The mean at one length, or at several, as the report names them."""
        parts = {part.name: part.mean for part in self.cell(row, column).by_length or ()}
        return number(parts[length], SHARE.name)

    def above(self, column: str, threshold: float) -> str:
        """The rows with a mean above a number, each in backticks, joined by commas."""
        cells = ((row.name, row.cell(column)) for row in self.report.rows)
        names = [f"`{name}`" for name, cell in cells if cell and cell.mean is not None and cell.mean > threshold]
        return listed(names, most=len(names))

    def shortcut(self, column: str) -> str:
        """The best shortcut of a column: `45.5`."""
        cells = [cell for cell in self.report.each() if cell.column.name == column and cell.shortcuts]
        return number(cells[0].shortcuts[0][1], cells[0].column.unit)

    def pair(self, row: str, against: str, column: str, claim: "Claim | None" = None) -> PairedDifference:
        """The difference of two rows over common seeds, corrected for as many tests as the report makes.

        Args:
            claim: the claim of the first row, if it is another one with the same settings.
        """
        ours, theirs = (claim or self).cell(row, column), self.cell(against, column)
        pair = paired_on_data(ours.seeds, theirs.seeds, ours.column.metric, len(self.report.comparisons))
        if pair is None:
            raise KeyError(f"{self.name}: {row} and {against} have no seeds in common in {column}")
        return pair

    def difference(self, row: str, against: str, column: str = "ood", claim: "Claim | None" = None) -> str:
        """A difference that is no hypothesis, with its interval: `5.6 (-0.001 to 11.1)`; `claim` as in `pair`."""
        pair, unit = self.pair(row, against, column, claim), self.report.units[column]
        if pair.mean is None or pair.low is None or pair.high is None:
            raise KeyError(f"{self.name}: {row} and {against} have no interval in {column}")
        center, low, high = (number(value, unit, bounds=[0.0]) for value in (pair.mean, pair.low, pair.high))
        return f"{center} ({low} to {high})"

    def better(self, row: str, against: str, column: str = "ood") -> str:
        """The seeds in which a row is better: `13 of 20 seeds`."""
        gains = self.pair(row, against, column).differences
        sign = -1 if lower_is_better(self.cell(row, column).column.metric) else 1
        return f"{sum(sign * gain > 0 for gain in gains)} of {len(gains)} seeds"

    def correlation(self, row: str, x: str, y: str) -> str:
        """Spearman's rank correlation of two columns over the seeds of a row: `0.27 (-0.10 to 0.58)`."""
        xs, ys = ({seed.seed: seed.value for seed in self.cell(row, column).seeds} for column in (x, y))
        pairs = [(xs[seed], ys[seed]) for seed in xs.keys() & ys.keys()]
        common = [(across, up) for across, up in pairs if across is not None and up is not None]
        return str(RankCorrelation(*zip(*common, strict=True)))

    def success(self, row: str) -> RowSuccess:
        """How many runs of a row fail, and how soon the others succeed."""
        line = self.report.success and self.report.success.of(row)
        if line is None:
            raise KeyError(f"{self.name}: failures of {row} are not counted")
        return line

    def failed(self, row: str) -> str:
        """Failed runs of a row: `2 of 6`."""
        line = self.success(row)
        return f"{line.failed} of {line.n}"

    def median_steps(self, row: str) -> str:
        """Steps after which half of the runs of a row have reached the declared threshold in validation: `30,000`."""
        line = self.success(row)
        if line.median is None:
            raise KeyError(f"{self.name}: half of the runs of {row} have not reached the threshold")
        return f"{line.median:,.0f}"

    def table(self, *columns: str) -> str:
        """A table of means, standard deviations and numbers of seeds."""
        cells = {row.name: [row.cell(column) for column in columns] for row in self.report.rows}
        lines = [[f"`{name}`", *(spread(cell) if cell else "" for cell in of_row)] for name, of_row in cells.items()]
        return table(["", *columns], lines)

    def by_rate(self, head: str, column: str | None = None) -> str:
        """A table of failed runs by model and learning rate, after the mean of a column if one is named."""
        return self.by_second_key(
            f"{head}, by learning rate",
            lambda row: f"{self.mean(row, column)} ({self.failed(row)})" if column else self.failed(row),
        )

    def by_width(self, head: str, column: str, other: str) -> str:
        """A table of a column by model and width, each with the mean of another column."""
        return self.by_second_key(
            f"{head}, by width", lambda row: f"{self.spread(row, column)}; {self.mean(row, other)}"
        )

    def by_second_key(self, head: str, text: Callable[[str], str]) -> str:
        """A table of texts on rows named by a model and another key: a line for each model."""
        models, settings = (dict.fromkeys(row.name.split(", ")[at] for row in self.report.rows) for at in (0, 1))
        lines = [[f"`{model}`", *(text(f"{model}, {each}") for each in settings)] for model in models]
        return table([head, *settings], lines)

    def picture(self, name: str) -> str:
        """A picture of the report, copied beside the page, with its caption."""
        [figure] = [figure for figure in self.report.figures if figure.file == f"{name}.png"]
        file = PICTURES / f"{self.name}_{figure.file}"
        shutil.copyfile(REPORTS / self.name / figure.file, file)
        return image(file, figure.caption or "")


def spread(cell: Cell) -> str:
    """Mean, standard deviation and number of seeds of a cell, without the length that carries it."""
    return mean_and_sd(cell).partition(",")[0]


def extremes(values: Collection[float], unit: str) -> str:
    """The lowest and the highest of some numbers: `12.0 to 50.6`."""
    return f"{number(min(values), unit)} to {number(max(values), unit)}"


def image(file: Path, caption: str, page: Path = PAGE) -> str:
    """A picture below the folder of a page in markdown."""
    return f"![{caption}]({file.relative_to(page.parent)})"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def forest(claims: Iterable[Claim], name: str, page: Path = PAGE, models: str = "", title: str | None = None) -> str:
    """The forest plot of the hypotheses of claims for a page.

    Args:
        models: hypotheses are drawn in which a row has this pattern.
        title: instead of the caption.
    """
    pattern, groups = re.compile(models), []
    for claim in claims:
        lines = [line for line in claim.lines if pattern.search(f"{line.answer.row}; {line.answer.than}")]
        groups += [(claim.report.title, lines)] if lines else []
    figure, caption = forest_of_reports(groups)
    return image(save(figure, PICTURES / f"{name}.png", caption), title or caption, page)


def made_report(name: str) -> ReportFile:
    """The report of a claim, made anew from its run folders.

    Raises:
        CampaignError: it cannot be made.
    """
    printed, out = io.StringIO(), REPORTS / name
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = report_main([f"experiment=claims/{name}", f"out={out}"])
    if code:
        raise CampaignError(f"the report of {name} ended with exit code {code}\n{printed.getvalue()}")
    print(f"report of {name}", file=sys.stderr)
    return read_report(out / "report.json")


def has_outcome(report: ReportFile) -> bool:
    """Whether every run of a report is finished or diverged."""
    return all(seed.state == "finished" or seed.diverged for cell in report.each() for seed in cell.seeds)


def answered_claims() -> list[Claim]:
    """The claims in which every run has an outcome, in the order of the queue, with reports made anew.

    Raises:
        CampaignError: a report cannot be made.
    """
    reports: dict[str, ReportFile] = {}
    for name in read_queue():
        if not any((MEASURED / name).glob("seed*.tar.xz")):
            continue
        report = made_report(name)
        if has_outcome(report):
            answers = [with_published(name, answer) for answer in report.hypotheses or ()]
            reports[name] = replace(report, hypotheses=answers)
    tests = sum(len(report.hypotheses or ()) for report in reports.values())
    return [Claim(name, report, tests) for name, report in reports.items()]


def published(table: str, row: str, column: str) -> float:
    """A number of experiments/published, by `<file>/<table>`."""
    value = published_table(table).cells[row, column].value
    if value is None:
        raise KeyError(f"{table}: no number of {row} in {column}")
    return value


def published_difference(table: str, row: str, than: str, column: str) -> float:
    """The difference of two numbers of a table of experiments/published."""
    return published(table, row, column) - published(table, than, column)


def with_published(claim: str, answer: HypothesisAnswer) -> HypothesisAnswer:
    """An answer with the published difference, where a table has both rows."""
    table = PUBLISHED.get((claim, answer.column))
    # the names of models are the first words of rows
    row, than = (name.partition(",")[0] for name in (answer.row, answer.than))
    pair = {(row, answer.column), (than, answer.column)}
    if table is None or answer.difference is None or not published_table(table).cells.keys() >= pair:
        return answer
    return replace(answer, published=published_difference(table, row, than, answer.column))


def names(claims: Mapping[str, Claim]) -> dict[str, Any]:
    """What the templates can name."""
    unfinished = [f"`{name}`" for name in read_queue() if name not in claims]
    lines = [(claim, line) for claim in claims.values() for line in claim.lines]
    by_ranks = [(claim, line, other) for claim, line in lines if (other := claim.verdict_by_ranks(line.answer))]
    counts = verdicts([line.answer for _, line in lines])
    pairs = (pair for claim in claims.values() for pair in claim.origin.versions.items())
    versions = dict.fromkeys(f"{name} {version}" for name, version in pairs)
    heads = ["claim", "commit", "runs", "hours", "processor"]
    return {
        "claims": claims,
        "unfinished": listed(unfinished, most=len(unfinished)) if unfinished else "",
        "verdicts": listed([f"{count} {verdict}" for verdict, count in counts.items()]),
        "lost_together": [f"{line.name} (`{claim.name}`)" for claim, line in lines if claim.lost_together(line.answer)],
        "tested_by_ranks": len(by_ranks),
        "other_by_ranks": [
            f"{line.name} (`{claim.name}`): {other}" for claim, line, other in by_ranks if other != line.answer.verdict
        ],
        "origins": table(heads, [claim.origin_row for claim in claims.values()]),
        "versions": listed(versions),
        "forest": forest,
        "readme": README,
        "published": published,
        "published_difference": published_difference,
    }


def main(argv: Sequence[str]) -> int:
    """Command line; returns the exit code."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS, formatter_class=formatter).parse_args(argv)
    try:
        restore()
        claims = {claim.name: claim for claim in answered_claims()}
    except CampaignError as error:
        print(f"findings.py: {error}", file=sys.stderr)
        return 2
    PICTURES.mkdir(parents=True, exist_ok=True)
    for file in PICTURES.glob("*.png"):
        file.unlink()
    templates = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True)
    templates.globals |= names(claims)
    PAGE.write_text(templates.get_template("findings.md.j2").render() + "\n")
    results = templates.get_template("results.md.j2").render()
    README.write_text(RESULTS.sub(lambda part: f"{part[1]}{results}\n{part[2]}", README.read_text()))
    print(f"{PAGE.relative_to(ROOT)}: {counted(len(claims), 'claim')}, {templates.globals['verdicts']}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
