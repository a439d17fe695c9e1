"""Counts of failures and times to success in report.json, as dataclasses."""

from dataclasses import dataclass, field

from attnlab.config.validation.type_check import Integral, Real, Record


@dataclass(frozen=True, kw_only=True)
class RunOutcome(Record):
    """The outcome of one run that counts.

    failed:   its number misses the threshold, or it diverged.
    diverged: its training stopped because the loss was not finite.
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
    """Tests between a row and the base row: p alone, and corrected for all rows of the table."""

    p: Real
    corrected: Real


@dataclass(frozen=True, kw_only=True)
class RowSuccess(Record):
    """Failures and times of one row.

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
    """Failures of every row, by the threshold that the experiment declares.

    against: the base row of the tests; None = no test.
    notes:   sentences: tests that cannot be made, runs that do not count.
    """

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
