"""The typed `report:` block of an experiment: the table and figures that `report.py` makes; no part of any run."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

TableFigure = Literal[
    "bars", "by_length", "training", "time_to_success", "forest", "pairs", "iid_ood", "errors", "state_size"
]
"""figures that need no other option: `figures=` chooses among them"""
Quantity = Literal["norms", "values", "weights", "locality", "gradients"]


DATA_SEED = "task.data_seed"
"""key of the seed of the data, in tasks that draw theirs"""
SEEDS = ("seeds", "data_seeds")
ANALYSIS = ("rows", "row_names", "columns", "average", "best_over", "chosen_by", "hypotheses", "success", *SEEDS)
"""keys of `report:` that decide what is compared; a run records them at its start"""
FEWEST = 5
"""seeds that an interval and a test of a difference need"""
FEWEST_ADJUSTED = 6
"""seeds that a difference needs that is adjusted for another column: one more coefficient is estimated"""


@dataclass(kw_only=True)
class Average:
    """One more column of a table: the mean of others, seed by seed."""

    name: str
    """of the column"""
    of: list[str]
    """names of the columns that are averaged, in one unit"""


FORMS = ("than", "fails_less_than", "sooner_than", "varies_less_than")
"""keys that name the other row of a hypothesis; each has exactly one of them"""
Size = Annotated[float, "(0, inf)"]


@dataclass(kw_only=True)
class Hypothesis:
    """A claim, declared before the runs, that a report answers from its numbers.

    `{row, than, column}` claims a difference in a direction, with `at_least` one of a size; with `within` the rows are
    claimed to be equivalent, with `not_worse_by` the first not to be inferior; with `given` the difference is adjusted
    for another column. `{row, fails_less_than}` compares failures under `report.success`, `{row, sooner_than}` the
    steps until its `validation` is at the threshold, `{row, varies_less_than, column}` standard deviations over seeds.
    `config.validation.report_names` checks that a hypothesis has exactly one form.

    `shown_before` and `spread` are no part of what is claimed: hypotheses that differ in them alone are equal.
    """

    row: str
    """name of the row that the claim is about"""
    than: str | None = None
    """name of the row that it is compared with"""
    column: str | None = None
    """name of the column that is compared"""
    direction: Literal["better", "higher", "lower"] = "better"
    """of the claimed difference; better: higher or lower, as the column's metric has it"""
    at_least: Size | None = None
    """the difference is claimed to have at least this size, in the unit of the column"""
    within: Size | None = None
    """the difference is claimed to be at most this large, in either direction"""
    not_worse_by: Size | None = None
    """the row is claimed to be worse by at most this much"""
    given: str | None = None
    """a column that the difference is adjusted for: the claim is about rows that are alike in it"""
    fails_less_than: str | None = None
    """a row that is claimed to have a larger share of failing runs"""
    sooner_than: str | None = None
    """a row that is claimed to reach the threshold of `success` in its `validation` after more steps"""
    varies_less_than: str | None = None
    """a row that is claimed to have a larger standard deviation over seeds"""
    shown_before: Literal["pilot", "claim"] | None = field(default=None, compare=False)
    """what had shown its outcome, either way, before it was declared, so that it is no prediction; null = nothing"""
    spread: Size | None = field(default=None, compare=False)
    """standard deviation of the paired differences in a pilot, in the unit of the column (with `given`: of their
    residuals); `--plan` says what the declared seeds show at it; null = not known"""

    @property
    def form(self) -> str:
        """The key of `FORMS` that it has; the first one if it has none."""
        return next((name for name in FORMS if getattr(self, name)), FORMS[0])

    @property
    def other(self) -> str:
        """The row that the claim compares with."""
        return getattr(self, self.form) or ""

    def in_words(self, success: "Success | None") -> str:
        """The claim in words, with the threshold of the report that it is in."""
        row, other, name = self.row, self.other, self.column
        if self.fails_less_than and success:
            return f"{row} fails less than {other} in {success.column}"
        if self.sooner_than and success:
            return f"{row} succeeds sooner than {other} in {success.validation}"
        if self.varies_less_than:
            return f"{row} varies less than {other} in {name}"
        given = f", adjusted for {self.given}" if self.given else ""
        if self.within is not None:
            return f"{row} and {other} differ by at most {self.within:g} in {name}{given}"
        if self.not_worse_by is not None:
            return f"{row} is not worse than {other} in {name} by more than {self.not_worse_by:g}{given}"
        size = "" if self.at_least is None else f" by at least {self.at_least:g}"
        return f"{row} is {self.direction} than {other} in {name}{size}{given}"


@dataclass(kw_only=True)
class Success:
    """The threshold that a run must reach; a report counts the runs that fail to, beside their mean.

    One of `at_least` and `at_most`, in the unit of the column; `at_most` where lower is better.
    """

    column: str
    """name of the column"""
    at_least: float | None = None
    """least number of a run that succeeds"""
    at_most: float | None = None
    """largest number of a run that succeeds, where lower is better"""
    validation: str | None = None
    """the logged metric (val/accuracy, train/loss) whose first value at the threshold is the time to success; null =
    none"""


@dataclass(kw_only=True)
class Picture:
    """A figure of a report."""

    kind: Literal[TableFigure, "curve", "scatter", "diagnosis"]
    """bars: rows by columns, seeds as dots; curve: columns over a swept key; by_length: accuracy by length, a panel for
    each row, with the oracle rule (`<metric>_oracle_end`) dashed; training: a logged metric over steps;
    time_to_success: share of the runs that have reached the threshold of `success`, over steps; forest: hypotheses with
    intervals and verdicts; pairs: lines between paired seeds of two rows; iid_ood: a dot for each run; scatter: a dot
    for each run, one column over another; errors: outputs with a wrong end only and with wrong content; state_size:
    columns over the numbers kept in decoding; diagnosis: statistics of the attentions of finished runs"""
    x: str | None = None
    """curve: the key, one of the rows; scatter: the column at the horizontal axis"""
    subset: str | None = None
    """by_length: such as test/ood; null = the subset of the last column with lengths"""
    metric: str | None = None
    """by_length: such as sequence_accuracy; training: such as val/accuracy, null = train/loss; diagnosis: the column
    that ranks the seeds, null = the first; pairs, iid_ood, scatter: the column, null = the columns of the
    hypotheses (pairs), else the last one"""
    quantity: Quantity | None = None
    """diagnosis: the quantity to draw, for the best and the worst seed of each row"""


@dataclass(kw_only=True)
class Report:
    """A table and its figures; owned by `conf/experiment/*`."""

    title: str
    """heading of the table and the page"""
    published: str | None = None
    """`<file>/<table>` in experiments/published; null = nothing was published at these settings"""
    protocol: str | None = None
    """difference between these runs and the published ones; null = as published"""
    rows: list[str] = field(default_factory=lambda: ["model"])
    """keys whose values identify a row: model, task, or a key of the configuration"""
    row_names: dict[str, Any] = field(default_factory=dict)
    """displayed names of rows, by their values joined with a comma and a space"""
    columns: dict[str, Any]
    """name: metric, or {metric: ..., where: {key: value}} for the runs that have these values"""
    average: Average | None = None
    """one more column"""
    best_over: list[str] = field(default_factory=list)
    """keys for which each cell shows one value: the best by `chosen_by`, else by the numbers shown"""
    chosen_by: str | None = None
    """the validation metric (`val/accuracy`) that chooses among `best_over`, or among the rows; null = none"""
    hypotheses: list[Hypothesis] = field(default_factory=list)
    """claims that the report answers first, by the names of rows and columns"""
    seeds: list[int] = field(default_factory=list)
    """seeds of every row, which the hypotheses are about; default: the seeds that the experiment sweeps, and those of
    the command"""
    data_seeds: list[int] = field(default_factory=list)
    """seeds of the data (`task.data_seed`), each with all `seeds`; default: as for `seeds`, empty for tasks without"""
    success: Success | None = None
    """the threshold of a run's success; null = failures are not counted"""
    highlight: str | None = None
    """the row that is strongest in figures; null = the row of the first hypothesis, if there is one"""
    figures: list[Picture] = field(default_factory=list)
    """without any: bars, and forest where hypotheses are declared"""

    def __post_init__(self) -> None:
        """Names the figures of a report that names none."""
        if not self.figures:
            self.figures = [Picture(kind=kind) for kind in ("bars", *(("forest",) if self.hypotheses else ()))]
