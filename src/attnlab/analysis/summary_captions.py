"""Captions of the figures of attentions: what is shown."""

from collections.abc import Iterable, Mapping, Sequence

from attnlab.analysis.head_heatmaps import ByRun
from attnlab.analysis.summary_types import AttentionSummary


def joined(texts: Iterable[str]) -> str:
    """Different texts, each once."""
    return "; ".join(dict.fromkeys(text for text in texts if text))


def norms_title(summaries: Sequence[AttentionSummary]) -> str:
    """What norms are of: queries and keys before any normalisation, which is named."""
    kinds = {summary.normalization for summary in summaries}
    if kinds <= {"", "none"}:
        return "norms of queries and keys by head; these networks do not normalise them"
    named = (
        joined(f"{summary.label}: {summary.normalization}" for summary in summaries) if len(kinds) > 1 else kinds.pop()
    )
    return f"norms of queries and keys by head, before their normalisation ({named})"


def divided_weights(maps: ByRun, shown: Mapping[str, str]) -> str:
    """Attentions whose weights were divided by the sum of their sizes, with the lowest and the highest sum."""
    notes = []
    for label, by_name in maps:
        sums = {shown[name]: attention.sums for name, attention in by_name.items() if attention.sums}
        ranges = "; ".join(f"{name} {low:.2g} to {high:.2g}" for name, (low, high) in sums.items())
        notes += [f"{label} ({ranges})"] if sums else []
    divided = "Where the weights of a query do not sum to 1, they are divided by the sum of their sizes"
    return f"{divided}: {joined(notes)}" if notes else ""
