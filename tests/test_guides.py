"""The guides' examples: user-defined parts and data sets, and an attention inside a model of transformers."""

import re
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import LENGTHS, SOURCE, SYMBOLS, TARGET

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Global,
    Mechanism,
    MultiHead,
    ScaledDot,
    Soft,
    Softmax,
    lengths_mask,
    recording,
)
from attention_lab.data import Notation, Tokenizer, TransductionCodec
from attention_lab.models.decoding.beam_search import greedy, n_best_search
from attention_lab.sizes import ClassificationSizes
from attention_lab.special_symbols import EOS, PAD
from attention_lab.tasks import Transduction

PAIRS = TransductionCodec(*[Tokenizer.of(Notation("characters"), ["abcde"])] * 2)
GUIDES = Path(__file__).parents[1] / "docs" / "guides"


def _defined(guide: str, word: str, **given: object) -> dict[str, Any]:
    """What the block of a guide that contains a word defines, run with what earlier blocks define."""
    text = (GUIDES / guide).read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in one]
    found: dict[str, Any] = {"__name__": "guide", **given}
    exec(block, found)
    return found


@pytest.mark.parametrize(("word", "score"), [("class SquaredDot", "SquaredDot"), ("class Metric", "Metric")])
def test_a_score(word: str, score: str) -> None:
    kind = _defined("own-model.md", word)[score]
    layer = MultiHead(Mechanism(kind), size=8, heads=2)
    x = torch.randn(3, 5, 8)
    assert layer(x, lengths_mask(torch.tensor([5, 2, 0]), 5)).isfinite().all()
    attention = Attention(kind(4, 4))
    memory = attention.remember(torch.randn(2, 5, 4))
    query = torch.randn(2, 3, 4)
    wanted = attention.weights(query, memory) @ memory.value
    assert torch.allclose(attention(query, memory), wanted, atol=1e-6)


def test_a_score_is_checked() -> None:
    torch.manual_seed(0)
    _defined("own-model.md", "gradcheck", **_defined("own-model.md", "class Metric"))


def test_a_normaliser_and_a_pooling() -> None:
    parts = _defined("own-model.md", "class SquaredRelu")
    attention = Attention(ScaledDot(4, 4), parts["SquaredRelu"](), parts["Largest"]())
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = lengths_mask(torch.tensor([2, 0]), 5)
    memory = attention.remember(key, mask=mask)
    weights = (query @ key.mT / 2).relu().square() / 2 * mask  # the first sees two keys, the second none
    assert torch.allclose(attention.weights(query, memory), weights, atol=1e-6)
    each = (weights.unsqueeze(-1) * memory.value.unsqueeze(1)).masked_fill(
        weights.unsqueeze(-1) == 0, -torch.inf
    )
    wanted = each.amax(2).nan_to_num(neginf=0.0)
    assert torch.allclose(attention(query, memory), wanted, atol=1e-6)


def test_padding_and_later_keys_change_nothing_in_them() -> None:
    """Padding, whose values are 0, was the largest where all weighted values are negative."""
    parts = _defined("own-model.md", "class SquaredRelu")
    for pooling in (Soft, parts["Largest"]):
        for normalizer in (Softmax, parts["SquaredRelu"]):
            layer, x = MultiHead(Mechanism(ScaledDot, normalizer, pooling), 8, 2), torch.randn(2, 5, 8)
            wanted = layer(x[:, :3], causal=True)
            padded = layer(x, lengths_mask(torch.tensor([3, 3]), 5), causal=True)
            assert torch.allclose(padded[:, :3], wanted, atol=1e-6)
            assert torch.allclose(layer.step(x[:, :2])[0], wanted[:, :2], atol=1e-6)


@pytest.mark.parametrize(
    "window", [Global, partial(Band, width=1), partial(Band, width=1, falloff="gaussian")]
)
def test_a_sequence_to_sequence_model(window: Any) -> None:
    """Searches, which run it step by step and select its states, agree with its logits for whole targets."""
    torch.manual_seed(0)
    kind = _defined("own-model.md", "class Convolutional")["Convolutional"]
    model = Transduction(kind(Mechanism(Additive, window=window), SYMBOLS, size=16), PAIRS).model.eval()
    together = model(SOURCE, LENGTHS, TARGET)[1, :2]
    assert torch.allclose(model(SOURCE[1:2, :3], LENGTHS[1:2], TARGET[1:2, :2])[0], together, atol=1e-6)
    chosen = greedy(model, SOURCE, LENGTHS, 6)
    best = model(SOURCE, LENGTHS, chosen)[..., EOS:].argmax(-1) + EOS  # padding and BOS are never generated
    assert torch.equal(best.masked_fill(chosen == PAD, PAD), chosen)
    beams, scores = (found[:, 0] for found in n_best_search(model, SOURCE, LENGTHS, 6, beam_size=4, n=1))
    likelihood = model(SOURCE, LENGTHS, beams).log_softmax(-1).gather(-1, beams.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(likelihood.masked_fill(beams == PAD, 0.0).sum(1), scores, atol=1e-5)


@pytest.mark.parametrize("score", [Additive, ScaledDot])
def test_a_model_with_its_attention_replaced(score: Any) -> None:
    model = _defined("own-model.md", "class Encoder")["Encoder"](
        Mechanism(score), ClassificationSizes(3, 6, features=2)
    ).eval()
    x = torch.randn(2, 6, 2)
    with recording(model) as weights:
        logits = model(x, torch.tensor([6, 2]))
    assert list(weights) == [f"encoder.layers.{layer}.self_attn" for layer in (0, 1)]
    x[1, 2:] = 1e9
    assert torch.allclose(model(x, torch.tensor([6, 2])), logits, atol=1e-5)


def test_the_guide_names_the_kinds_of_data() -> None:
    files = (GUIDES.parents[1] / "conf" / "data").glob("*.yaml")
    kinds = {kind for file in files for kind in re.findall(r"^  kind: (\w+)", file.read_text(), re.MULTILINE)}
    text = (GUIDES / "own-model.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"`kind` says which models .*?\):", text, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == kinds | {"kind"}
    needed = re.findall(r"^\| `(\w+)` \| `attention_lab", text, re.MULTILINE)
    assert needed and set(needed) <= kinds


def test_a_data_set_of_vectors(tmp_path: Path) -> None:
    generator, arrays = np.random.default_rng(0), {}
    for name, count in (("train", 9), ("validation", 5), ("test", 4)):
        arrays[f"{name}_x"] = generator.standard_normal((count, 6, 2))
        arrays[f"{name}_y"] = np.array(["rise", "fall", "flat"])[np.arange(count) % 3]
    np.savez(tmp_path / "my.npz", **arrays)
    data = _defined("own-model.md", "class Series")["Series"](file=str(tmp_path / "my.npz"), batch_size=4)
    data.setup("fit")
    assert data.sizes == ClassificationSizes(3, 6, features=2)
    batch = data.splits.test[torch.tensor([0])]
    assert torch.equal(batch.inputs[0], torch.tensor(arrays["test_x"][0], dtype=torch.float32))
    assert data.codec.decode(int(batch.labels[0])) == "rise" and len(data.splits.test) == 4


def test_a_data_set_of_pairs() -> None:
    data = _defined("own-model.md", "class Dates")["Dates"](train_size=2000)
    data.setup("fit")
    batch = data.splits.test[torch.tensor([0])]
    source, target = data.codec.source_text(batch.source[0]), data.codec.decode(batch.target[0])
    assert datetime.strptime(source, "%d %B %Y").date().isoformat() == target
    assert [len(split) for split in data.splits] == [2000, 500, 500]


def test_in_a_model_of_transformers() -> None:
    pytest.importorskip("transformers")
    found = _defined("library.md", "replace_attention(model")
    assert list(found["new"]) == [f"encoder.layer.{layer}.attention.self" for layer in (0, 1)]
    mask = torch.tensor([[1] * 5, [1, 1, 0, 0, 0]])
    with torch.no_grad(), recording(found["model"].eval()) as weights:
        found["model"](torch.zeros(2, 5, dtype=torch.int64), attention_mask=mask)
    name = "encoder.layer.1.attention.self"
    assert weights[name].shape == (2, 4, 5, 5) and not weights[name][1, ..., 2:].any()


def test_a_copy_of_torchs_layer() -> None:
    found = _defined("library.md", "from_torch(trained")
    assert torch.equal(found["copy"].in_proj_weight, found["trained"].in_proj_weight)


def test_generating_step_by_step() -> None:
    layer = MultiHead(Mechanism(ScaledDot), size=64, heads=8)
    found = _defined("library.md", "layer.step(prompt)", torch=torch, layer=layer)
    x = torch.cat([found["prompt"], found["following"]], 1)
    assert torch.allclose(found["y"], layer(x, causal=True)[:, -1:], atol=1e-5)
    y = _defined("library.md", "layer.step(prompt, mask", **found, lengths_mask=lengths_mask)["y"]
    assert torch.allclose(y[2], layer(x[2:3, 6:11], causal=True)[0, -1:], atol=1e-5)


def test_options_of_parts() -> None:
    torch.manual_seed(0)
    given = {"torch": torch, "Additive": Additive, "Attention": Attention, "keys": torch.randn(4, 10, 48)}
    found = _defined("library.md", "window=Band(32", **given)
    seen = found["attention"].weights(torch.randn(4, 10, 32), found["memory"]).ne(0).sum(-1)
    assert found["context"].shape == (4, 10, 48) and seen[0].tolist() == [1, 2] + [3] * 8
    given |= {"Mechanism": Mechanism, "MultiHead": MultiHead, "ScaledDot": ScaledDot}
    local = _defined("library.md", "partial(Band", **given, Softmax=Softmax, Band=Band)
    assert local["y"].shape == (4, 10, 64) and local["local"].attention.window.width == 64


def test_texts_are_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.jsonl").write_text('{"label": "b", "text": "one\\ttwo\\nthree"}\n', encoding="utf-8")
    _defined("own-data.md", "my.jsonl")
    assert Path("my.tsv").read_text(encoding="utf-8") == "b\tone two three\n"


def test_a_gradient_of_a_gradient() -> None:
    attention = Attention(ScaledDot(32, 32))
    keys = torch.randn(4, 10, 32)
    query = _defined("library.md", "create_graph", torch=torch, attention=attention, keys=keys)["query"]
    assert query.grad is not None and query.grad.any()


def test_an_attention_layer_with_a_score() -> None:
    layer = _defined("library.md", "class SelfAttention")["SelfAttention"](size=16, heads=4).eval()
    x, mask = torch.randn(2, 5, 16), lengths_mask(torch.tensor([5, 3]), 5)
    with recording(layer) as weights:
        y = layer(x, mask.unsqueeze(1))
    assert y.shape == (2, 5, 16) and weights["attention"].shape == (2, 4, 5, 5)
    assert torch.allclose(y[1, :3], layer(x[1:, :3])[0], atol=1e-6)
    assert layer.attention.score.value_weight.shape[0] == 4


def test_the_profiler_shows_the_fused_kernel() -> None:
    attention, query = Attention(ScaledDot(32, 32)), torch.randn(4, 1, 32)
    given = {"attention": attention, "query": query, "memory": attention.remember(torch.randn(4, 10, 32))}
    shown = _defined("library.md", "profiler.key_averages", **given)["profiler"].key_averages()
    assert "aten::scaled_dot_product_attention" in {one.key for one in shown}
