"""The graphs that represent a model in an export, with example inputs and the expected outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.attention import Global, Location, Memory, Monotonic, QueryFree
from attention_lab.attention.positions import Learned, Sinusoidal
from attention_lab.errors import LabError
from attention_lab.models.classifier import MultiHeadClassifier, SequenceClassifier
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.exporting.recurrence import scanned
from attention_lab.models.kernel_regression import KernelRegression
from attention_lab.models.language import LanguageModel
from attention_lab.models.parts.readouts import FullyConnected
from attention_lab.models.parts.recurrent_decoder import DecoderState
from attention_lab.models.parts.transformer_decoder import TransformerState
from attention_lab.models.seq2seq import Seq2Seq
from attention_lab.models.transformer import Transformer
from attention_lab.sizes import ClassificationSizes
from attention_lab.special_symbols import BOS, UNK

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Graph:
    """One graph of a model.

    Attributes:
        name: of its file; empty if it is the model's only one.
        module: takes and returns only tensors.
        inputs: names of its inputs.
        outputs: names of its outputs.
        make: makes example inputs for a batch size and a length; equal arguments give equal inputs.
        expected: computes what the model itself returns for such inputs.
        longest: the longest input, for a step including the symbols before it; None: no limit.
    """

    name: str
    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    make: Callable[[int, int], Tensors]
    expected: Callable[..., Tensors]
    longest: int | None = None


class _Call(nn.Module):
    """A function of a model, wrapped as a module that owns the model's parameters."""

    def __init__(self, model: nn.Module, function: Callable[..., Tensors]) -> None:
        super().__init__()
        self.model = model
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensors:
        """The function's tensors."""
        return self.function(self.model, *inputs)


@torch.no_grad()
def graphs_of(model: nn.Module, sizes: ClassificationSizes | None = None) -> list[Graph]:
    """The graphs of a trained model: a single one, or the encoder and one step of the decoder.

    Args:
        model: the model.
        sizes: the sizes of its data if it is a classifier, which may then be from another package.

    Raises:
        LabError: the model cannot be exported as a graph that is useful elsewhere.
    """
    model = model.eval()
    match model:
        case Seq2Seq() | Transformer():
            return _encoder_and_step(model)
        case SequenceClassifier():
            make = partial(_sequences, model.embedding)
            return [_forward(model, ("inputs", "lengths"), make, _longest_input(model))]
        case LanguageModel():
            make = partial(_sequences, model.embedding)
            return [_forward(model, ("tokens",), lambda *sizes: make(*sizes)[:1], model.length)]
        case KernelRegression():
            return [_regression(model)]
        case Ensemble():
            raise LabError("an ensemble cannot be exported: export each of its checkpoints")
    if sizes is not None:
        return [_forward(model, ("inputs", "lengths"), partial(_as_in_data, sizes), sizes.length)]
    raise LabError(
        f"{type(model).__name__} cannot be exported; seq2seq, transformer, lm, nw and classifiers "
        "(multihead, cnn, rnn, or your own) can"
    )


def _forward(
    model: nn.Module, inputs: tuple[str, ...], make: Callable[[int, int], Tensors], longest: int | None
) -> Graph:
    """The graph of a model that returns logits."""
    module = _Call(scanned(model), lambda own, *given: (own(*given),))
    return Graph("", module, inputs, ("logits",), make, lambda *given: (model(*given),), longest)


def _regression(model: KernelRegression) -> Graph:
    features = model.keys.shape[1]

    def make(batch: int, length: int) -> Tensors:
        generator = torch.Generator().manual_seed(batch)
        return (torch.randn(batch, features, generator=generator),)

    return Graph(
        "",
        # All pairs at once: the fast paths sort the samples, which no graph can.
        _Call(scanned(model), lambda own, inputs: (own.attend_to_all(inputs),)),
        ("inputs",),
        ("predictions",),
        make,
        lambda inputs: (model(inputs),),
    )


def _encoder_and_step(model: Seq2Seq | Transformer) -> list[Graph]:
    """The encoder, which returns the state before the first symbol, and one step of the decoder."""
    if isinstance(model, Seq2Seq) and isinstance(model.decoder.attention.pooling, Monotonic):
        raise LabError("pooling=monotonic cannot be exported: its steps pass on a table of all symbols")
    own = scanned(model)
    states: Any = _TransformerStates(model) if isinstance(model, Transformer) else _RecurrentStates(model)
    embedding = model.encoder_embedding if isinstance(model, Transformer) else model.encoder.embedding
    assert isinstance(embedding, nn.Module)
    sources = partial(_sequences, embedding)

    def encode(network: Any, source: Tensor, lengths: Tensor) -> Tensors:
        tensors: Tensors = states.tensors(network.start(source, lengths))
        return tensors

    def step(network: Any, tokens: Tensor, *tensors: Tensor) -> Tensors:
        logits, state = network.step(tokens, states.state(tensors))
        return logits, *states.tensors(state)

    def make_step(batch: int, length: int) -> Tensors:
        """A step after `length - 1` others: the first step for a source of one symbol."""
        source, lengths = sources(batch, length)
        network: Any = model
        state = network.start(source, lengths)
        tokens = torch.full((batch,), BOS)
        for _ in range(length - 1):
            logits, state = network.step(tokens, state)
            tokens = logits.argmax(-1)
        return tokens, *states.tensors(state)

    names = states.names
    return [
        Graph(
            "encoder",
            _Call(own, encode),
            ("source", "lengths"),
            names,
            sources,
            lambda *inputs: encode(model, *inputs),
            _longest(model.encoder),
        ),
        Graph(
            "step",
            _Call(own, step),
            ("tokens", *names),
            ("logits", *(f"next_{name}" for name in names)),
            make_step,
            lambda *inputs: step(model, *inputs),
            _longest(model),
        ),
    ]


class _RecurrentStates:
    """The state of a recurrent decoder as tensors."""

    def __init__(self, model: Seq2Seq) -> None:
        example = model.start(torch.full((1, 1), UNK), torch.ones(1, dtype=torch.int64))
        self.layers = [len(layer) for layer in example.layers]
        self.feeds, self.conditioned = example.readout is not None, example.condition is not None
        self.placed = not isinstance(model.decoder.attention.window, Global)
        parts = [f"{part}_{n}" for n, size in enumerate(self.layers) for part in ("hidden", "cell")[:size]]
        optional = {"readout": self.feeds, "condition": self.conditioned, "position": self.placed}
        self.names = ("keys", "values", "mask", *parts, *(name for name, used in optional.items() if used))

    def tensors(self, state: DecoderState) -> Tensors:
        """The memory, the layers, and the optional parts in use; the position if a window needs it."""
        keys, value, mask, _ = state.memory
        mask = keys.new_ones(keys.shape[0], 1, keys.shape[1], dtype=torch.bool) if mask is None else mask
        layers = [part for layer in state.layers for part in layer]
        vectors = [part for part in (state.readout, state.condition) if part is not None]
        position = [torch.scalar_tensor(state.position, dtype=torch.int64)] if self.placed else []
        return (keys, value, mask, *layers, *vectors, *position)

    def state(self, tensors: Sequence[Tensor]) -> DecoderState:
        """The state, rebuilt from its tensors."""
        keys, value, mask, *rest = tensors
        layers = []
        for size in self.layers:
            layers.append(tuple(rest[:size]))
            rest = rest[size:]
        position: Any = rest.pop().item() if self.placed else 0
        torch._check(position >= 0)  # type: ignore[no-untyped-call]
        condition = rest.pop() if self.conditioned else None
        readout = rest.pop() if self.feeds else None
        return DecoderState(
            Memory(keys, value, mask), tuple(layers), readout, position=position, condition=condition
        )


class _TransformerStates:
    """The state of a Transformer's decoder as tensors; its position is the number of cached symbols."""

    def __init__(self, model: Transformer) -> None:
        self.layers = len(model.decoder.layers)
        sides = [f"{part}_{n}" for n in range(self.layers) for part in ("source_keys", "source_values")]
        cached = [f"{part}_{n}" for n in range(self.layers) for part in ("keys", "values")]
        self.names = ("mask", *sides, *cached)

    def tensors(self, state: TransformerState) -> Tensors:
        """The mask of the source, its keys and values in each layer, and those of the symbols so far."""
        first = state.source[0]
        mask = first.mask
        if mask is None:
            mask = first.keys.new_ones(first.keys.shape[0], 1, 1, first.keys.shape[-2], dtype=torch.bool)
        sides = [part for memory in state.source for part in (memory.keys, memory.value)]
        cached: list[Tensor] = []
        for memory, source in zip(state.cache, state.source, strict=True):
            none = (source.keys[..., :0, :], source.value[..., :0, :])
            cached += none if memory is None else (memory.keys, memory.value)
        return (mask, *sides, *cached)

    def state(self, tensors: Sequence[Tensor]) -> TransformerState:
        """The state, rebuilt from its tensors."""
        mask, sides, cached = tensors[0], tensors[1 : 2 * self.layers + 1], tensors[2 * self.layers + 1 :]
        source = (Memory(sides[n], sides[n + 1], mask) for n in range(0, len(sides), 2))
        cache = (Memory(cached[n], cached[n + 1], None, causal=True) for n in range(0, len(cached), 2))
        return TransformerState(tuple(source), tuple(cache), cached[0].shape[-2])


def _longest_input(model: SequenceClassifier) -> int | None:
    """The longest sequence that a classifier reads; a class token takes one of its positions."""
    longest = _longest(model)
    return None if longest is None else longest - isinstance(model, MultiHeadClassifier)


def _longest(model: nn.Module) -> int | None:
    """The longest sequence that all positional parameters cover; None if there is no limit."""
    limits = [len(part.weight) for part in model.modules() if isinstance(part, FullyConnected)]
    limits += [part.length for part in model.modules() if isinstance(part, Location | QueryFree)]
    limits += [len(part.table) for part in model.modules() if isinstance(part, Learned | Sinusoidal)]
    return min(limits, default=None)


def _sequences(embedding: nn.Module, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random symbols or vectors for an embedding, and their lengths; the first is `length` itself."""
    if isinstance(embedding, nn.Linear):
        return _random(batch, length, features=embedding.in_features)
    return _random(batch, length, vocabulary=max(len(part) for part in embedding.parameters()))


def _as_in_data(sizes: ClassificationSizes, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random symbols or vectors and their lengths as in `_sequences`, with as many vectors as in the data."""
    length, shortest = max(length, sizes.answers), sizes.answers
    if sizes.features is not None and not sizes.variable_length:  # a model may rely on their number
        length = shortest = sizes.length
    return _random(batch, length, shortest, features=sizes.features, vocabulary=sizes.vocabulary)


def _random(
    batch: int, length: int, shortest: int = 1, *, features: int | None = None, vocabulary: int | None = None
) -> tuple[Tensor, Tensor]:
    """Random vectors of `features` numbers, or symbols, and their lengths; the first is `length` itself."""
    generator = torch.Generator().manual_seed(batch + 1000 * length)
    lengths = torch.randint(shortest, length + 1, (batch,), generator=generator)
    lengths[0] = length
    if features is not None:
        return torch.rand(batch, length, features, generator=generator), lengths
    assert vocabulary is not None
    return torch.randint(UNK, vocabulary, (batch, length), generator=generator), lengths
