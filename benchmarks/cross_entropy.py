"""The output of a language model over a word vocabulary: memory and time of cross-entropy in chunks and all at once.

Loss and gradients by hidden states, weights and biases, at WikiText-103's vocabulary and width. `memory` is what a call
needs beyond what was there before it; the gradients themselves (vocabulary x width numbers) are part of it.

    python -m benchmarks.cross_entropy --tokens 512,2048 --seconds 10
"""

from argparse import Namespace
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from attnlab.kernels.cross_entropy import chunked_cross_entropy
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.peak_memory import peak_of
from benchmarks.harness.tables import show
from benchmarks.harness.timing import interleaved


def contestants(tokens: int, width: int, vocabulary: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """Measures loss and gradients in both ways on the same numbers."""
    draw = torch.Generator(device).manual_seed(0)
    shapes = (tokens, width), (vocabulary, width), (vocabulary,)
    made = [(0.05 * torch.randn(shape, generator=draw, device=device)).requires_grad_() for shape in shapes]
    targets = torch.randint(vocabulary, (tokens,), generator=draw, device=device)
    whole = lambda: torch.autograd.grad(F.cross_entropy(F.linear(*made), targets), made)  # noqa: E731
    chunked = lambda: torch.autograd.grad(chunked_cross_entropy(*made, targets), made)  # noqa: E731
    return {"whole": whole, "chunked": chunked}


def measure(given: Namespace) -> Iterator[dict[str, object]]:
    """Measures a row per number of tokens and form."""
    for tokens in map(int, given.tokens.split(",")):
        runs = contestants(tokens, given.width, given.vocabulary, given.device)
        memory = {name: peak_of(run, given.device) for name, run in runs.items()}
        times = interleaved(runs, given.seconds, f"{tokens} tokens", least=3)
        for name in runs:
            yield {
                "tokens": tokens,
                "form": name,
                "memory GB": memory[name] / 1e9,
                "ms": 1000 * times.median(name),
                "time / whole": times.ratio(name, "whole"),
            }


def main() -> None:
    options = parser(__doc__, seconds=20, devices=True)
    options.add_argument("--tokens", default="512,2048", help="scored tokens a batch (default: %(default)s)")
    options.add_argument("--width", type=int, default=512, help="(default: %(default)s)")
    options.add_argument("--vocabulary", type=int, default=267_735, help="(default: %(default)s)")
    given = options.parse_args()
    environment, rows = begin(given.threads, given.device), measure(given)
    show("cross_entropy", f"Cross-entropy over {given.vocabulary} words, width {given.width}", rows, environment)


if __name__ == "__main__":
    main()
