"""The base class of all models that generate a sequence: `p(y | x) = prod_t p(y_t | y_<t, x)`."""

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_lab.argument_checks import kind_of
from attention_lab.errors import LabError
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.special_symbols import BOS


class TransductionModel(nn.Module, ABC):
    """An encoder, and a decoder that attends to what it returns.

    A model of this kind has a decoder and the method `encode`. In training, `forward` (which is `encode`,
    then `read`) gives logits for the gold output. The searches of `decoding` generate the output symbol by
    symbol with `start`, `step` and `select`.

    Attributes:
        decoder: a module whose `start(encoded)` is the state before the first symbol. It maps symbols
            `[N, T]` and the state before them to the logits `[N, T, V]` of the symbols that follow each, and
            the state after them. A state has `select(index)`, and `reorder(index)` if that can be faster.
        tagger: also reads the encoded source, in training and for rescoring; None if there is none.
        alignment: name of the attention that is compared with a gold alignment; None if there is none.
    """

    decoder: Any
    tagger: CTCHead | None
    alignment: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.tagger = None

    @property
    def latent(self) -> nn.Module | None:
        """The pooling whose attended position training may treat as a latent variable; None without one."""
        return None

    @property
    def longest(self) -> int:
        """The longest output, in symbols."""
        return 2**31

    @abstractmethod
    def encode(self, source: Shaped[Tensor, "B S *rest"], source_lengths: Int[Tensor, " B"]) -> Any:
        """Encode the sources into whatever the decoder starts from, such as keys and values (`Encoded`)."""

    def forward(
        self,
        source: Shaped[Tensor, "B S *rest"],
        source_lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
        samples: int = 1,
    ) -> Float[Tensor, "N T V"]:
        """Logits under teacher forcing: `logits[:, t]` predicts `target[:, t]` from the symbols before it.

        Args:
            source: symbols or images, each padded.
            source_lengths: lengths of at least 1; padding beyond them has no effect.
            target: gold symbols that end in EOS, padded; the shift to the right happens here.
            samples: decode each example this many times, N = samples B, for attention that samples.
        """
        return self.read(self.encode(source, source_lengths), target, samples)

    def read(self, encoded: Any, target: Int[Tensor, "B T"], samples: int = 1) -> Float[Tensor, "N T V"]:
        """Logits under teacher forcing, for encoded sources; see `forward`."""
        state, before = self.decoder.start(encoded), shifted(target)
        if not hasattr(state, "select"):
            raise LabError(
                f"{type(self.decoder).__name__}.start must return a state with a method select, not "
                f"{kind_of(state)}"
            )
        if samples > 1:
            rows = torch.arange(len(target), device=target.device).repeat_interleave(samples)
            state, before = state.select(rows), before[rows]
        answer = self.decoder(before, state)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            name = type(self.decoder).__name__
            raise LabError(f"{name} must return logits and the state after them, not {kind_of(answer)}")
        logits: Tensor = answer[0]
        return logits

    def start(self, source: Shaped[Tensor, "B S *rest"], source_lengths: Int[Tensor, " B"]) -> Any:
        """The state before the first symbol, for `step` with BOS."""
        return self.decoder.start(self.encode(source, source_lengths))

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N V"], Any]:
        """Logits of the symbols after `tokens`, and the state after them."""
        logits, state = self.decoder(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state

    def select(self, state: Any, index: Int[Tensor, " M"]) -> Any:
        """The states of the sequences `index`, for a search that drops some and repeats others."""
        return state.select(index)

    def reorder(self, state: Any, index: Int[Tensor, " N"]) -> Any:
        """The states of the sequences `index`, each of the same source as the sequence it replaces."""
        return state.reorder(index) if hasattr(state, "reorder") else state.select(index)


def shifted(target: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The symbol before each target symbol: BOS, then the target without its last symbol."""
    return F.pad(target[:, :-1], (1, 0), value=BOS)
