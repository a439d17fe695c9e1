"""Masked language models: tokens that are hidden from the network (Devlin et al. 2019)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch

from attnlab.data.batch import LanguageBatch
from attnlab.data.text_blocks import SHARE_MASKED, SHARE_RANDOM
from attnlab.nn.language_model import MaskedLanguageModel
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network
from attnlab.nn.transformer_block import make_norm
from attnlab.tasks.kinds.language_model import LanguageModelKind, tokens_at


class MaskedLanguageModelKind(LanguageModelKind):
    """Masked language models; loss and scores are over the hidden tokens."""

    needs: ClassVar = {"encoder": ["bidirectional"]}

    def network(self, parts: NetworkParts) -> Network:
        longest, backbone = self.spec.max_input_length, parts.backbone
        embedding = parts.embedding(self.spec.input_vocabulary, longest)
        encoder = parts.stack("encoder", longest)
        norm = make_norm(backbone.layer_norm, backbone.d_model)
        return MaskedLanguageModel(embedding, encoder, parts.output(embedding), norm, backbone.d_model)

    def training_batch(self, batch: LanguageBatch) -> LanguageBatch:
        """Masks a share of the scored tokens: 80 % become the mask token, 10 % a random word, 10 % stay (Devlin et al.
        2019, section 3.1); drawn at every step (Liu et al. 2019), from torch's generator of the batch's device.

        Returns:
            the batch as the network reads it; only the chosen positions are scored.
        """
        spec, tokens = self.spec, batch.inputs
        hidden = batch.scored & (torch.rand(tokens.shape, device=tokens.device) < spec.mask_share)
        fate = torch.rand(tokens.shape, device=tokens.device)
        words = torch.randint_like(tokens, spec.n_special, spec.input_vocabulary)
        read = torch.where(hidden & (fate < SHARE_MASKED), spec.mask_id, tokens)
        return replace(batch, inputs=torch.where(hidden & (fate >= 1 - SHARE_RANDOM), words, read), scored=hidden)

    def predict(self, network: Any, batch: LanguageBatch, lengths: Sequence[int] | None = None) -> list[Any]:
        """The most likely token of each scored position."""
        return tokens_at(network, batch, batch.scored)
