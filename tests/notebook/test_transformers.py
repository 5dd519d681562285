"""`show(model, inputs)` for models of transformers, small and with random weights."""

from typing import Any

import pytest
import torch

import attention_lab

transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat", "dog"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    numbers = {word: number for number, word in enumerate(WORDS)}
    vocabulary = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary, pad_token="[PAD]", unk_token="[UNK]"
    )


SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}


def test_bert_is_shown_with_the_tokens_of_each_text(tokenizer: Any) -> None:
    model = transformers.BertModel(transformers.BertConfig(vocab_size=6, **SIZES)).train()
    inputs = tokenizer(["the cat sat", "dog"], return_tensors="pt", padding=True)
    view = attention_lab.show(model, inputs, heads=[1, 3])
    assert model.training
    name = "encoder.layer.0.attention.self"
    one, two = view.records[f"example 1/{name}"], view.records[f"example 2/{name}"]
    assert one.keys == one.queries == ["the", "cat", "sat"] and two.keys == ["dog"]
    assert (one.input, two.input) == ("the cat sat", "dog")
    assert one.heads == [1, 3]
    model.eval().set_attn_implementation("eager")
    weights = model(**inputs, output_attentions=True).attentions[0].detach().numpy()
    assert abs(one.weights - weights[0, [1, 3], :3, :3]).max() < 1e-6
    assert abs(two.weights - weights[1, [1, 3], :1, :1]).max() < 1e-6
    assert "head 2" in view.svg() and "head 4" in view.svg()


class TakesFeatures(torch.nn.Module):
    """Takes the mapping itself, as a model of sentence-transformers does."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = transformers.BertModel(transformers.BertConfig(vocab_size=6, **SIZES))

    def forward(self, features: Any, **options: Any) -> Any:
        return self.bert(**features)


def test_a_model_may_take_the_mapping_itself(tokenizer: Any) -> None:
    inputs = tokenizer(["the cat sat", "dog"], return_tensors="pt", padding=True)
    view = attention_lab.show(TakesFeatures(), dict(inputs), tokenizer=tokenizer)
    assert view.records["example 1/bert.encoder.layer.0.attention.self"].keys == ["the", "cat", "sat"]
    assert view.records["example 2/bert.encoder.layer.0.attention.self"].keys == ["dog"]


def test_modules_are_chosen_by_the_part_that_they_are_in(tokenizer: Any) -> None:
    model = transformers.BertModel(transformers.BertConfig(vocab_size=6, **SIZES))
    view = attention_lab.show(model, tokenizer("the cat", return_tensors="pt"), names=["encoder.layer.1"])
    assert list(view.records) == ["example 1/encoder.layer.1.attention.self"]


def test_an_encoder_decoder_has_source_and_target(tokenizer: Any) -> None:
    config = transformers.T5Config(
        vocab_size=6, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    inputs = tokenizer(["the cat sat", "dog"], return_tensors="pt", padding=True)
    labels = torch.tensor([[5, 4], [3, -100]])
    view = attention_lab.show(
        transformers.T5ForConditionalGeneration(config), {**inputs, "labels": labels}, tokenizer=tokenizer
    )
    sides = {tag: (record.queries, record.keys) for tag, record in view.records.items()}
    block = "block.0.layer"
    source, target = ["the", "cat", "sat"], ["dog", "sat"]
    assert sides == {
        f"example 1/encoder.{block}.0.SelfAttention": (source, source),
        f"example 1/decoder.{block}.0.SelfAttention": (target, target),
        f"example 1/decoder.{block}.1.EncDecAttention": (target, source),
        f"example 2/encoder.{block}.0.SelfAttention": (["dog"], ["dog"]),
        f"example 2/decoder.{block}.0.SelfAttention": (["cat"], ["cat"]),
        f"example 2/decoder.{block}.1.EncDecAttention": (["cat"], ["dog"]),
    }


def test_a_model_of_pictures_has_numbers() -> None:
    config = transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)
    view = attention_lab.show(transformers.ViTModel(config), {"pixel_values": torch.zeros(1, 3, 8, 8)})
    assert len(view.records) == 2
    assert next(iter(view.records.values())).keys == ["1", "2", "3", "4", "5"]
