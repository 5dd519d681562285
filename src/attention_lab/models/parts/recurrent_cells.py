"""Recurrent layers, and cells that precompute what depends only on known inputs.

No batched product can replace the loop of a decoder, so as little as possible stays in it. Some inputs are
known in advance: the embeddings of all target steps. `early` computes their part of a late cell's gates with
one product for the entire target.
"""

from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

CellState = tuple[Tensor, ...]
"""`(hidden,)` for a GRU, `(hidden, cell)` for an LSTM, each `[N, h]`."""


@torch.no_grad()
def fill_gates(weight: Tensor, hidden_size: int, *, orthogonal: bool) -> None:
    """Initialise `[gates * h, n]` gate by gate: orthogonal (1312.6120) for recurrent weights, else Xavier."""
    for gate in torch.split(weight, hidden_size):
        if orthogonal:
            nn.init.orthogonal_(gate)
        else:
            nn.init.xavier_uniform_(gate)


@cache
def _onednn_supports(dtype: torch.dtype) -> bool:
    """Whether oneDNN, in which PyTorch computes an LSTM on the CPU, has `dtype` on this CPU."""
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype != torch.float16 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


class LSTM(nn.LSTM):
    """`nn.LSTM` that also runs under autocast on a CPU without instructions for bfloat16: there in float32.

    PyTorch's own raises "could not create a primitive descriptor" on such a CPU.
    """

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, CellState]:  # type: ignore[override]
        """All states of the last layer, and the final `(hidden, cell)` of each layer."""
        on_cpu = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        if not on_cpu or _onednn_supports(torch.get_autocast_dtype("cpu")):
            return super().forward(x, hx)
        dtype = next(self.parameters()).dtype
        with torch.autocast("cpu", enabled=False):
            state = None if hx is None else (hx[0].to(dtype), hx[1].to(dtype))
            return super().forward(x.to(dtype), state)


def recurrent_layers(
    cell: str, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0
) -> nn.LSTM | nn.GRU:
    """PyTorch's layers, batch first, initialised like the late cells."""
    kind = LSTM if cell == "lstm" else nn.GRU
    stack = kind(input_size, hidden_size, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
    for name, parameter in stack.named_parameters():
        if name.startswith("weight"):
            fill_gates(parameter, hidden_size, orthogonal="_hh_" in name)
        else:
            nn.init.zeros_(parameter)
            if cell == "lstm" and "_ih_" in name:
                nn.init.ones_(parameter[hidden_size : 2 * hidden_size])
    return stack


class LateCell(nn.Module):
    """A cell whose input comes in two parts: `x` before the loop, `y` step by step.

    Args:
        early_size: size of x; 0 if there is none.
        late_size: size of y.
        hidden_size: size h of the state.
        gates: number of gates.
    """

    def __init__(self, early_size: int, late_size: int, hidden_size: int, *, gates: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.early_weight = nn.Parameter(torch.empty(gates * hidden_size, early_size)) if early_size else None
        self.late_weight = nn.Parameter(torch.empty(gates * hidden_size, late_size))
        self.hidden_weight = nn.Parameter(torch.empty(gates * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(gates * hidden_size))
        if self.early_weight is not None:
            fill_gates(self.early_weight, hidden_size, orthogonal=False)
        fill_gates(self.late_weight, hidden_size, orthogonal=False)
        fill_gates(self.hidden_weight, hidden_size, orthogonal=True)

    def early(self, x: Float[Tensor, "*steps e"] | None) -> Float[Tensor, "*steps g"]:
        """The gates' part from x and the bias, for any number of steps; without x, only the bias."""
        if x is None or self.early_weight is None:
            return self.bias
        return F.linear(x, self.early_weight, self.bias)


class LateLSTM(LateCell):
    """LSTM (Hochreiter & Schmidhuber 1997, with the forget gates of Gers et al. 2000).

        i, f, o = sigmoid(W x + V y + U h + b),   g = tanh(W x + V y + U h + b)
        c' = f * c + i * g,   h' = o * tanh(c')

    The gates are stored in this order, so that one sigmoid covers three of them. Forget gates start open
    (bias 1), as recommended by Jozefowicz et al. 2015. A step takes one product for all gates.
    """

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size, gates=4)
        nn.init.ones_(self.bias[hidden_size : 2 * hidden_size])

    def forward(self, early: Tensor, late: Float[Tensor, "N y"], state: CellState) -> CellState:
        """One step from the early part `[N, 4h]` (or the bias), y and `(h, c)`."""
        hidden, cell = state
        gates = torch.addmm(early, late, self.late_weight.t())
        gates = torch.addmm(gates, hidden, self.hidden_weight.t())
        size = self.hidden_size
        squashed, new = torch.split(gates, [3 * size, size], -1)
        enter, keep, leave = squashed.sigmoid().chunk(3, -1)
        cell = torch.addcmul(keep * cell, enter, new.tanh())
        return leave * cell.tanh(), cell


class LateGRU(LateCell):
    """GRU (1406.1078, eq. 5 to 8), with the reset gate after the product with the state, as in PyTorch.

        r, z = sigmoid(W x + V y + b + U h + a)
        n = tanh(W x + V y + b + r * (U h + a)),   h' = (1 - z) * n + z * h

    A step takes two products, because the reset gate comes between them.
    """

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size, gates=3)
        self.hidden_bias = nn.Parameter(torch.zeros(3 * hidden_size))

    def forward(self, early: Tensor, late: Float[Tensor, "N y"], state: CellState) -> CellState:
        """One step from the early part `[N, 3h]` (or the bias), y and `(h,)`."""
        (hidden,) = state
        size = self.hidden_size
        above, new = torch.split(torch.addmm(early, late, self.late_weight.t()), [2 * size, size], -1)
        below = F.linear(hidden, self.hidden_weight, self.hidden_bias)
        below, old = torch.split(below, [2 * size, size], -1)
        reset, keep = (above + below).sigmoid().chunk(2, -1)
        return (torch.lerp(torch.addcmul(new, reset, old).tanh(), hidden, keep),)


def late_cell(cell: str, early_size: int, late_size: int, hidden_size: int) -> LateLSTM | LateGRU:
    """The late cell called `cell`."""
    kind = LateLSTM if cell == "lstm" else LateGRU
    return kind(early_size, late_size, hidden_size)
