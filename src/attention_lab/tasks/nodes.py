"""Classification of the nodes of one graph."""

import torch
from torch import Tensor

from attention_lab.attention import MultiHead, recording
from attention_lab.data.reading.batches import NodeBatch
from attention_lab.data.reading.codecs import NodeCodec
from attention_lab.machine import check_fits_in_memory
from attention_lab.models.ensemble import ClassifierEnsemble
from attention_lab.models.graph import GraphClassifier
from attention_lab.tasks.classification import LabelPrediction
from attention_lab.tasks.model_checks import checked_logits
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation

_PAIR = 16
"""Approximate minimum number of bytes of memory that a head takes for each pair of nodes."""


class NodeClassification(LabelPrediction):
    """Classification of the nodes of a graph, trained on the labels of the training nodes.

    Training sees all nodes and edges, but not the labels of validation and test nodes.

    Args:
        model: the classifier.
        codec: the graph; converts node names to tensors and back.
        options: see `LabelPrediction`.
    """

    model: GraphClassifier | ClassifierEnsemble
    codec: NodeCodec

    def logits(self, batch: NodeBatch) -> Tensor:
        """The logits [B, C] of the nodes in the batch.

        Raises:
            LabError: attention between all nodes of the graph takes more memory than this machine has.
        """
        if batch.features.device.type == "cpu":
            self._check_memory(len(batch.features))
        logits = self.model(batch.features, batch.edges)
        expected = [len(batch.features), len(self.codec.labels)]
        return checked_logits(self.model, logits, expected, "node of the graph and class")[batch.nodes]

    def _check_memory(self, nodes: int) -> None:
        heads = [part.heads for part in self.model.modules() if isinstance(part, MultiHead)]
        # Training keeps the weights of every layer.
        together = sum(heads) if torch.is_grad_enabled() else max(heads, default=0)
        needed = nodes * nodes * together * _PAIR
        task = f"attention between all pairs of {nodes:,} nodes"
        check_fits_in_memory(needed, task, "use a part of the graph")

    def source_texts(self, batch: NodeBatch) -> list[str]:
        """The names of the nodes."""
        return [self.codec.names[node] for node in batch.nodes.tolist()]

    @torch.no_grad()
    def observe(self, batch: NodeBatch) -> list[Observation]:
        """The graph as one example: which node attends to which, and the labels of the nodes in the batch."""
        names = self.codec.names
        with recording(self.model) as weights:
            answers = self.answer(batch)
        observation = make_observation(
            weights,
            0,
            dict.fromkeys(weights, QueriesAndKeys(names, names)),
            input=" ".join(names[node] for node in batch.nodes.tolist()),
            output=", ".join(answers),
            expected=", ".join(self.codec.decode(label) for label in batch.labels.tolist() if label >= 0),
        )
        return [observation]
