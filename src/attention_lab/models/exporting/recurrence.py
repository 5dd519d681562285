"""Recurrent layers that export to a graph for any length: `torch.export` unrolls those of PyTorch."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

State = Tensor | tuple[Tensor, Tensor]


class ScannedLayers(nn.Module):
    """The layers of an `nn.LSTM` or `nn.GRU` (batch first, one direction, no dropout) as a scan over time."""

    def __init__(self, layers: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The result of `layers` for inputs `[B, L, d]`, in evaluation mode."""
        layers, x = self.layers, x.transpose(0, 1)
        parts = _parts(state, layers, x)
        finals: list[list[Tensor]] = []
        for layer in range(layers.num_layers):
            of_input, of_state, input_bias, state_bias = (
                getattr(layers, f"{name}_l{layer}")
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            step = _lstm_step if isinstance(layers, nn.LSTM) else _gru_step

            def advance(
                carry: list[Tensor],
                gates: Tensor,
                step: Any = step,
                weight: Tensor = of_state,
                bias: Tensor = state_bias,
            ) -> tuple[list[Tensor], Tensor]:
                return step(carry, gates, F.linear(carry[0], weight, bias))  # type: ignore[no-any-return]

            final, x = scan(advance, [part[layer] for part in parts], F.linear(x, of_input, input_bias))
            finals.append(final)
        stacked = [torch.stack(part) for part in zip(*finals, strict=True)]
        return x.transpose(0, 1), stacked[0] if len(stacked) == 1 else (stacked[0], stacked[1])


def _parts(state: State | None, layers: nn.LSTM | nn.GRU, x: Tensor) -> tuple[Tensor, ...]:
    """Hidden states, and the cells of an LSTM, `[layers, B, h]`; zeros where no state is given."""
    if state is not None:
        return (state,) if isinstance(state, Tensor) else state
    zeros = x.new_zeros(layers.num_layers, x.shape[1], layers.hidden_size)
    return (zeros, zeros.clone()) if isinstance(layers, nn.LSTM) else (zeros,)


def _lstm_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[list[Tensor], Tensor]:
    """One step of an LSTM; a scan may not return one tensor twice."""
    enter, forget, new, out = (given + recurrent).chunk(4, -1)
    cell = forget.sigmoid() * carry[1] + enter.sigmoid() * new.tanh()
    hidden = out.sigmoid() * cell.tanh()
    return [hidden, cell], hidden.clone()


def _gru_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[list[Tensor], Tensor]:
    """One step of a GRU, as PyTorch has it: the reset gate acts on `U h + b`."""
    (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), recurrent.chunk(3, -1)
    kept = (update + own_update).sigmoid()
    candidate = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    hidden = (1 - kept) * candidate + kept * carry[0]
    return [hidden], hidden.clone()


def scanned(model: nn.Module) -> nn.Module:
    """A copy of a model in evaluation mode, with a scan in place of every recurrent layer."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.LSTM | nn.GRU) and not isinstance(module, ScannedLayers):
                setattr(module, name, ScannedLayers(child))
    return model
