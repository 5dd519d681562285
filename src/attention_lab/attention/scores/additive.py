"""Additive scores: a hidden layer over the sum of query and key, with one output."""

from jaxtyping import Float
from torch import Tensor

from attention_lab.argument_checks import check_number
from attention_lab.attention.fast.additive.forms import ACTIVATIONS
from attention_lab.attention.fast.additive.scores import additive_scores
from attention_lab.attention.scores.projection import project
from attention_lab.attention.scores.score import Score
from attention_lab.errors import LabError


class Additive(Score):
    """Additive score `w_v^T f(W_q q + W_k k)`, without bias; sizes may differ.

    With f = tanh it is the score of 1409.0473, A.1.2; with f = leaky_relu, whose slope is 0.2, that of
    2105.14491, eq. 7 (GATv2). Large calls do not hold the sums of all pairs in memory; see `fast.additive`.

    Args:
        query_size: size of the query.
        key_size: size of the key.
        heads: if given, separate weights for each head.
        hidden_size: size of the hidden layer h; by default that of the query.
        activation: f, one of `ACTIVATIONS`.
        compiled: whether inductor compiles large calls; None: only if the compilation pays off.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        heads: int | None = None,
        *,
        hidden_size: int | None = None,
        activation: str = "tanh",
        compiled: bool | None = None,
    ) -> None:
        super().__init__(query_size, key_size, heads)
        if activation not in ACTIVATIONS:
            raise LabError(
                f"scoring.activation={activation} is unknown: choose one of {', '.join(ACTIVATIONS)}"
            )
        hidden_size = query_size if hidden_size is None else hidden_size
        check_number("scoring.hidden_size", hidden_size, least=1, whole=True)
        self.activation, self.compiled = activation, compiled
        self.make_projections(hidden_size)
        self.value_weight = self.parameter(hidden_size, 1, std=hidden_size**-0.5)

    def extra_repr(self) -> str:
        """The sizes and the activation, for `print(model)`."""
        hidden_size = self.value_weight.shape[-2]
        return f"{super().extra_repr()}, hidden_size={hidden_size}, activation={self.activation}"

    def make_projections(self, hidden_size: int) -> None:
        """Create the parameters of both projections: two matrices, each with its own fan-out."""
        self.query_weight = self.parameter(
            hidden_size, self.query_size, std=(2 / (self.query_size + hidden_size)) ** 0.5
        )
        self.key_weight = self.parameter(
            hidden_size, self.key_size, std=(2 / (self.key_size + hidden_size)) ** 0.5
        )

    def projections(self) -> tuple[Tensor, Tensor]:
        """`W_q` and `W_k`."""
        return self.query_weight, self.key_weight

    def keys(self, key: Tensor) -> Tensor:
        """`W_k k`."""
        return project(key, self.projections()[1])

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K h"]
    ) -> Float[Tensor, "... Q K"]:
        """`w_v^T f(W_q q + W_k k)` over all pairs."""
        projected = project(query, self.projections()[0])
        return additive_scores(
            projected, keys, self.value_weight.squeeze(-1), self.activation, compiled=self.compiled
        )


class Concat(Additive):
    """Concat score `w_v^T f(W [q; k])` (1508.04025, section 3.1): additive, with one matrix [W_q, W_k]."""

    def make_projections(self, hidden_size: int) -> None:
        """Create one matrix, with a single fan-out."""
        size = self.query_size + self.key_size
        self.weight = self.parameter(hidden_size, size, std=(2 / (size + hidden_size)) ** 0.5)

    def projections(self) -> tuple[Tensor, Tensor]:
        """The columns of W for the query, and those for the key."""
        return self.weight[..., : self.query_size], self.weight[..., self.query_size :]
