"""Classification of the nodes of one graph."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.classification import MulticlassAccuracy

from attention_lab.attention import recording
from attention_lab.data.reading.batches import NodeBatch
from attention_lab.data.reading.node_codec import NodeCodec
from attention_lab.models.graph import GraphClassifier
from attention_lab.tasks.observation import Observation, Sides, make_observation
from attention_lab.tasks.task import Part, Task


class NodeClassification(Task):
    """Train by cross entropy on the training nodes, evaluate by accuracy on the others.

    Training sees all nodes and edges, but not the labels of the other parts.

    Args:
        model: the classifier.
        codec: the graph, and node names to tensors and back.
        options: see `Task`.
    """

    model: GraphClassifier
    codec: NodeCodec
    headlines = ("test/accuracy",)

    def __init__(self, model: GraphClassifier, codec: NodeCodec, **options: Any) -> None:
        super().__init__(model, codec, **options)
        self.accuracy = nn.ModuleDict(
            {part: MulticlassAccuracy(len(codec.labels), average="micro") for part in ("validation", "test")}
        )

    def training_step(self, batch: NodeBatch, batch_idx: int) -> Tensor:
        """Cross entropy of the labels of the training nodes."""
        loss = F.cross_entropy(self._logits(batch), batch.labels)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch.nodes))
        return loss

    def validation_step(self, batch: NodeBatch, batch_idx: int) -> None:
        """Loss and accuracy."""
        self._evaluate(batch, "validation")

    def test_step(self, batch: NodeBatch, batch_idx: int) -> None:
        """Loss and accuracy."""
        self._evaluate(batch, "test")

    @torch.no_grad()
    def answer(self, batch: NodeBatch) -> list[str]:
        """The most likely label of each node in the batch."""
        return [self.codec.decode(label) for label in self._logits(batch).argmax(-1).tolist()]

    @torch.no_grad()
    def observe(self, batch: NodeBatch) -> list[Observation]:
        """The graph as one example: which node attends to which, and the labels of the nodes in the batch."""
        names = self.codec.names
        with recording(self.model) as weights:
            answers = self.answer(batch)
        observation = make_observation(
            weights,
            0,
            dict.fromkeys(weights, Sides(names, names)),
            input=" ".join(names[node] for node in batch.nodes.tolist()),
            output=", ".join(answers),
            expected=", ".join(self.codec.decode(label) for label in batch.labels.tolist() if label >= 0),
        )
        return [observation]

    def _logits(self, batch: NodeBatch) -> Tensor:
        """Logits [B, C] of the nodes in the batch."""
        logits: Tensor = self.model(batch.features, batch.edges)[batch.nodes]
        return logits

    def _evaluate(self, batch: NodeBatch, part: Part) -> None:
        logits = self._logits(batch)
        metric = self.accuracy[part]
        metric.update(logits, batch.labels)  # type: ignore[operator]
        loss = F.cross_entropy(logits, batch.labels)
        self.log(f"{part}/loss", loss, batch_size=len(batch.nodes), sync_dist=True)
        self.log(f"{part}/accuracy", metric, prog_bar=part == "validation")  # type: ignore[arg-type]
