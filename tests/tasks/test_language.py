"""Language modelling: the loss and the perplexity by hand, prompts continued, and what is shown of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from toys import toy

from attention_lab.attention import ScaledDot
from attention_lab.data import LanguageBatch, LanguageCodec
from attention_lab.data.reading.datasets import LanguageSplit
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.models import LanguageModel
from attention_lab.special_symbols import BOS, EOS
from attention_lab.tasks import LanguageModeling
from attention_lab.tasks.language import LIMIT, Perplexity

CODEC = LanguageCodec(
    Tokenizer(Notation("characters"), Vocabulary(["\n", "a", "b", "c"])), length=12, ends=True
)


def _task(codec: LanguageCodec = CODEC, **options: object) -> LanguageModeling:
    model = toy(LanguageModel, ScaledDot, codec.sizes, dropout=0.0)
    return LanguageModeling(model, codec, **options).eval()  # type: ignore[arg-type]


def _batch() -> LanguageBatch:
    return LanguageSplit([[BOS, 5, EOS], [BOS, 6, 4, 7, 7, EOS]])[torch.tensor([0, 1])]


def test_the_loss_is_that_of_each_symbol_given_those_before_it() -> None:
    task, batch = _task(), _batch()
    losses = []
    for tokens, length in zip(batch.tokens, batch.lengths.tolist(), strict=True):
        for end in range(1, length):
            p = task.model(tokens[None, :end])[0, -1].softmax(-1)
            losses.append(-math.log(p[tokens[end]].item()))
    assert len(losses) == 7
    expected = sum(losses) / len(losses)
    task.log = lambda *args, **kwargs: None  # type: ignore[method-assign]
    assert task.training_step(batch, 0).item() == pytest.approx(expected, rel=1e-5)
    for row in range(2):  # one batch each: every symbol counts once all the same
        task.validation_step(LanguageBatch(*(field[row : row + 1] for field in batch)), 0)
    measures = {
        name: float(measure.compute()) for name, measure in task.measures.items() if "validation" in name
    }  # type: ignore[operator]
    assert measures["validation_loss"] == pytest.approx(expected, rel=1e-5)
    assert measures["validation_perplexity"] == pytest.approx(math.exp(expected), rel=1e-5)


def test_the_perplexity_of_equal_chances_is_their_number() -> None:
    measure = Perplexity()
    for count in (3, 50):
        measure.update(F.cross_entropy(torch.zeros(count, 8), torch.zeros(count, dtype=torch.int64)), count)
    assert measure.compute().item() == pytest.approx(8)


def test_answers_go_on_from_their_prompts() -> None:
    task = _task(max_new_tokens=6)
    prompts = ["ab", "", "b\nb", "", ""]
    answers = task.answer(CODEC.encode(prompts))
    assert all(answer.startswith(prompt) for prompt, answer in zip(prompts, answers, strict=True))
    assert all(len(answer) <= len(prompt) + 6 for prompt, answer in zip(prompts, answers, strict=True))
    assert len({answers[1], answers[3], answers[4]}) > 1  # an empty prompt is not always the same word
    assert task.answer(CODEC.encode(prompts)) == answers
    assert task.answer(CODEC.encode(prompts[:2])) == answers[:2]
    assert task.answer(CODEC.encode(prompts[2:], first=3)) == answers[2:]
    torch.manual_seed(1)
    assert task.answer(CODEC.encode(prompts)) != answers


@pytest.mark.long
def test_sampling_options_are_used() -> None:
    prompts = CODEC.encode(["a"] * 20)
    assert len(set(_task(temperature=0).answer(prompts))) == 1
    assert len(set(_task(top_k=1).answer(prompts))) == 1
    assert len(set(_task(top_p=1e-9).answer(prompts))) == 1
    assert len(set(_task(temperature=100).answer(prompts))) > 15
    assert max(map(len, _task(temperature=100, max_new_tokens=2).answer(prompts))) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, r"task\.temperature must be finite and at least 0"),
        ({"top_k": 0}, r"task\.top_k must be at least 1"),
        ({"top_p": 2}, r"task\.top_p must be above 0"),
        ({"max_new_tokens": 0}, r"task\.max_new_tokens must be at least 1"),
        ({"max_new_tokens": 10**7}, r"task\.max_new_tokens must be at most 10000, got 10000000"),
        ({"label_smoothing": 1.0}, r"task\.label_smoothing must be in \[0, 1\)"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        _task(**options)


def test_long_symbols_limit_how_many_are_generated() -> None:
    """A model writes a symbol of thousands of characters in four bytes, as often as its options let it."""
    codec = replace(CODEC, tokenizer=Tokenizer(Notation("spaces"), Vocabulary(["a", "b" * 5000])))
    assert _task(codec, max_new_tokens=200).max_new_tokens == 200
    with pytest.raises(
        LabError, match=r"max_new_tokens=201: with a symbol of 5,000 characters, .*at most 200$"
    ):
        _task(codec, max_new_tokens=201)


def test_what_is_shown_of_an_example() -> None:
    task = _task()
    short, long = task.observe(_batch())
    assert (short.input, short.expected) == ("", "a")
    assert (long.input, long.expected) == ("b↵", "b↵cc")
    assert long.output.startswith("b↵")
    for one in (short, long):
        assert list(one.weights) == [f"encoder.layers.{layer}.attention.attention" for layer in range(2)]
        for record in one.records:
            assert record.input + record.output == one.output and not record.expected
            assert record.queries == record.keys == ["<s>", *one.output[: CODEC.length - 1]]
            steps = len(record.keys)
            assert record.weights.shape == record.attended.shape == (2, steps, steps)
            assert np.allclose(record.weights.sum(-1), 1)
            assert not record.weights[~record.attended].any()
            assert np.array_equal(record.attended, np.tile(np.tri(steps, dtype=bool), (2, 1, 1)))


def test_what_is_shown_is_what_was_answered() -> None:
    task = _task(max_new_tokens=5)
    prompts = CODEC.encode(["ab", "", "c"])
    shown = task.observe(prompts)
    assert [one.output for one in shown] == [answer.replace("\n", "↵") for answer in task.answer(prompts)]
    assert [one.expected for one in shown] == ["", "", ""]


def test_of_a_long_text_the_beginning_is_shown() -> None:
    task = _task(LanguageCodec(CODEC.tokenizer, length=200, ends=False))
    (one,) = task.observe(task.codec.encode(["ab" * 50]))
    assert all(record.queries == ["<s>", *"ab" * (LIMIT // 2)][:LIMIT] for record in one.records)
    assert all(weights.shape == (2, LIMIT, LIMIT) for weights in one.weights.values())
    assert one.output.startswith("ab" * 50)


def test_a_batch_without_a_finite_loss_is_not_left_out() -> None:
    """It was, and the mean of the other batches stood for all: a broken model could be the best."""
    task, batch = _task(), _batch()
    task.log = lambda *args, **kwargs: None  # type: ignore[method-assign]
    task.validation_step(batch, 0)
    with torch.no_grad():
        task.model.embedding.weight[6] = torch.nan
    task.validation_step(batch, 1)
    for name in ("validation_loss", "validation_perplexity"):
        assert math.isnan(float(task.measures[name].compute()))  # type: ignore[operator]
