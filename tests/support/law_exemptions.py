"""All exemptions of mechanisms from a law of tests/laws/test_laws_*.py, each with its reason.

Keys are (law, dotted path of the class); LAWS has the names of the laws. The list is printed after every test run.
"""

from torch import nn

LAWS = (
    "padding",
    "causality",
    "step",
    "reference",
    "finite",
    "weights",
    "diagnostics",
    "compile",
    "determinism",
)

EXEMPTIONS: dict[tuple[str, str], str] = {
    ("weights", "attnlab.attention.inline.LocalInLine"): (
        "a convolution with a kernel for each channel is no matrix of weights of a head"
    ),
    ("weights", "attnlab.attention.recurrent.base_conv.BaseConv"): (
        "each column of a head has weights of its own (test_base_conv.py)"
    ),
    ("weights", "attnlab.attention.long_short.LongShortAttention"): (
        "means of values pass a layer norm, so the output is no matrix of weights times values (test_long_short.py)"
    ),
}


def network_exemption(law: str, network: nn.Module) -> str | None:
    """The reason why a network is exempt from a law: one of its mechanisms is."""
    paths = {f"{type(module).__module__}.{type(module).__name__}" for module in network.modules()}
    return next((reason for (name, path), reason in EXEMPTIONS.items() if name == law and path in paths), None)
