"""Captions of the figures of attentions: what is shown, and what is to be seen, computed from the numbers drawn."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from attnlab.analysis.head_heatmaps import ByRun
from attnlab.analysis.locality import RATIOS
from attnlab.analysis.summary_types import AttentionSummary, Maps
from attnlab.learn import metric_units
from attnlab.plots.png_caption import sentences

PARALLEL, ORTHOGONAL = 0.9, 0.1
"""mean |cosine| between different positions above and below which values are called nearly parallel and orthogonal"""
UNIFORM = 1.5
"""mean of the largest weight times number of keys of a query, below which attention is called nearly uniform"""
NEAR = 0.1
"""size of the neighbourhood in captions, as a share of the length"""


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


def norms_seen(summaries: Sequence[AttentionSummary]) -> str:
    """The median norms of each run; with two runs, in how many heads the first one's are longer."""
    texts = []
    for summary in summaries:
        both = [_medians(getattr(norms, of) for norms in summary.norms.values()) for of in ("queries", "keys")]
        if all(map(len, both)):
            queries, keys = (f"{np.nanmedian(medians):.3g}" for medians in both)
            texts.append(f"{summary.label}: queries {queries}, keys {keys}")
    seen = f"Median over heads of the median norms: {joined(texts)}" if texts else "No norm is finite"
    if len(summaries) != 2:
        return seen
    first, second = summaries
    counted = []
    for of in ("queries", "keys"):
        shared = [name for name in first.norms if name in second.norms]
        pairs = [_medians(getattr(summary.norms[name], of) for name in shared) for summary in summaries]
        if len(pairs[0]) == len(pairs[1]) and len(pairs[0]):
            counted.append(f"{of} in {int((pairs[0] > pairs[1]).sum())} of {len(pairs[0])} heads")
    return f"{seen}; longer in {first.label} than in {second.label}: {', '.join(counted)}" if counted else seen


def _medians(attentions: Iterable[Sequence[np.ndarray]]) -> np.ndarray:
    """The median of the finite norms of every head; nan without any."""
    heads = [values[np.isfinite(values)] for heads in attentions for values in heads]
    return np.array([np.median(values) if len(values) else math.nan for values in heads])


def values_seen(maps: ByRun) -> str:
    """The mean |cosine| between different positions in each run, and where values are nearly parallel or orthogonal."""
    texts = []
    for label, by_name in maps:
        means = [_off_diagonal(attention.heads) for attention in by_name.values()]
        means = [value for value in means if math.isfinite(value)]
        if not means:
            continue
        words = ""
        if min(means) > PARALLEL:
            words = f", all nearly parallel (every attention above {PARALLEL:g})"
        elif max(means) < ORTHOGONAL:
            words = f", all nearly orthogonal (every attention below {ORTHOGONAL:g})"
        elif max(means) > PARALLEL:
            count = sum(value > PARALLEL for value in means)
            words = f", nearly parallel (above {PARALLEL:g}) in {count} of {len(means)} attentions"
        texts.append(f"{label} {float(np.mean(means)):.2f} ({min(means):.2f} to {max(means):.2f}){words}")
    heading = "Mean |cosine| between different positions, over attentions (lowest to highest attention)"
    return f"{heading}: {joined(texts)}" if texts else ""


def _off_diagonal(heads: np.ndarray) -> float:
    """Mean absolute entry off the diagonal of matrices [H, N, N]; nan for a single position."""
    different = ~np.eye(heads.shape[-1], dtype=bool)
    return float(np.abs(heads[:, different]).mean()) if different.any() else math.nan


def weights_seen(maps: ByRun, shown: Mapping[str, str]) -> str:
    """The attentions whose queries are the least and the most selective, in each run."""
    texts, notes = [], []
    for label, by_name in maps:
        peaks = {shown[name]: _peak(attention) for name, attention in by_name.items()}
        peaks = {name: peak for name, peak in peaks.items() if math.isfinite(peak)}
        if peaks:
            least, most = min(peaks, key=peaks.__getitem__), max(peaks, key=peaks.__getitem__)
            ends = f"{peaks[least]:.2g} ({least})" + (f" to {peaks[most]:.2g} ({most})" if len(peaks) > 1 else "")
            even = f", nearly uniform (below {UNIFORM:g}) in {sum(peak < UNIFORM for peak in peaks.values())}"
            texts.append(f"{label} {ends}{even} of {len(peaks)} attentions")
        sums = {shown[name]: attention.sums for name, attention in by_name.items() if attention.sums}
        ranges = "; ".join(f"{name} {low:.2g} to {high:.2g}" for name, (low, high) in sums.items())
        notes += [f"{label} ({ranges})"] if sums else []
    heading = "Largest weight times number of keys of a query, mean over queries and heads"
    divided = "Where the weights of a query do not sum to 1, they are divided by the sum of their sizes"
    parts = [f"{heading}: {joined(texts)}" if texts else "", f"{divided}: {joined(notes)}" if notes else ""]
    return sentences(parts)


def _peak(maps: Maps) -> float:
    largest = maps.heads.max(-1)
    return float(largest[np.isfinite(largest)].mean()) if np.isfinite(largest).any() else math.nan


def locality_seen(summaries: Sequence[AttentionSummary]) -> str:
    """The share of the attention in a small neighbourhood, beside the share of uniform attention."""
    texts = []
    for summary in summaries:
        near = [
            [float(np.interp(NEAR, RATIOS, curve)) for curve in (attention.shares, attention.uniform)]
            for attention in summary.locality.values()
        ]
        if near:
            share, even = (100 * value for value in np.mean(near, axis=0))
            texts.append(f"{summary.label} {share:.0f} % (uniform {even:.0f} %)")
    return f"Attention within the nearest tenth of the length, mean over attentions: {joined(texts)}"


def gradients_seen(overall: Mapping[str, float]) -> str:
    """The relative standard deviation of each run; the steadiest one of several."""
    known = {label: value for label, value in overall.items() if math.isfinite(value)}
    if not known:
        return "Too few logged steps for a standard deviation"
    texts = ", ".join(f"{label} {metric_units.number(v, metric_units.RATIO.name)}" for label, v in known.items())
    steadiest = f"; steadiest: {min(known, key=known.__getitem__)}" if len(known) > 1 else ""
    return f"Relative standard deviation of all logged steps: {texts}{steadiest}"
