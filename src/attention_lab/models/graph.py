"""Graph attention: self-attention of nodes under the adjacency of their graph (1710.10903)."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, Mechanism, adjacency_mask
from attention_lab.constructor_options import options_of
from attention_lab.models.parts.encoder import EncoderLayer
from attention_lab.models.parts.sublayers import final_norm
from attention_lab.models.specs import GraphSpec
from attention_lab.sizes import GraphSizes


class GraphClassifier(nn.Module):
    """Encoder layers in which a node attends to its neighbours, then a linear layer to the classes.

    `e_ij = a(h_i, h_j)`, `alpha_i = softmax(e_i)` over the neighbours N_i of i, `h'_i = sum_j alpha_ij
    h_j` in several heads (1710.10903, eq. 1, 2, 4, 5), with the score `a` of the mechanism, inside the
    layers of a Transformer. The graph enters only as a mask. The paper's own score (eq. 3),
    `LeakyReLU(a^T [h_i; h_j])`, is `scoring=additive scoring.hidden_size=1 scoring.activation=leaky_relu`
    up to a learned factor; with a larger `hidden_size` it is that of GATv2 (2105.14491, eq. 7).

    Args:
        mechanism: the attention in every head.
        sizes: number of classes, features of a node, and whether edges are directed.
        options: see `GraphSpec`.
    """

    @options_of(GraphSpec)
    def __init__(self, mechanism: Mechanism, sizes: GraphSizes, spec: GraphSpec) -> None:
        super().__init__()
        self.directed, self.self_loops = sizes.directed, spec.self_loops
        self.embedding = nn.Linear(sizes.features, spec.d_model)
        self.dropout = Dropout(spec.dropout)
        self.layers = nn.ModuleList(EncoderLayer(mechanism, spec) for _ in range(spec.layers))
        self.norm = final_norm(spec.d_model, spec.norm)
        self.classify = nn.Linear(spec.d_model, sizes.classes)

    def forward(self, features: Float[Tensor, "N d"], edges: Int[Tensor, "2 E"]) -> Float[Tensor, "N C"]:
        """Logits of the classes for every node of one graph."""
        mask = adjacency_mask(edges, len(features), directed=self.directed, self_loops=self.self_loops)
        x = self.dropout(self.embedding(features)).unsqueeze(0)
        for layer in self.layers:
            x = layer(x, mask.unsqueeze(0))
        logits: Tensor = self.classify(self.norm(x)).squeeze(0)
        return logits
