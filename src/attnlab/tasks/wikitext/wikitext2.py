"""WikiText-2 (Merity et al. 2017, arXiv 1609.07843): the same as WikiText-103 on 2 million words, for a quick look.

Its validation and test texts are the texts of WikiText-103 with more `<unk>`. `wiki.valid.tokens` begins

    reads    <eos><eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common
    predicts <eos> = Homarus gammarus =<eos><eos> Homarus gammarus , known as the European lobster or common lobster
"""

from attnlab.tasks.wikitext.wikitext103 import Wikitext103


class Wikitext2(Wikitext103):
    """WikiText-2 as a causal language model; options as in WikiText-103."""

    published = "words with line ends: train 2,088,628, val 217,646, test 245,569"
    corpus = "wikitext-2"
