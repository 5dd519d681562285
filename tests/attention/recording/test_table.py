"""docs/recording.md is true: some of its cells are tested in every run, the others in slow ones."""

import importlib
import re
from unittest.mock import patch

import pytest
import table
import torch

from attention_lab.attention.recording.weights import KernelCall

AGAIN = "write the page again: python tests/attention/recording/table.py"
CELLS = [(*row, padding) for row in table.rows() for padding in table.ARCHITECTURES[row[0]].paddings]
SAMPLE = [cell for cell in CELLS if cell[1] != "flex"][::7]
SAMPLE += [("Mistral", "flex", "empty rows"), ("Gemma 2", "flex", "padding")]


def _marked(cells: list[tuple[str, str, str]]) -> list[object]:
    marks = {cell: () if cell in SAMPLE else pytest.mark.slow for cell in cells}
    return [pytest.param(*cell, id="-".join(cell), marks=mark) for cell, mark in marks.items()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "implementation", "padding"), _marked(CELLS))
def test_weights_are_those_of_the_model(name: str, implementation: str, padding: str) -> None:
    for dtype, bound in table.BOUNDS.items():
        assert table.difference(name, implementation, padding, dtype) <= bound


@pytest.mark.parametrize(("name", "implementation", "padding"), _marked(CELLS))
def test_the_model_computes_the_same_bits(name: str, implementation: str, padding: str) -> None:
    assert table.same_bits(name, implementation, padding, train=True)
    assert table.same_bits(name, implementation, padding, train=False)


def test_the_page_has_every_row_and_no_fault() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    assert text.startswith(table.HEADER), AGAIN
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[-40:] if "|" in line
    ]
    lines = [line for line in lines if line[0] in table.ARCHITECTURES]
    assert [(line[0], line[2]) for line in lines] == list(table.rows()), AGAIN
    for name, kind, _, *cells, same in lines:
        assert kind == table.ARCHITECTURES[name].kind and same == "yes", AGAIN
        for numbers in (re.findall(r"[\de.+-]+", cell) for cell in cells if cell != "—"):
            assert all(float(one) <= bound for one, bound in zip(numbers, table.BOUNDS.values(), strict=True))


def test_a_wrong_weight_would_show() -> None:
    masked = KernelCall._masked

    def wrong(self: KernelCall, *args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        scores, mask = masked(self, *args)
        return scores * 1.0001, mask

    with patch.object(KernelCall, "_masked", wrong):
        assert table.difference("BERT", "sdpa", "padding", torch.float64) > 1e-10


def test_names_are_those_of_the_modules() -> None:
    assert list(table.recorded("T5", "sdpa")) == [
        "encoder.block.0.layer.0.SelfAttention",
        "encoder.block.1.layer.0.SelfAttention",
        "decoder.block.0.layer.0.SelfAttention",
        "decoder.block.0.layer.1.EncDecAttention",
        "decoder.block.1.layer.0.SelfAttention",
        "decoder.block.1.layer.1.EncDecAttention",
    ]
    assert list(table.recorded("Llama", "sdpa", names=["layers.1"])) == ["layers.1.self_attn"]
    assert list(table.recorded("x-transformers", "eager")) == list(table.recorded("x-transformers", "sdpa"))


@pytest.mark.parametrize(
    ("name", "implementation"), [("Llama", "sdpa"), ("Mistral", "flex"), ("GPT-OSS", "eager")]
)
def test_a_choice_is_that_part_of_all(name: str, implementation: str) -> None:
    everything = table.recorded(name, implementation, "padding")
    some = table.recorded(name, implementation, "padding", examples=[1], heads=[3, 0], queries=[-1, 2])
    for module in everything:
        want = everything[module][[1]][:, [3, 0]][:, :, [8, 2]]
        assert torch.allclose(some[module], want, atol=1e-6)
        assert torch.equal(some.mask(module), everything.mask(module)[[1]][:, [3, 0]][:, :, [8, 2]])


def test_transformers_is_left_as_it_was() -> None:
    before = importlib.import_module("transformers.modeling_utils").AttentionInterface.get_interface
    table.recorded("BERT", "flex")
    assert importlib.import_module("transformers.modeling_utils").AttentionInterface.get_interface is before
    flex = importlib.import_module("torch.nn.attention.flex_attention").flex_attention
    assert flex.__code__.co_name == "flex_attention" and flex.__defaults__[0] is None
