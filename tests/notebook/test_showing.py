"""What `show` makes of weights, recordings, labels and models."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attention_lab
from attention_lab.attention import Mechanism, MultiHead, ScaledDot, recording
from attention_lab.tensorboard_plugin import AttentionRecord

RNG = np.random.default_rng(0)
WEIGHTS = RNG.dirichlet(np.ones(4), (2, 3)).astype(np.float32)  # [H, Q, K]
QUERIES, KEYS = list("xyz"), list("abcd")


def _only(view: Any) -> AttentionRecord:
    (record,) = view.records.values()
    return record


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        WEIGHTS.tolist(),
        torch.tensor(WEIGHTS).requires_grad_(),
        torch.tensor(WEIGHTS).double()[None],
        list(torch.tensor(WEIGHTS).requires_grad_()),
    ],
)
def test_weights_of_any_kind(weights: Any) -> None:
    record = _only(attention_lab.show(weights, QUERIES, KEYS))
    assert np.allclose(record.weights, WEIGHTS) and (record.queries, record.keys) == (QUERIES, KEYS)


def test_one_head_needs_no_dimension() -> None:
    assert _only(attention_lab.show(WEIGHTS[0])).weights.shape == (1, 3, 4)


def test_without_labels_rows_and_columns_are_numbered() -> None:
    record = _only(attention_lab.show(WEIGHTS))
    assert (record.queries, record.keys) == (["1", "2", "3"], ["1", "2", "3", "4"])


def test_labels_may_be_numbers_and_stand_for_both_sides() -> None:
    record = _only(attention_lab.show(WEIGHTS[:, :, :3], torch.tensor([5, 6, 7])))
    assert record.queries == record.keys == ["5", "6", "7"]


def test_each_module_gets_the_labels_of_its_size() -> None:
    modules = {"encoder": np.ones((1, 4, 4)), "cross": WEIGHTS, "decoder": np.ones((1, 3, 3))}
    records = attention_lab.show(modules, QUERIES, KEYS).records
    sides = {tag: (record.queries, record.keys) for tag, record in records.items()}
    assert sides == {
        "example 1/encoder": (KEYS, KEYS),
        "example 1/cross": (QUERIES, KEYS),
        "example 1/decoder": (QUERIES, QUERIES),
    }


def test_names_decide_where_sizes_do_not() -> None:
    names = ["encoder.0", "decoder.0.self_attn", "decoder.0.encoder_attn", "decoder.EncDecAttention", "layer"]
    source, target = list("abc"), list("xyz")
    records = attention_lab.show({name: np.ones((1, 3, 3)) for name in names}, target, source).records
    sides = [(record.queries, record.keys) for record in records.values()]
    assert sides == [(source, source), (target, target), (target, source), (target, source), (target, source)]


def test_examples_of_a_batch_are_shown_without_their_padding() -> None:
    weights = np.stack([WEIGHTS, 1 - WEIGHTS])
    view = attention_lab.show({"m": weights}, [["x", "y", "z"], [None, "v"]], [KEYS, ["a"]])
    first, second = view.records["example 1/m"], view.records["example 2/m"]
    assert np.array_equal(first.weights, WEIGHTS)
    assert (second.queries, second.keys) == (["v"], ["a"])
    assert np.array_equal(second.weights, 1 - WEIGHTS[:, 1:2, :1])


def test_modules_and_heads_can_be_chosen() -> None:
    view = attention_lab.show({"one": WEIGHTS, "two": WEIGHTS}, names=["two"], heads=[1])
    assert list(view.records) == ["example 1/two"]
    assert np.array_equal(_only(view).weights, WEIGHTS[1:])


@pytest.mark.parametrize("kind", [tuple, list])
def test_the_layers_that_a_model_returns_are_shown_in_order(kind: type) -> None:
    layers = kind(torch.tensor(np.roll(WEIGHTS, layer, -1)).expand(2, -1, -1, -1) for layer in range(12))
    records = attention_lab.show(layers, QUERIES, KEYS).records
    names = [f"layer {layer}" for layer in range(12)]
    assert list(records) == [f"example {number}/{name}" for number in (1, 2) for name in names]
    for layer, name in enumerate(names):
        assert np.array_equal(records[f"example 2/{name}"].weights, np.roll(WEIGHTS, layer, -1))
    chosen = attention_lab.show(layers, QUERIES, KEYS, names=["layer 11"], heads=[1]).records
    assert list(chosen) == ["example 1/layer 11", "example 2/layer 11"]


def test_layers_without_weights_are_named() -> None:
    message = r"^weights of layer 1 are None, so the model did not compute them: show\(model, inputs\) does$"
    with pytest.raises(ValueError, match=message):
        attention_lab.show((torch.tensor(WEIGHTS)[None], None))
    with pytest.raises(ValueError, match=r"^there is no attention to show: there are no weights$"):
        attention_lab.show(())  # as transformers returns without eager attention


def test_names_are_a_list() -> None:
    with pytest.raises(ValueError, match=r"^names='two': give a list of names, such as \['two'\]$"):
        attention_lab.show({"one": WEIGHTS, "two": WEIGHTS}, names="two")


@pytest.mark.parametrize("heads", [[1], (1,), range(1, 2), np.array([1]), torch.tensor([1])])
def test_heads_are_chosen_by_whole_numbers_of_any_kind(heads: Any) -> None:
    trained = SimpleNamespace(
        observe=lambda _: [SimpleNamespace(records=(AttentionRecord(WEIGHTS, QUERIES, KEYS),))]
    )
    for view in (
        attention_lab.show(WEIGHTS, heads=heads),
        attention_lab.show(Model(), IDS[:1], names=["first"], heads=heads),
        attention_lab.show(trained, ["a text"], heads=heads),
    ):
        assert _only(view).heads == [1] and view.html and view.png()


def test_mask_and_gold_are_kept() -> None:
    mask = np.array([[True, True, True, False]] * 3)
    record = _only(attention_lab.show(WEIGHTS, mask=mask, gold=[0, 1, -1]))
    assert record.mask is not None and np.array_equal(record.mask[1], mask)
    assert record.gold is not None and record.gold.tolist() == [0, 1, -1]


def test_runs_are_compared() -> None:
    view = attention_lab.show({"before": {"m": WEIGHTS}, "after": {"m": WEIGHTS}})
    assert list(view.runs) == ["before", "after"]


class Model(nn.Module):
    """Two attentions over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.first = MultiHead(Mechanism(ScaledDot), size=8, heads=2)
        self.second = MultiHead(Mechanism(ScaledDot), size=8, heads=2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.dropout(self.embedding(input_ids))
        mask = None if attention_mask is None else attention_mask.bool()[:, None]
        return self.second(self.first(x, mask), mask)  # type: ignore[no-any-return]


IDS = torch.tensor([[1, 2, 3], [4, 5, 0]])
TOKENIZER = SimpleNamespace(convert_ids_to_tokens=lambda ids: [f"t{number}" for number in ids])


def test_a_model_is_run_once_as_in_evaluation() -> None:
    model = Model().train()
    model.dropout.eval()
    inputs = {"input_ids": IDS, "attention_mask": (IDS > 0).long()}
    before = torch.get_rng_state()
    view = attention_lab.show(model, inputs, tokenizer=TOKENIZER)
    assert model.training and not model.dropout.training and torch.equal(torch.get_rng_state(), before)
    model.eval()
    with recording(model) as weights, torch.no_grad():
        model(**inputs)
    assert len(view.records) == 2 * len(weights)
    for name in weights:
        one, two = view.records[f"example 1/{name}"], view.records[f"example 2/{name}"]
        assert np.allclose(one.weights, weights[name][0]) and one.keys == ["t1", "t2", "t3"]
        assert np.allclose(two.weights, weights[name][1, :, :2, :2]) and two.queries == ["t4", "t5"]


def test_the_tokens_of_a_fast_tokenizer_are_used() -> None:
    class Encoding(dict[str, Tensor]):
        is_fast = True

        def tokens(self, number: int) -> list[str]:
            return [f"{number}{token}" for token in "abc"]

    view = attention_lab.show(Model(), Encoding(input_ids=IDS))
    assert [record.keys for record in view.records.values()][::2] == [["0a", "0b", "0c"], ["1a", "1b", "1c"]]


def test_a_model_of_ones_own_with_a_tensor() -> None:
    view = attention_lab.show(Model(), IDS[:1], ["x", "y", "z"], names=None)
    assert [record.keys for record in view.records.values()] == [["x", "y", "z"]] * 2


@pytest.mark.filterwarnings("ignore:show. 4 NaN or infinite weights")
def test_scores_in_place_of_weights_are_warned_of() -> None:
    for scores in (WEIGHTS - 1, WEIGHTS + 1, np.where(WEIGHTS > 0.5, np.nan, WEIGHTS + 1)):
        with pytest.warns(UserWarning, match="weights of m outside 0 to 1 are clipped: .* not the scores"):
            attention_lab.show({"m": scores})


def test_each_example_of_a_batch_has_its_own_labels() -> None:
    view = attention_lab.show(Model(), IDS, [["x", "y", "z"], ["v", "w"]])
    assert [record.keys for record in view.records.values()] == [["x", "y", "z"]] * 2 + [["v", "w"]] * 2
    assert [record.weights.shape for record in view.records.values()][-1] == (2, 2, 2)
    with pytest.raises(ValueError, match="labels for 3 examples, but weights for 2"):
        attention_lab.show(Model(), IDS, [["x"]] * 3)


def test_modules_and_heads_of_a_trained_model_can_be_chosen() -> None:
    mask = np.ones_like(WEIGHTS, bool)
    records = [AttentionRecord(WEIGHTS, QUERIES, KEYS, module=name, mask=mask) for name in ("one", "two")]
    trained = SimpleNamespace(observe=lambda lines: [SimpleNamespace(records=records)] * len(lines))
    record = _only(attention_lab.show(trained, ["a"], names=["two"], heads=[1]))
    assert record.module == "two" and record.heads == [1] and np.array_equal(record.weights, WEIGHTS[1:])
    for options, message in [
        ({"names": ["three"]}, "no attention 'three'; choose from 'one', 'two'"),
        ({"heads": [2]}, r"heads=\[2\]: one has heads 0 to 1"),
        ({"keys": KEYS}, "leave out keys"),
        ({"input": "a"}, "leave out input"),
    ]:
        with pytest.raises(ValueError, match=message):
            attention_lab.show(trained, ["a"], **options)


def test_padding_on_the_left_needs_labels_too() -> None:
    weights = np.full((2, 1, 3, 3), 1 / 3)
    mask = np.array([[True, True, True], [False, True, True]]).reshape(2, 1, 1, 3)
    labels = [list("abc"), list("de")]
    message = r"^the attention: 2 labels for 3 keys, but the first keys are masked: give a label or None "
    with pytest.raises(ValueError, match=message):
        attention_lab.show(weights, labels, mask=mask)
    named = attention_lab.show(weights, [labels[0], [None, *labels[1]]], mask=mask).records[
        "example 2/attention"
    ]
    assert named.keys == ["d", "e"] and named.mask is None
    on_the_right = attention_lab.show(weights, labels, mask=mask[..., ::-1])
    assert on_the_right.records["example 2/attention"].keys == ["d", "e"]


def test_a_trained_model_says_its_labels_itself() -> None:
    record = AttentionRecord(WEIGHTS, QUERIES, KEYS, module="decoder.layers.0.attention", input="in")
    trained = SimpleNamespace(observe=lambda lines: [SimpleNamespace(records=(record,))] * len(lines))
    view = attention_lab.show(trained, ["one", "two"])
    assert list(view.records) == ["example 1/decoder layer 1", "example 2/decoder layer 1"]


TRAINED = SimpleNamespace(observe=lambda lines: [])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((np.ones(3),), {}, r"weights must have the shape \[Q, K\], .* not \(3,\)"),
        (({"m": np.ones((1, 1, 1, 1, 1))},), {}, "weights of m must have the shape"),
        (("abc",), {}, "not an array of numbers"),
        ((WEIGHTS, "xyz"), {}, r"queries must be labels, a list of texts such as \['a', 'cat'\], not str"),
        ((WEIGHTS, ["x"]), {}, "the attention has 3 rows, but was given 1 label"),
        ((WEIGHTS, QUERIES, ["a"]), {}, "has 4 columns, but was given 1 and 3 labels"),
        ((WEIGHTS,), {"names": ["m"]}, "there is no attention 'm'; choose from ''"),
        ((WEIGHTS,), {"heads": [2]}, r"heads=\[2\]: the attention has heads 0 to 1"),
        ((WEIGHTS,), {"heads": []}, r"heads=\[\]"),
        ((WEIGHTS, [["x"], ["y"]]), {}, "labels for 2 examples, but weights for 1"),
        ((WEIGHTS,), {"heads": [True, False]}, r"heads=\[True, False\]: give whole numbers"),
        ((WEIGHTS,), {"names": 3}, "names=3: give a list of names"),
        ((WEIGHTS,), {"gold": [0.0, 1.5, 2.0]}, r"gold must be whole numbers, not 1\.5"),
        ((WEIGHTS,), {"gold": np.eye(3, 4) > 0}, "gold must be whole numbers, not true or false"),
        ((WEIGHTS,), {"gold": {"m": [0, 1, 2]}}, "there is no attention 'm'; choose from ''"),
        (({"m": WEIGHTS},), {"mask": {"n": True}}, "there is no attention 'n'; choose from 'm'"),
        ((WEIGHTS,), {"title": 3}, "title must be a text, not an int"),
        ((WEIGHTS,), {"input": ["x"]}, "input must be a text, not a list"),
        ((WEIGHTS, [1, 2, 3]), {"tokenizer": TOKENIZER}, "takes labels, not a tokenizer"),
        ((nn.Linear, torch.ones(1, 1)), {}, "a model or weights, not the class Linear"),
        ((WEIGHTS,), {"heads": [0.5]}, r"heads=\[0.5\]: give whole numbers"),
        ((WEIGHTS,), {"mask": np.full((3, 4), -np.inf)}, "mask must be true or false, .* not -inf"),
        ((WEIGHTS,), {"mask": np.full((3, 4), 2)}, "mask must be true or false, .* not 2"),
        ((TRAINED, ["one"]), {"tokenizer": TOKENIZER}, "takes labels and masks from the model: .* tokenizer"),
        (({},), {}, "no attention to show: there are no weights"),
        ((nn.Linear(1, 1), torch.ones(1, 1)), {}, "no attention to show: the model computed none"),
        ((nn.Linear(1, 1), torch.ones(1, 1)), {"names": [""]}, "no attention .* under these names"),
        ((Model(),), {}, r"show\(model, inputs\): inputs are missing"),
        ((WEIGHTS,), {"theme": "blue"}, "theme='blue': choose auto, light or dark"),
    ],
)
def test_what_cannot_be_shown_is_one_line(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        attention_lab.show(*given, **options)
    assert "\n" not in str(error.value)
