"""The recurrent encoder-decoder without attention, and its encoder that reads one way."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from toys import LENGTHS, SOURCE, TARGET, exact_toy, toy

from attention_lab.attention import Band, Dot, Mechanism, recording
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.models.parts.recurrent_encoder import RecurrentEncoder
from attention_lab.models.specs import Seq2SeqSpec


def _model(**options: Any) -> Seq2Seq:
    return exact_toy(Seq2Seq, Dot, **options)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_one_way_encoder_equals_packed_layers(cell: str) -> None:
    torch.manual_seed(0)
    sizes = {"embedding_size": 5, "hidden_size": 7, "layers": 2}
    spec = Seq2SeqSpec(**sizes, cell=cell, dropout=0.0, residual=False, bidirectional=False)
    encoder = RecurrentEncoder(9, spec).double()
    theirs = (nn.LSTM if cell == "lstm" else nn.GRU)(5, 7, 2, batch_first=True).double()
    for layer in range(2):
        for name, parameter in encoder.layers.forwards[layer].named_parameters():
            getattr(theirs, name.replace("_l0", f"_l{layer}")).data = parameter.data
    annotations, values, mask, finals, _ = encoder(SOURCE, LENGTHS)
    packed = pack_padded_sequence(encoder.embedding(SOURCE), LENGTHS, batch_first=True, enforce_sorted=False)
    output, state = theirs(packed)
    expected, _ = pad_packed_sequence(output, batch_first=True)
    assert mask.sum((1, 2)).tolist() == LENGTHS.tolist()
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(annotations[row, :length], expected[row, :length], rtol=0, atol=1e-12)
    assert values is annotations
    last = state[0] if cell == "lstm" else state
    torch.testing.assert_close(torch.stack(finals), last, rtol=0, atol=1e-12)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("wiring", "feeding"), list(product(("bahdanau", "luong"), (False, True))))
def test_without_attention_every_context_is_the_last_state(
    wiring: str, feeding: bool, layers: int, bidirectional: bool
) -> None:
    """As with an attention that is replaced by the encoder's last state; it is seen at the last symbol."""
    model = _model(
        wiring=wiring, input_feeding=feeding, layers=layers, memory="final", bidirectional=bidirectional
    )
    with recording(model) as weights:
        logits = model(SOURCE, LENGTHS, TARGET)
    seen = weights["decoder.attention"]
    assert seen.shape == (3, 1, TARGET.shape[1], SOURCE.shape[1])
    assert torch.equal(seen.argmax(-1)[:, 0], (LENGTHS - 1).unsqueeze(-1).expand(-1, TARGET.shape[1]))
    torch.testing.assert_close(seen.sum(-1), torch.ones_like(seen[..., 0]), rtol=0, atol=0)

    encoded = model.encode(SOURCE, LENGTHS)
    last = encoded.finals[-1]
    model.decoder.attention.forward = lambda query, memory, *, offset: last.unsqueeze(1).expand_as(query)
    torch.testing.assert_close(model.read(encoded, TARGET), logits, rtol=0, atol=1e-12)


def test_without_attention_the_parameters_are_those_with_it() -> None:
    sizes = [
        sum(p.numel() for p in _model(residual=False, memory=memory).parameters())
        for memory in ("annotations", "final")
    ]
    assert sizes[0] == sizes[1]
    model = _model(memory="final")
    model(SOURCE, LENGTHS, TARGET).sum().backward()
    assert all(p.grad is not None for p in model.parameters()), "no parameter is idle, residual or not"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "last"}, "model.memory=last is unknown: choose annotations or final"),
        ({"memory": "final", "ctc_frames": 2}, "set model.ctc_frames=0"),
        ({"hidden_size": 7}, "model.hidden_size must be even"),
    ],
)
def test_what_an_encoder_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        toy(Seq2Seq, Dot, **options)


def test_a_window_has_no_place_without_attention() -> None:
    with pytest.raises(LabError, match="choose window=global"):
        toy(Seq2Seq, Mechanism(Dot, window=Band), memory="final")
