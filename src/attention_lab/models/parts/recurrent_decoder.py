"""Recurrent decoder with attention (1409.0473; 1508.04025)."""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, Mechanism, Memory
from attention_lab.attention.pooling import probabilities
from attention_lab.models.parts.copying import Copying
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.recurrent_cells import CellState, LateCell, late_cell, recurrent_layers
from attention_lab.models.specs import RecurrentSpec


class DecoderState(NamedTuple):
    """The state of a decoder for N sequences; passed explicitly, never stored in the model.

    Attributes:
        memory: the source, prepared for attention.
        layers: `(hidden,)` or `(hidden, cell)` of each layer, `[N, h]`.
        readout: the last attentional vector `[N, h]`, with input feeding.
        position: number of completed steps, which is the position of the next query.
        joint: `log p(s, y)` `[N, S, V]` of the last step, if the decoder sums over positions.
        condition: `[N, e]`, added to the embedding of each symbol read; see `Encoded`.
    """

    memory: Memory
    layers: tuple[CellState, ...]
    readout: Tensor | None
    position: int = 0
    joint: Tensor | None = None
    condition: Tensor | None = None

    def select(self, index: Int[Tensor, " M"]) -> "DecoderState":
        """The states of the sequences `index`."""
        return self.reorder(index)._replace(
            memory=self.memory.select(index),
            condition=None if self.condition is None else self.condition.index_select(0, index),
        )

    def reorder(self, index: Int[Tensor, " N"]) -> "DecoderState":
        """The states of the sequences `index`, each of the same source as the sequence it replaces."""
        return self._replace(
            layers=tuple(tuple(x.index_select(0, index) for x in layer) for layer in self.layers),
            readout=None if self.readout is None else self.readout.index_select(0, index),
            joint=None if self.joint is None else self.joint.index_select(0, index),
        )


class AttentiveDecoder(nn.Module):
    """Recurrent decoder that attends to a memory at every step, with one of two wirings.

    `bahdanau` attends before the recurrent step (1409.0473, A.2.2):

        c_t = attend(h_{t-1}),   h_t = RNN([e_t; c_t], h_{t-1}),   r_t = tanh(W [h_t; c_t] + V e_t + b)

    `luong` attends after it (1508.04025, eq. 5):

        h_t = RNN(e_t, h_{t-1}),   c_t = attend(h_t),   r_t = tanh(W [h_t; c_t] + b)

    with `e_t` the embedding of the previous symbol; the logits are `W_s r_t + b_s`. The readout of the
    first wiring is like that of the second, where the paper has a maxout of `U h_{t-1} + V e_t + C c_t`.
    With input feeding, `r_{t-1}` is an additional input of the RNN, `r_0 = 0` (1508.04025, section 3.3).
    Several layers are stacked, and the top one attends.

    Whatever needs no loop is computed for all steps at once: the embeddings with their contributions to
    gates and readout, the logits, and, without input feeding, the readout. The luong wiring without input
    feeding needs no loop at all.

    Args:
        mechanism: the attention.
        vocabulary: number of target symbols.
        spec: the options of the decoder.
        copying: mixes the symbols that attention points at into the output, which is then log-probabilities.
    """

    def __init__(
        self, mechanism: Mechanism, vocabulary: int, spec: RecurrentSpec, copying: Copying | None = None
    ) -> None:
        super().__init__()
        cell, size, embedding_size = spec.cell, spec.hidden_size, spec.embedding_size
        self.attends_first = spec.wiring == "bahdanau"
        self.input_feeding = spec.input_feeding
        self.embedding = nn.Embedding(vocabulary, embedding_size)
        self.attention = mechanism(size, size, dropout=spec.attention_dropout)
        self.bridges = nn.ModuleList(
            nn.Linear(size, size * (2 if cell == "lstm" else 1)) for _ in range(spec.layers)
        )
        self.whole = None  # checkpoints use this name: PyTorch's layers, for all steps in one call
        self.cells = nn.ModuleList()
        late = size * (self.attends_first + self.input_feeding)
        if late:
            self.cells.append(late_cell(cell, embedding_size, late, size))
            self.cells.extend(late_cell(cell, 0, size, size) for _ in range(spec.layers - 1))
        else:
            self.whole = recurrent_layers(cell, embedding_size, size, spec.layers, spec.dropout)
        self.readout = nn.Linear(2 * size, size)
        self.readout_embedding = nn.Linear(embedding_size, size, bias=False) if self.attends_first else None
        self.output = nn.Linear(size, vocabulary)
        self.dropout = Dropout(spec.dropout)
        self.copying = copying

    @property
    def steps_are_independent(self) -> bool:
        """Whether no step depends on earlier attention: true of the luong wiring without input feeding."""
        return self.whole is not None

    def start(self, encoded: Encoded) -> DecoderState:
        """The state before the first symbol: `h_0 = tanh(W s + b)`, with s the encoder's last states.

        1409.0473, A.2.2, uses only the backward half of s. The cell of an LSTM starts at `W' s + b'`.
        """
        layers = []
        for bridge, final in zip(self.bridges, encoded.finals, strict=True):
            hidden, *cell = bridge(final).split(final.shape[-1], -1)
            layers.append((hidden.tanh(), *cell))
        readout = torch.zeros_like(encoded.finals[0]) if self.input_feeding else None
        memory = self.attention.remember(encoded.keys, encoded.values, encoded.mask)
        return DecoderState(memory, tuple(layers), readout, condition=encoded.condition)

    def forward(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """Logits of the symbol after each of the T given symbols, and the new state."""
        embedded = self._embed(tokens, state)
        run = self._loop if self.whole is None else self._at_once
        readouts, pointers, state = run(embedded, state)
        return self._logits(readouts, pointers).transpose(0, 1), state

    def attend(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], Float[Tensor, "N T S"]]:
        """The logits of `forward`, and the attention weights with gradients.

        Available only if `steps_are_independent`.
        """
        hidden, _ = self._states(self._embed(tokens, state), state)
        weights = self.attention.weights(hidden, state.memory, offset=state.position)
        context, pointers = self._split(self.attention.pool(weights, state.memory.value))
        return self._logits(self._read(hidden, context, None), pointers), weights

    def enumerate(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T S V"], DecoderState]:
        """The probability of each source position, the logits if only that one is attended, and the state.

        Available only if `steps_are_independent`.
        """
        hidden, layers = self._states(self._embed(tokens, state), state)
        probability = probabilities(self.attention.weights(hidden, state.memory, offset=state.position))
        # W [h; c] = W_h h + W_c c: one product for the steps, one for the positions, none for all pairs.
        of_step, of_position = self.readout.weight.chunk(2, -1)
        steps = F.linear(hidden, of_step, self.readout.bias)
        values, pointers = self._split(state.memory.value)
        readouts = torch.tanh(steps.unsqueeze(2) + F.linear(values, of_position).unsqueeze(1))
        after = state._replace(layers=layers, position=state.position + tokens.shape[1])
        logits = self._logits(readouts, None if pointers is None else pointers.unsqueeze(1))
        return probability, logits, after

    def _embed(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The inputs of the cells, `[T, N, e]`, so that each step is contiguous."""
        embedded = self.embedding(tokens.t())
        return self.dropout(embedded if state.condition is None else embedded + state.condition)  # type: ignore[no-any-return]

    def _split(self, context: Tensor) -> tuple[Tensor, Tensor | None]:
        """The context itself, and the pointer if there is copying."""
        return (context, None) if self.copying is None else self.copying.split(context)

    def _logits(self, readouts: Tensor, pointers: Tensor | None) -> Tensor:
        """The logits for the readouts or, with copying, log-probabilities."""
        readouts = self.dropout(readouts)
        logits: Tensor = self.output(readouts)
        if self.copying is None:
            return logits
        return self.copying(readouts, logits, pointers)  # type: ignore[no-any-return]

    def _at_once(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, Tensor | None, DecoderState]:
        """All steps of the luong wiring: one recurrent call, one attention."""
        hidden, layers = self._states(embedded, state)
        context, pointers = self._split(self.attention(hidden, state.memory, offset=state.position))
        position = state.position + len(embedded)
        readouts = self._read(hidden, context, None).transpose(0, 1)
        pointers = None if pointers is None else pointers.transpose(0, 1)
        return readouts, pointers, state._replace(layers=layers, position=position)

    def _states(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, tuple[CellState, ...]]:
        """The top layer's states `[N, T, h]` in one recurrent call, and the last states of every layer."""
        assert self.whole is not None
        initial = [torch.stack(parts) for parts in zip(*state.layers, strict=True)]
        hidden, final = self.whole(
            embedded.transpose(0, 1), tuple(initial) if len(initial) == 2 else initial[0]
        )
        parts = final if isinstance(final, tuple) else (final,)
        return hidden, tuple(zip(*(part.unbind(0) for part in parts), strict=True))

    def _loop(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Step by step; everything that depends only on the embeddings is computed beforehand."""
        memory, layers, readout, first, *_ = state
        early = self._cell(0).early(embedded).unbind(0)
        share = None if self.readout_embedding is None else self.readout_embedding(embedded)
        shares = [None] * len(early) if share is None else share.unbind(0)
        hidden, contexts, pointers, readouts = [], [], [], []
        for step, part in enumerate(early):
            if self.attends_first:
                context, pointer = self._attend(layers, memory, first + step)
                late = context if readout is None else torch.cat([readout, context], -1)
                layers = self._advance(part, late, layers)
            else:
                assert readout is not None  # without input feeding, the luong wiring needs no loop
                layers = self._advance(part, readout, layers)
                context, pointer = self._attend(layers, memory, first + step)
            hidden.append(layers[-1][0])
            contexts.append(context)
            if pointer is not None:
                pointers.append(pointer)
            if readout is not None:
                readout = self._read(hidden[-1], context, shares[step])
                readouts.append(readout)
        if readout is None:
            together = self._read(torch.stack(hidden), torch.stack(contexts), share)
        else:
            together = torch.stack(readouts)
        after = state._replace(layers=layers, readout=readout, position=first + len(early))
        return together, torch.stack(pointers) if pointers else None, after

    def _attend(
        self, layers: tuple[CellState, ...], memory: Memory, position: int
    ) -> tuple[Tensor, Tensor | None]:
        """Attend with the top layer's state: the context `[N, h]`, and the pointer if there is copying."""
        context, pointer = self._split(self.attention(layers[-1][0].unsqueeze(1), memory, offset=position))
        return context.squeeze(1), None if pointer is None else pointer.squeeze(1)

    def _cell(self, layer: int) -> LateCell:
        return cast(LateCell, self.cells[layer])

    def _advance(self, early: Tensor, late: Tensor, layers: tuple[CellState, ...]) -> tuple[CellState, ...]:
        """One step of all layers."""
        states: list[CellState] = [self.cells[0](early, late, layers[0])]
        for layer in range(1, len(layers)):
            below = self.dropout(states[-1][0])
            states.append(self.cells[layer](self._cell(layer).early(None), below, layers[layer]))
        return tuple(states)

    def _read(self, hidden: Tensor, context: Tensor, share: Tensor | None) -> Tensor:
        """The readout, for any number of steps; `share` is the contribution of the embeddings."""
        x = self.readout(torch.cat([hidden, context], -1))
        return torch.tanh(x if share is None else x + share)
