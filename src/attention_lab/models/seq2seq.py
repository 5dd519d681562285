"""Recurrent encoder-decoder with attention (1409.0473; 1508.04025)."""

from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.attention import Mechanism, Memory, lengths_mask
from attention_lab.errors import LabError
from attention_lab.models.recurrent import (
    CellState,
    LateCell,
    RecurrentEncoder,
    late_cell,
    recurrent_layers,
)
from attention_lab.sizes import BOS, TransductionSizes


class DecoderState(NamedTuple):
    """Where a decoder stands in N sequences; a value that is passed, never hidden.

    Attributes:
        memory: the source, prepared for attention.
        layers: `(hidden,)` or `(hidden, cell)` of each layer, `[N, h]`.
        readout: the last attentional vector `[N, h]` if it is fed to the next step.
    """

    memory: Memory
    layers: tuple[CellState, ...]
    readout: Tensor | None

    def select(self, index: Int[Tensor, " M"]) -> "DecoderState":
        """The states of the sequences `index`."""
        return DecoderState(
            self.memory.select(index),
            tuple(tuple(x.index_select(0, index) for x in layer) for layer in self.layers),
            None if self.readout is None else self.readout.index_select(0, index),
        )


class AttentiveDecoder(nn.Module):
    """Recurrent decoder that attends to a memory at every step, wired in one of two ways.

    `bahdanau`, before the step (1409.0473, A.2.2):

        c_t = attend(h_{t-1}),   h_t = RNN([e_t; c_t], h_{t-1}),   r_t = tanh(W [h_t; c_t] + V e_t + b)

    `luong`, after it (1508.04025, eq. 5):

        h_t = RNN(e_t, h_{t-1}),   c_t = attend(h_t),   r_t = tanh(W [h_t; c_t] + b)

    with `e_t` the embedding of the symbol before; the logits are `W_s r_t + b_s`. The readout of the
    first is like that of the second where the paper has a maxout of `U h_{t-1} + V e_t + C c_t`. With
    input feeding `r_{t-1}` is one more input of the RNN, `r_0 = 0` (1508.04025, section 3.3). Several
    layers are stacked and the top one attends.

    What needs no loop is done for all steps at once: embeddings with their share of gates and readout, the
    logits, and, unless it is fed, the readout; the luong wiring without feeding needs no loop at all.

    Args:
        mechanism: the attention.
        vocabulary: number of target symbols.
        embedding_size: size of their embeddings.
        hidden_size: size h of states, annotations and readouts.
        layers: number of layers.
        cell: `lstm` or `gru`.
        wiring: `bahdanau` or `luong`.
        input_feeding: feed the readout to the next step.
        dropout: on embeddings, between layers and on the readout that makes the logits.
        attention_dropout: on attention weights.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        vocabulary: int,
        *,
        embedding_size: int,
        hidden_size: int,
        layers: int,
        cell: str,
        wiring: str,
        input_feeding: bool,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.attends_first = wiring == "bahdanau"
        self.input_feeding = input_feeding
        self.embedding = nn.Embedding(vocabulary, embedding_size)
        self.attention = mechanism(hidden_size, hidden_size, dropout=attention_dropout)
        self.bridges = nn.ModuleList(
            nn.Linear(hidden_size, hidden_size * (2 if cell == "lstm" else 1)) for _ in range(layers)
        )
        self.whole = None
        self.cells = nn.ModuleList()
        late = hidden_size * (self.attends_first + input_feeding)
        if late:
            self.cells.append(late_cell(cell, embedding_size, late, hidden_size))
            self.cells.extend(late_cell(cell, 0, hidden_size, hidden_size) for _ in range(layers - 1))
        else:
            self.whole = recurrent_layers(cell, embedding_size, hidden_size, layers, dropout)
        self.readout = nn.Linear(2 * hidden_size, hidden_size)
        self.readout_embedding = (
            nn.Linear(embedding_size, hidden_size, bias=False) if self.attends_first else None
        )
        self.output = nn.Linear(hidden_size, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def start(
        self,
        annotations: Float[Tensor, "B S h"],
        values: Float[Tensor, "B S h"],
        mask: Bool[Tensor, "B 1 S"],
        finals: list[Float[Tensor, "B h"]],
    ) -> DecoderState:
        """The state before the first symbol: `h_0 = tanh(W s + b)` of the encoder's last states s.

        1409.0473, A.2.2, takes only the backward half of s. The cell of an LSTM starts at `W' s + b'`.
        """
        layers = []
        for bridge, final in zip(self.bridges, finals, strict=True):
            hidden, *cell = bridge(final).split(final.shape[-1], -1)
            layers.append((hidden.tanh(), *cell))
        readout = torch.zeros_like(finals[0]) if self.input_feeding else None
        return DecoderState(self.attention.remember(annotations, values, mask), tuple(layers), readout)

    def forward(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """Logits of what follows each of T given symbols, and the state after them."""
        embedded = self.dropout(self.embedding(tokens.t()))  # [T, N, e]: a step is one block of memory
        run = self._loop if self.whole is None else self._at_once
        readouts, state = run(embedded, state)
        return self.output(self.dropout(readouts)).transpose(0, 1), state

    def _at_once(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """All steps of the luong wiring: one recurrent call, one attention."""
        assert self.whole is not None
        initial = [torch.stack(parts) for parts in zip(*state.layers, strict=True)]
        hidden, final = self.whole(
            embedded.transpose(0, 1), tuple(initial) if len(initial) == 2 else initial[0]
        )
        parts = final if isinstance(final, tuple) else (final,)
        layers = tuple(zip(*(part.unbind(0) for part in parts), strict=True))
        context = self.attention(hidden, state.memory)
        return self._read(hidden, context, None).transpose(0, 1), state._replace(layers=layers)

    def _loop(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Step by step, with what depends on the embeddings alone computed before."""
        memory, layers, readout = state
        early = self._cell(0).early(embedded).unbind(0)
        share = None if self.readout_embedding is None else self.readout_embedding(embedded)
        shares = [None] * len(early) if share is None else share.unbind(0)
        hidden, contexts, readouts = [], [], []
        for step in range(len(early)):
            late = [] if readout is None else [readout]
            if self.attends_first:
                contexts.append(self._attend(layers, memory))
                late.append(contexts[-1])
            layers = self._advance(early[step], late[0] if len(late) == 1 else torch.cat(late, -1), layers)
            hidden.append(layers[-1][0])
            if not self.attends_first:
                contexts.append(self._attend(layers, memory))
            if readout is not None:
                readout = self._read(hidden[-1], contexts[-1], shares[step])
                readouts.append(readout)
        if readout is None:
            together = self._read(torch.stack(hidden), torch.stack(contexts), share)
        else:
            together = torch.stack(readouts)
        return together, DecoderState(memory, layers, readout)

    def _attend(self, layers: tuple[CellState, ...], memory: Memory) -> Tensor:
        context: Tensor = self.attention(layers[-1][0].unsqueeze(1), memory)
        return context.squeeze(1)

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
        """The readout, for any number of steps; `share` is what the embeddings contribute."""
        x = self.readout(torch.cat([hidden, context], -1))
        return torch.tanh(x if share is None else x + share)


class Seq2Seq(nn.Module):
    """Recurrent encoder and attentive decoder: `p(y | x) = prod_t p(y_t | y_<t, x)`.

    It is trained by `forward` on the gold output, and written out symbol by symbol with `start`, `step`
    and `select` by the searches of `decoding`. Queries, keys and values all have `hidden_size`.

    Args:
        mechanism: the attention of the decoder.
        sizes: the vocabularies.
        embedding_size: size of the embeddings on both sides.
        hidden_size: size of annotations and decoder states; even.
        layers: layers of the encoder, and of the decoder.
        cell: `lstm` or `gru`.
        wiring: `bahdanau`, attend before the recurrent step, or `luong`, after it; see `AttentiveDecoder`.
        input_feeding: feed the attentional vector to the next step.
        dropout: on embeddings, between layers and before the logits.
        attention_dropout: on attention weights.
        residual: add each source symbol's own embedding to its value; see `RecurrentEncoder`.

    Raises:
        LabError: for a choice that there is not, an odd `hidden_size` or no layer.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sizes: TransductionSizes,
        *,
        embedding_size: int = 128,
        hidden_size: int = 256,
        layers: int = 1,
        cell: str = "lstm",
        wiring: str = "bahdanau",
        input_feeding: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__()
        if cell not in ("lstm", "gru"):
            raise LabError(f"model.cell={cell} is unknown: choose lstm or gru")
        if wiring not in ("bahdanau", "luong"):
            raise LabError(f"model.wiring={wiring} is unknown: choose bahdanau or luong")
        for name, size in (
            ("embedding_size", embedding_size),
            ("hidden_size", hidden_size),
            ("layers", layers),
        ):
            if size < 1:
                raise LabError(f"model.{name} must be at least 1, got {size}")
        self.encoder = RecurrentEncoder(
            sizes.source_vocabulary,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            layers=layers,
            cell=cell,
            dropout=dropout,
            residual=residual,
        )
        self.decoder = AttentiveDecoder(
            mechanism,
            sizes.target_vocabulary,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            layers=layers,
            cell=cell,
            wiring=wiring,
            input_feeding=input_feeding,
            dropout=dropout,
            attention_dropout=attention_dropout,
        )

    def forward(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits under teacher forcing: `logits[:, t]` predicts `target[:, t]` from what precedes.

        Args:
            source: symbols, each sequence padded.
            source_lengths: lengths of at least 1; what stands beyond changes nothing.
            target: gold symbols that end in EOS, padded; the shift to the right happens here.
        """
        before = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        logits, _ = self.decoder(before, self.start(source, source_lengths))
        return logits  # type: ignore[no-any-return]

    def start(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"]) -> DecoderState:
        """The state before the first symbol, for `step` with BOS."""
        annotations, values, finals = self.encoder(source, source_lengths)
        mask = lengths_mask(source_lengths, source.shape[1])
        return self.decoder.start(annotations, values, mask, finals)

    def step(
        self, tokens: Int[Tensor, " N"], state: DecoderState
    ) -> tuple[Float[Tensor, "N V"], DecoderState]:
        """Logits of what follows the symbols `tokens`, and the state after them."""
        logits, state = self.decoder(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state

    def select(self, state: DecoderState, index: Int[Tensor, " M"]) -> DecoderState:
        """The states of the sequences `index`, for a search that keeps some and repeats others."""
        return state.select(index)
