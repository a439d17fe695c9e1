"""The analyses that runs were begun under: the `report:` blocks that their folders record."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnlab.config.report_block import ANALYSIS, Hypothesis, Report
from attnlab.config.validation.type_check import build, conform

Recorded = tuple[Report, Mapping[str, Any]]
"""an analysis that a run was begun under, and the state of the repository"""


def analyses_before_training(declared: Iterable[Mapping[str, Any]]) -> list[Recorded]:
    """The analyses of a run, `declared` of its status, from before its first step.

    Records that this version cannot read are left out.
    """
    records: list[Recorded] = []
    for stored in declared:
        block, git = stored.get("analysis"), stored.get("git")
        if stored.get("step") or not isinstance(block, Mapping):
            continue
        known = {"title": "", **{key: value for key, value in block.items() if key in ANALYSIS}}
        if not conform(known, Report, "report"):
            records.append((build(Report, known), git if isinstance(git, Mapping) else {}))
    return records


def number_of_tests(claims: Sequence[Hypothesis], records: Iterable[Recorded]) -> int:
    """What intervals are corrected for: hypotheses, and those that runs were begun under and that are gone."""
    tests = list(claims)
    for claim in (claim for then, _ in records for claim in then.hypotheses):
        tests += [] if claim in tests else [claim]
    return len(tests)
