"""Trained models as graphs for `torch.export`: tensors in and out, for any batch size and length."""

from attention_lab.models.exporting.graphs import Graph, graphs_of

__all__ = ["Graph", "graphs_of"]
