"""Models of transformers with any mechanism generate the same with a cache as without."""

from functools import partial
from typing import Any

import pytest
import torch
import transformers
from architectures import LENGTH, SHARED, SMALL, WORDS, strong
from torch import Tensor

from attention_lab import replace_attention
from attention_lab.attention import (
    Additive,
    Band,
    LocalP,
    Location,
    Mechanism,
    QueryFree,
    ScaledDot,
    Score,
    Sparsemax,
)

SAME = Mechanism(ScaledDot)
LOCAL_P = Mechanism(ScaledDot, window=LocalP)
BAND = Mechanism(ScaledDot, window=partial(Band, width=2))


def _generator(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL, **WORDS, **SHARED, **options)
    return strong(getattr(transformers, f"{name}ForCausalLM")._from_config(config).eval())


def _t5() -> Any:
    torch.manual_seed(0)
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=60)
    return strong(transformers.T5ForConditionalGeneration._from_config(config).eval())


def _generate(model: Any, **options: Any) -> Tensor:
    prompt = torch.randint(3, 60, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    real = torch.ones_like(prompt)
    real[0, :3] = 0  # padding on the left
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0} | options
    tokens: Tensor = model.generate(prompt, attention_mask=real, disable_compile=True, **options)
    return tokens


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["Llama", "Mistral"])
@pytest.mark.parametrize("mechanism", [SAME, Mechanism(Additive), Mechanism(ScaledDot, normalizer=Sparsemax)])
def test_generating_with_a_cache_gives_the_same_as_without(
    name: str, mechanism: Mechanism, cache: str
) -> None:
    model = _generator(name, **({"sliding_window": 4} if name == "Mistral" else {}))
    plain = _generate(model)
    replace_attention(model, mechanism)
    expected = _generate(model, use_cache=False)
    assert torch.equal(_generate(model, cache_implementation=cache), expected)
    assert torch.equal(plain, expected) == (mechanism is SAME)


@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_a_static_cache_without_padding_is_still_empty_after_the_prompt(name: str) -> None:
    model = _t5() if name == "T5" else _generator("Llama")
    replace_attention(model, SAME)
    prompt = torch.randint(3, 60, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "disable_compile": True}
    if name == "T5":
        options |= {"decoder_input_ids": prompt[:, :4], "decoder_start_token_id": 0}
    tokens = [model.generate(prompt, cache_implementation=kind, **options) for kind in ("dynamic", "static")]
    assert torch.equal(*tokens)


def test_a_window_moves_with_the_steps_of_generating() -> None:
    model = _generator("Llama")
    replace_attention(model, BAND)
    assert torch.equal(_generate(model), _generate(model, use_cache=False))
    with pytest.raises(ValueError, match="Band needs a cache without empty places: leave cache_implem"):
        _generate(model, cache_implementation="static")


def test_a_window_over_a_source_needs_the_position_of_the_query() -> None:
    model = _t5()
    new = replace_attention(model, BAND)
    source, start = torch.randint(3, 60, (2, LENGTH)), {"decoder_start_token_id": 0}
    assert model(source, decoder_input_ids=source[:, :5]).logits.isfinite().all()
    with pytest.raises(ValueError, match="Band needs the position of the query, which is unknown in atten"):
        model.generate(source, max_new_tokens=3, **start)
    others = [name for name in new if "EncDecAttention" not in name]
    assert len(others) == 4
    model = _t5()
    assert list(replace_attention(model, BAND, names=others)) == others
    model.generate(source, max_new_tokens=3, **start)


def _counting_from_the_first_key(mechanism: Mechanism, message: str) -> tuple[Any, Tensor, dict[str, Any]]:
    """A model that rejects padding on the left and generates the same with a cache; and how it does that."""
    model = _generator("Llama")
    replace_attention(model, mechanism)
    with pytest.raises(ValueError, match=message):
        _generate(model)
    tokens = torch.randint(3, 60, (2, 6))
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens, use_cache=False, **options)
    assert torch.equal(model.generate(tokens, **options), expected)
    return model, tokens, options


def test_local_p_counts_from_the_first_key_that_is_seen() -> None:
    message = "LocalP counts positions from the first key, which this attention hides: it works without"
    model, tokens, options = _counting_from_the_first_key(LOCAL_P, message)
    right = (torch.arange(6) < torch.tensor([[6], [4]])).long()
    torch.testing.assert_close(model(tokens, attention_mask=right)[0][1, :4], model(tokens[:, :4])[0][1])
    model = _generator("Mistral", sliding_window=8)
    replace_attention(model, LOCAL_P)
    for cached in (False, True):
        with pytest.raises(ValueError, match=message):
            model.generate(tokens, use_cache=cached, **options)


@pytest.mark.parametrize("score", [Location, QueryFree])
def test_a_score_counts_from_the_first_key_that_is_seen(score: type[Score]) -> None:
    """A sliding window without a cache keeps the first key, and only hides it."""
    message = f"{score.__name__} counts positions from the first key, which this attention hides: it works"
    model, tokens, options = _counting_from_the_first_key(Mechanism(score), message)
    packed = torch.tensor([[0, 1, 2, 0, 1, 2]] * 2)
    with pytest.raises(ValueError, match=message):
        model(tokens, position_ids=packed, use_cache=False)
    model = _generator("Mistral", sliding_window=8)
    replace_attention(model, Mechanism(score))
    model.generate(tokens, use_cache=False, **options)
    with pytest.raises(ValueError, match=message):
        model.generate(tokens, **options)
    with pytest.raises(ValueError, match=message):
        _generate(model, use_cache=False)
