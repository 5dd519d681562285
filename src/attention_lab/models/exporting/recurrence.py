"""Recurrent layers that export to a graph for any length: `torch.export` unrolls those of PyTorch."""

import copy
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn.utils.rnn import PackedSequence

from attention_lab.errors import LabError
from attention_lab.models.parts.recurrent_cells import LSTM

State = Tensor | tuple[Tensor, Tensor]
Step = Callable[[list[Tensor], Tensor, Tensor], tuple[Tensor, ...]]


def scan_layers(layers: nn.RNNBase, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
    """The outputs of the layers in evaluation mode for padded inputs, computed by a scan over time.

    Args:
        layers: the layers, of either order of axes, and of one direction or both.
        x: inputs `[B, L, d]` if they have `batch_first`, otherwise `[L, B, d]`.
        state: the state before the first step; zeros if None.

    Raises:
        LabError: the inputs are packed.
    """
    if isinstance(x, PackedSequence):
        raise LabError(
            "the model gives a recurrent layer a PackedSequence, whose length would be a constant in graphs: "
            "it must give padded sequences"
        )
    if layers.batch_first:
        x = x.transpose(0, 1)
    ways = 2 if layers.bidirectional else 1
    parts = _parts(state, layers, x, layers.num_layers * ways)
    finals: list[list[Tensor]] = []
    for layer in range(layers.num_layers):
        outputs = []
        for way in range(ways):
            final, output = _one_way(
                layers,
                f"l{layer}" + "_reverse" * way,
                x.flip(0) if way else x,
                [part[len(finals)] for part in parts],
            )
            finals.append(final)
            outputs.append(output.flip(0) if way else output)
        x = torch.cat(outputs, -1) if ways > 1 else outputs[0]
    stacked = [torch.stack(part) for part in zip(*finals, strict=True)]
    x = x.transpose(0, 1) if layers.batch_first else x
    return x, stacked[0] if len(stacked) == 1 else (stacked[0], stacked[1])


def _one_way(layers: nn.RNNBase, name: str, x: Tensor, start: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """The last state and the outputs `[L, B, h]` of one layer in one direction."""
    of_input, of_state = (getattr(layers, f"weight_{part}_{name}") for part in ("ih", "hh"))
    input_bias, state_bias, projection = (
        getattr(layers, f"{part}_{name}", None) for part in ("bias_ih", "bias_hh", "weight_hr")
    )
    step = _step_of(layers)

    def advance(carry: list[Tensor], gates: Tensor) -> tuple[list[Tensor], Tensor]:
        hidden, *rest = step(carry, gates, F.linear(carry[0], of_state, state_bias))
        if projection is not None:
            hidden = F.linear(hidden, projection)
        return [hidden, *rest], hidden.clone()  # a scan may not return one tensor twice

    final, outputs = scan(advance, start, F.linear(x, of_input, input_bias))
    return final, outputs


def _parts(state: State | None, layers: nn.RNNBase, x: Tensor, rows: int) -> tuple[Tensor, ...]:
    """Hidden states, and the cells of an LSTM, `[layers, B, h]`; zeros where no state is given."""
    if state is not None:
        return (state,) if isinstance(state, Tensor) else state
    hidden = x.new_zeros(rows, x.shape[1], layers.proj_size or layers.hidden_size)
    if not isinstance(layers, nn.LSTM):
        return (hidden,)
    return hidden, x.new_zeros(rows, x.shape[1], layers.hidden_size)


def _step_of(layers: nn.RNNBase) -> Step:
    """The function from state, input and recurrent gates to the next state."""
    if isinstance(layers, nn.LSTM):
        return _lstm_step
    if isinstance(layers, nn.GRU):
        return _gru_step
    return _relu_step if getattr(layers, "nonlinearity", "") == "relu" else _tanh_step


def _lstm_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor]:
    enter, forget, new, out = (given + recurrent).chunk(4, -1)
    cell = forget.sigmoid() * carry[1] + enter.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[Tensor]:
    """As PyTorch has it: the reset gate acts on `U h + b`."""
    (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), recurrent.chunk(3, -1)
    kept = (update + own_update).sigmoid()
    candidate = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return ((1 - kept) * candidate + kept * carry[0],)


def _tanh_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[Tensor]:
    return ((given + recurrent).tanh(),)


def _relu_step(carry: list[Tensor], given: Tensor, recurrent: Tensor) -> tuple[Tensor]:
    return ((given + recurrent).relu(),)


def scanned(model: nn.Module) -> nn.Module:
    """A copy of a model in evaluation mode, in which every recurrent layer of PyTorch runs as a scan."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for module in model.modules():
        # Another class that is derived from these may compute anything.
        if isinstance(module, nn.RNNBase) and type(module) in (nn.LSTM, nn.GRU, nn.RNN, LSTM):
            module.forward = partial(scan_layers, module)
    return model
