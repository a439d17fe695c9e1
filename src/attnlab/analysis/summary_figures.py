"""Figures of attentions from `analysis.summary_types`: a picture, its caption, and its numbers as csv."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnlab.analysis.attention_labels import titles
from attnlab.analysis.gradient_norm_variation import relative_sd, running_relative_sd, window_length
from attnlab.analysis.head_heatmaps import MOST_HEADS, VALUES, WEIGHTS, ByRun, draw_maps
from attnlab.analysis.summary_types import RATIOS, AttentionSummary
from attnlab.analysis.violins_and_curves import STATISTICS, draw_locality, draw_norms, draw_spread, statistics_of
from attnlab.plots.csv_text import csv_cell
from attnlab.plots.png_caption import sentences
from attnlab.plots.style import save


def joined(texts: Iterable[str]) -> str:
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


def draw(quantity: str, summaries: Sequence[AttentionSummary], path: Path) -> list[Path]:
    """Draws one quantity of the attentions of one network or of several.

    Args:
        quantity: norms, values, weights or locality; part of each summary.
        path: path of the files without suffix.

    Returns:
        the picture, which holds its caption (`plots.png_caption`), and the csv; nothing without data (locality of
        cross-attention alone).
    """
    shown = titles({name: None for summary in summaries for name in getattr(summary, quantity)})
    if not shown:
        return []
    if quantity == "norms":
        title = norms_title(summaries)
        return _written(draw_norms(summaries, shown, title), [title], _norm_rows(summaries, shown), path)
    if quantity == "locality":
        title = f"accumulated attention by neighbourhood, {joined(summary.about for summary in summaries)}"
        return _written(draw_locality(summaries, shown, title), [title], _locality_rows(summaries, shown), path)
    return _draw_maps(quantity, summaries, shown, path)


def _draw_maps(quantity: str, summaries: Sequence[AttentionSummary], shown: dict[str, str], path: Path) -> list[Path]:
    """Maps of values or of weights."""
    maps = drawn = [(summary.label, getattr(summary, quantity)) for summary in summaries]
    scale, of, note = WEIGHTS, (summary.shown for summary in summaries), divided_weights(maps, shown)
    if quantity == "values":
        # absolute, so that orthogonal is white; the csv has the signs
        drawn = [
            (label, {name: replace(signed, heads=np.abs(signed.heads)) for name, signed in by_name.items()})
            for label, by_name in maps
        ]
        scale, of, note = VALUES, (summary.values_of for summary in summaries), ""
    whose = f", {summaries[0].label}" if len(summaries) == 1 else ""
    title = f"{scale.meaning}{whose}: {joined(of)}"
    return _written(draw_maps(drawn, shown, title, scale), [title, note], _map_rows(quantity, maps, shown), path)


def draw_gradients(runs: Sequence[tuple[str, Sequence[int], Sequence[float]]], path: Path) -> list[Path]:
    """Draws norms of gradients over training and their relative standard deviation; runs: labels, steps and norms."""
    spreads = [
        (label, steps, norms, running_relative_sd(norms, window_length(len(norms))), relative_sd(norms))
        for label, steps, norms in runs
    ]
    rows = [
        (label, overall, step, norm, spread)
        for label, steps, norms, running, overall in spreads
        for step, norm, spread in zip(steps, norms, running, strict=True)
    ]
    header = ("run", "relative_sd_of_all_steps", "step", "gradient_norm", "relative_sd_in_window")
    return _written(draw_spread(spreads), ["norms of gradients while training"], [header, *rows], path)


def _written(figure: Figure, caption: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> list[Path]:
    """The picture with its caption, and the csv."""
    picture = save(figure, path.with_name(f"{path.name}.png"), sentences(caption))
    table = path.with_name(f"{path.name}.csv")
    # a link there would be written through
    table.unlink(missing_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[_cell(value) for value in row] for row in rows])
    return [picture, table]


def _cell(value: Any) -> Any:
    """Numbers with six digits, which is more than a picture shows."""
    return f"{value:.6g}" if isinstance(value, float) else csv_cell(value)


def _norm_rows(summaries: Sequence[AttentionSummary], shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    yield ("run", "attention", "of", "measured", "head", *STATISTICS)
    for summary in summaries:
        for name, norms in summary.norms.items():
            for of, heads in (("queries", norms.queries), ("keys", norms.keys)):
                for head, values in enumerate(heads, start=1):
                    yield (summary.label, shown[name], of, "before normalisation", head, *statistics_of(values))


def _locality_rows(summaries: Sequence[AttentionSummary], shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    yield ("run", "attention", "share_of_length", "share_of_attention", "share_if_uniform")
    for summary in summaries:
        for name, locality in summary.locality.items():
            for row in zip(RATIOS.tolist(), locality.shares.tolist(), locality.uniform.tolist(), strict=True):
                yield (summary.label, shown[name], *row)


def _map_rows(quantity: str, maps: ByRun, shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    """A line for each row of each map; shorter maps leave the last columns empty."""
    widest = max(attention.heads.shape[2] for _, by_name in maps for attention in by_name.values())
    yield ("run", "attention", "quantity", "head", "position", "name", *range(1, widest + 1))
    for label, by_name in maps:
        for name, attention in by_name.items():
            # of weights, uniform attention is 1
            numbers = "cosine" if quantity == "values" else f"weight{'_share' if attention.sums else ''}_times_keys"
            for head, matrix in enumerate(attention.heads[:MOST_HEADS].astype(float).tolist(), start=1):
                for position, row in enumerate(matrix):
                    place = attention.rows[position] if attention.rows else ""
                    yield (label, shown[name], numbers, head, position + 1, place, *row)
