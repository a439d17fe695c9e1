"""Classification: one class for an image with a question, a token sequence, or a pair of token sequences."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.data.batch import Batch, ImageQuestionBatch, LabelledBatch, LabelledPairBatch
from attnlab.nn.classifier import (
    ClassHead,
    ImageQuestionClassifier,
    PairClassifier,
    SequenceClassifier,
    SequenceEncoder,
)
from attnlab.nn.embedding import ImageQuestionEmbedding
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network
from attnlab.tasks.kinds.base import Kind


class ClassificationKind(Kind):
    """One class for each example."""

    modalities = ("tokens", "token_pairs", "image_question")
    needs: ClassVar = {"encoder": ["bidirectional"]}
    reads = ("pooling", "d_classifier")

    def network(self, parts: NetworkParts) -> Network:
        spec, backbone = self.spec, parts.backbone
        width, pooling = backbone.d_model, backbone.pooling
        if spec.modality == "image_question":
            dropout = backbone.embedding_dropout
            pictures = ImageQuestionEmbedding(spec.image_shape, spec.question_size, width, parts.positions, dropout)
            stack = parts.stack("encoder", pictures.n_tokens)
            return ImageQuestionClassifier(pictures, stack, spec.n_classes, width)
        embedding = parts.embedding(spec.input_vocabulary, spec.max_input_length)
        stack = parts.stack("encoder", spec.max_input_length + (pooling == "class_token"))
        encoder = SequenceEncoder(embedding, stack, width, pooling)
        pairs = spec.modality == "token_pairs"
        head = ClassHead(4 * width if pairs else width, backbone.d_classifier, spec.n_classes, backbone.dropout)
        return (PairClassifier if pairs else SequenceClassifier)(encoder, head)

    def loss(self, network: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        logits, penalty = self.logits(network, batch)
        return F.cross_entropy(logits, batch.answers), penalty

    def scores(self, network: nn.Module, batch: Any, limit: int = 0) -> dict[str, Tensor]:
        """Prediction and answer, and whether they are equal."""
        predicted = self.answers(self.logits(network, batch)[0])
        return {"predicted": predicted, "answer": batch.answers, "right": predicted == batch.answers}

    def predict(self, network: nn.Module, batch: Batch, lengths: Sequence[int] | None = None) -> list[Any]:
        """The most likely class."""
        return self.answers(self.logits(network, batch)[0]).tolist()

    def answers(self, logits: Float[Tensor, "B classes"]) -> Tensor:
        """What the logits say."""
        return logits.argmax(-1)

    def logits(self, network: nn.Module, batch: Batch) -> tuple[Float[Tensor, "B classes"], Float[Tensor, ""]]:
        """Class logits and penalty of a network on a batch of any input type."""
        match batch:
            case ImageQuestionBatch():
                return network(batch.images, batch.questions)
            case LabelledPairBatch():
                return network(batch.inputs, batch.input_mask, batch.others, batch.other_mask)
            case LabelledBatch():
                return network(batch.inputs, batch.input_mask)
        raise TypeError(f"{type(batch).__name__} has no classes")
