"""Figures of attentions from `analysis.summary_types`: a picture, and its numbers as csv."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnlab.analysis.attention_labels import titles
from attnlab.analysis.curve_figures import draw_locality, draw_spread
from attnlab.analysis.gradient_norm_variation import relative_sd, running_relative_sd, window_length
from attnlab.analysis.head_maps import MOST_HEADS, draw_maps
from attnlab.analysis.norm_violins import STATISTICS, draw_norms, statistics_of
from attnlab.analysis.summary_types import RATIOS, AttentionSummary, Maps
from attnlab.plots.style import save


def draw(quantity: str, summaries: Sequence[AttentionSummary], path: Path) -> list[Path]:
    """Draws one quantity of the attentions of one network or of several.

    Args:
        quantity: norms, values, weights or locality; part of each summary.
        path: path of the files without suffix.

    Returns:
        the picture and the csv; nothing without data (locality of cross-attention alone).
    """
    found = {name: None for summary in summaries for name in getattr(summary, quantity)}
    if not found:
        return []
    shown = titles(found)
    match quantity:
        case "norms":
            return _written(draw_norms(summaries, shown), _norm_rows(summaries, shown), path)
        case "locality":
            return _written(draw_locality(summaries, shown), _locality_rows(summaries, shown), path)
        case "values":
            figure = _value_maps(summaries, shown)
        case _:
            found = [(summary.label, summary.weights) for summary in summaries]
            figure = draw_maps(found, shown, _together(s.shown for s in summaries), "attention weights", None)
    return _written(figure, _map_rows(summaries, quantity, shown), path)


def _value_maps(summaries: Sequence[AttentionSummary], shown: dict[str, str]) -> Figure:
    """Maps of absolute cosines, so that orthogonal is white; the csv has the signs."""
    found = [
        (one.label, {name: replace(maps, heads=np.abs(maps.heads)) for name, maps in one.values.items()})
        for one in summaries
    ]
    return draw_maps(found, shown, _together(s.values_of for s in summaries), "|cosine| of values", (0.0, 1.0))


def _together(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


def draw_gradients(runs: Sequence[tuple[str, Sequence[int], Sequence[float]]], path: Path) -> list[Path]:
    """Draws norms of gradients over training and their relative standard deviation; runs: labels, steps and norms."""
    found = []
    for label, steps, norms in runs:
        running = running_relative_sd(norms, window_length(len(norms)))
        found.append((label, steps, norms, running, relative_sd(norms)))
    rows = [
        (label, overall, step, norm, spread)
        for label, steps, norms, running, overall in found
        for step, norm, spread in zip(steps, norms, running, strict=True)
    ]
    header = ("run", "relative_sd_of_all_steps", "step", "gradient_norm", "relative_sd_in_window")
    return _written(draw_spread(found), [header, *rows], path)


def _written(figure: Figure, rows: Iterable[Sequence[Any]], path: Path) -> list[Path]:
    picture = save(figure, path.with_name(f"{path.name}.png"))
    table = path.with_name(f"{path.name}.csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[_cell(value) for value in row] for row in rows])
    return [picture, table]


def _cell(value: Any) -> Any:
    """Numbers with six digits, which is more than a picture shows."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _norm_rows(summaries: Sequence[AttentionSummary], shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    yield ("run", "attention", "of", "head", *STATISTICS)
    for summary in summaries:
        for name, norms in summary.norms.items():
            for of, heads in (("queries", norms.queries), ("keys", norms.keys)):
                for head, values in enumerate(heads, start=1):
                    yield (summary.label, shown[name], of, head, *statistics_of(values))


def _locality_rows(summaries: Sequence[AttentionSummary], shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    yield ("run", "attention", "share_of_length", "share_of_attention", "share_if_uniform")
    for summary in summaries:
        for name, locality in summary.locality.items():
            for row in zip(RATIOS.tolist(), locality.shares.tolist(), locality.uniform.tolist(), strict=True):
                yield (summary.label, shown[name], *row)


def _map_rows(summaries: Sequence[AttentionSummary], quantity: str, shown: dict[str, str]) -> Iterable[Sequence[Any]]:
    """A line for each row of each map; shorter maps leave the last columns empty."""
    maps: list[tuple[str, dict[str, Maps]]] = [(summary.label, getattr(summary, quantity)) for summary in summaries]
    widest = max(found.heads.shape[2] for _, by_name in maps for found in by_name.values())
    yield ("run", "attention", "head", "position", "name", *range(1, widest + 1))
    for label, by_name in maps:
        for name, found in by_name.items():
            for head, matrix in enumerate(found.heads[:MOST_HEADS].astype(float).tolist(), start=1):
                for position, row in enumerate(matrix):
                    yield (label, shown[name], head, position + 1, found.rows[position] if found.rows else "", *row)
