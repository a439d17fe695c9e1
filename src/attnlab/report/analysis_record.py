"""Parts of report.json as dataclasses: numbers of runs, differences, answers to hypotheses, spent runs, failures."""

from dataclasses import dataclass, field

from attnlab.config.message_text import listed
from attnlab.config.validation.type_check import Integral, Real, Record

DIVERGED = "NonFiniteLoss:"
"""begins the reason of a run that diverged"""
LATE = "not declared before"
"""begins the declaration of a hypothesis that some runs were begun without"""
DATA_SEEDS = "data seeds"
"""what a paired difference counts on several data sets, else seeds"""


@dataclass(frozen=True, kw_only=True)
class ReportSeed(Record):
    """The number of one run in a cell: `value` in the unit of the column, None where the run has none.

    data_seed: of the data, where runs of the table differ in it; else None.
    """

    seed: Integral | str
    value: Real | None
    state: str
    reason: str | None = None
    folder: str | None = None
    data_seed: Integral | None = None

    @property
    def key(self) -> int | str:
        """What runs are paired by: the seed, `0 of data 1` where data seeds differ."""
        return self.seed if self.data_seed is None else f"{self.seed} of data {self.data_seed}"

    @property
    def diverged(self) -> bool:
        """Whether its training ended because the loss or a weight was not finite: an outcome without a number."""
        return self.state == "failed" and (self.reason or "").startswith(DIVERGED)

    @property
    def named_state(self) -> str:
        """The state; of a finished run without a value, that it has no number."""
        return "no number" if self.value is None and self.state == "finished" else self.state

    @property
    def short_state(self) -> str:
        """The named state; of a failed run the kind of error, as in `OutOfMemoryError: ...`."""
        return (self.reason or "").partition(":")[0] if self.state == "failed" else self.named_state

    @property
    def remark(self) -> str:
        """The named state, with the reason."""
        return f"{self.named_state}: {self.reason}" if self.reason else self.named_state


@dataclass(frozen=True, kw_only=True)
class LengthPart(Record):
    """A length of a breakdown, or a range of lengths with both ends, over the runs of one cell.

    last:        None where the range has no end.
    examples:    test examples of all runs together.
    share, mean: percent of the test examples that have these lengths, and of these that are right.
    right:       percent of all right answers that they are; None where no answer is right.
    """

    first: Integral
    last: Integral | None
    examples: Integral
    share: Real
    mean: Real
    right: Real | None = None

    @property
    def name(self) -> str:
        """`27`, `500-999`, `1000 and more`."""
        if self.last is None:
            return f"{self.first} and more"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def named(self) -> str:
        """`length 27`, `lengths 500-999`."""
        return f"length{'' if self.first == self.last else 's'} {self.name}"


@dataclass(frozen=True)
class Comparison(Record):
    """The difference of two rows over their common seeds.

    p, corrected: of the paired t-test, alone and by Bonferroni over all tests of the table; None without a test.
    units:        what else than seeds has a difference: data seeds; None = seeds, or the file is older.
    """

    column: str
    row: str
    against: str
    difference: Real | None
    low: Real | None
    high: Real | None
    method: str | None = None
    p: Real | None = None
    corrected: Real | None = None
    seeds: list[tuple[Integral | str, Real]] = field(default_factory=list)
    units: str | None = None


@dataclass(frozen=True, kw_only=True)
class RowRuns(Record):
    """Counts of the runs of one row: begun, diverged, finished with a number, compared (also diverged ones)."""

    row: str
    started: Integral
    diverged: Integral
    finished: Integral
    used: Integral


@dataclass(frozen=True, kw_only=True)
class HypothesisAnswer(Record):
    """A declared hypothesis, in words (`claim`, empty in older files), and its answer.

    verdict:  supported, refuted or undecided (`report.hypothesis_answers`); older files have other words.
    reason:   the numbers behind the verdict.
    needed:   what would decide it, of an undecided one; None where nothing is known of it.
    influential: seeds without one of which a verdict by an interval would be another.
    declared: whether the runs were begun under this hypothesis, in words.
    claimed: ends of the claimed differences, None = no end; None for failures, and in older files.
    published: difference of the published numbers of both rows; None where a row has none.
    difference, low, high: None where runs are compared by ranks, and for failures; the interval is corrected.
    p, corrected: of the test against the end of the claimed range; None without a test or without a spread.
    statistic: `adjusted for <column>` where the difference is that of rows alike in it; None = as the claim has it.
    shown_before: pilot or claim, if that had shown it before it was declared, so that it is no prediction; else None.
    """

    row: str
    than: str
    column: str
    verdict: str
    reason: str
    needed: str | None = None
    influential: list[Integral | str] = field(default_factory=list)
    claim: str = ""
    declared: str = ""
    claimed: tuple[Real | None, Real | None] | None = None
    published: Real | None = None
    difference: Real | None = None
    low: Real | None = None
    high: Real | None = None
    p: Real | None = None
    corrected: Real | None = None
    statistic: str | None = None
    shown_before: str | None = None
    runs: list[RowRuns] = field(default_factory=list)

    @property
    def is_range(self) -> bool:
        """Whether the ends are the range of a few seeds, and no interval."""
        return self.p is None and self.low != self.high

    @property
    def explanation(self) -> str:
        """The numbers, how far they rest on single seeds, what would decide it, and its declaration."""
        return "; ".join(filter(None, [self.reason, self.fragility, self.needed, self.known, self.declared]))

    @property
    def is_late(self) -> bool:
        """Whether some of its runs were begun before it was declared."""
        return self.declared.startswith(LATE)

    @property
    def known(self) -> str:
        """That it was shown before it was declared; empty for a prediction."""
        where = {"pilot": "a pilot", "claim": "an earlier claim"}
        return f"shown before by {where.get(self.shown_before, self.shown_before)}" if self.shown_before else ""

    @property
    def fragility(self) -> str:
        """That the verdict is another without one of some seeds; empty if no single seed carries it."""
        if not self.influential:
            return ""
        seeds, number = listed(map(str, self.influential)), len(self.influential)
        which = f"seed {seeds} is left out" if number == 1 else f"any one of {number} seeds is left out: {seeds}"
        return f"not {self.verdict} if {which}"

    @property
    def words(self) -> str:
        return self.claim or f"{self.row} is better than {self.than} in {self.column}"


@dataclass(frozen=True, kw_only=True)
class SpentRuns(Record):
    """All runs of one model on one task, in the table or not (`report.runs.select_runs.spent_runs`).

    settings: number of different settings, seeds aside; values: of each key with several values in them, how many.
    states:   number of runs by state.
    hours:    training time, of unfinished runs until their last checkpoint; without `untimed` runs, where not known.
    """

    task: str
    model: str
    settings: Integral
    values: dict[str, Integral] = field(default_factory=dict)
    states: dict[str, Integral]
    hours: Real
    untimed: Integral = 0

    @property
    def runs(self) -> int:
        return sum(self.states.values())


@dataclass(frozen=True, kw_only=True)
class DataSeedMean(Record):
    """The mean of a cell over the `n` runs on one data set."""

    data_seed: Integral
    mean: Real
    n: Integral


@dataclass(frozen=True, kw_only=True)
class DataSeedSpread(Record):
    """The numbers of a cell by data seed (`report.statistics.data_seeds`).

    within:   standard deviation between seeds on one data set, pooled; None if no data set has two numbers.
    between:  standard deviation between the means of data sets; None of fewer than two.
    expected: what `between` would be on average if data sets did not differ, from `within` alone.
    """

    row: str
    column: str
    means: list[DataSeedMean]
    within: Real | None = None
    between: Real | None = None
    expected: Real | None = None


@dataclass(frozen=True, kw_only=True)
class RunOutcome(Record):
    """The outcome of one run that counts: it failed if its number misses the threshold, or if it diverged.

    success_step:  the step of the first validation at the threshold; None = it has none.
    censored_step: without such a validation, the last step at which none is known; None = nothing was validated.
    """

    seed: Integral | str
    failed: bool
    diverged: bool = False
    success_step: Integral | None = None
    censored_step: Integral | None = None


@dataclass(frozen=True, kw_only=True)
class TestAgainstBase(Record):
    """P-value of a test between a row and the base row, alone and corrected for all rows of the table."""

    p: Real
    corrected: Real


@dataclass(frozen=True, kw_only=True)
class RowSuccess(Record):
    """Failures and times to success of one row.

    low, high: ends of the exact 95 % interval (Clopper and Pearson) of the share of failures, in percent.
    mean, successful_mean: over all numbers, and over the numbers of the successful runs.
    validated, reached: runs with a validation, and runs with one at the threshold.
    median, median_low, median_high: steps; None = never reached, or without such an end.
    fisher, log_rank: against the base row; None = no test.
    """

    row: str
    failed: Integral
    n: Integral
    low: Real | None = None
    high: Real | None = None
    mean: Real | None = None
    successful_mean: Real | None = None
    validated: Integral = 0
    reached: Integral = 0
    median: Real | None = None
    median_low: Real | None = None
    median_high: Real | None = None
    fisher: TestAgainstBase | None = None
    log_rank: TestAgainstBase | None = None
    runs: list[RunOutcome] = field(default_factory=list)

    def outcome(self, seed: int | str) -> RunOutcome | None:
        """The outcome of a seed (`ReportSeed.key`); None if its run does not count."""
        return next((run for run in self.runs if run.seed == seed), None)


@dataclass(frozen=True, kw_only=True)
class SuccessReport(Record):
    """Failures of every row by the declared threshold; `against` is the base row of the tests, None without a test."""

    column: str
    unit: str
    at_least: Real | None = None
    at_most: Real | None = None
    validation: str | None = None
    against: str | None = None
    rows: list[RowSuccess] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, row: str) -> RowSuccess | None:
        """The failures of a row; None if none of its runs can have any."""
        return next((success for success in self.rows if success.row == row), None)
