"""The attention of a model on given inputs: run once, in evaluation mode, without gradients."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from attention_lab.attention import Recording, recording
from attention_lab.notebook.matching import Labels, Side, as_labels

_TARGET, _SOURCE = ("decoder_input_ids", "labels"), "input_ids"


def record_model(
    model: nn.Module,
    inputs: Any,
    labels: Any = None,
    names: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    tokenizer: Any = None,
) -> tuple[Recording, list[Labels]]:
    """The weights of each attention, and the labels of each example.

    Args:
        model: any module.
        inputs: what it is called with: a mapping of keyword arguments, a tuple of positional ones, or one.
        labels: of the positions, where inputs do not say them.
        names: modules to record.
        heads: heads to record.
        tokenizer: with `convert_ids_to_tokens`, where inputs have numbers of tokens alone.

    Raises:
        ValueError: there are no inputs.
    """
    if inputs is None:
        raise ValueError("show(model, inputs): give the inputs that the model is to be run on")
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}
    if isinstance(inputs, Mapping) or callable(getattr(inputs, "keys", None)):
        named = {name: inputs[name] for name in inputs}
    else:
        arguments = tuple(inputs) if isinstance(inputs, tuple) else (inputs,)
    options: dict[str, Any] = {"names": names, **({"heads": heads} if heads is not None else {})}
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), recording(model, **options) as weights:
            model(*arguments, **named)
    finally:
        model.train(training)
    if labels is not None:
        return weights, [Labels(as_labels(labels, "keys"), None)]
    return weights, _tokens(inputs, named, tokenizer)


def _tokens(inputs: Any, named: Mapping[str, Any], tokenizer: Any) -> list[Labels]:
    """The tokens of each example: the source's, and the target's where there is one."""
    source = named.get(_SOURCE)
    if not isinstance(source, torch.Tensor) or source.dim() != 2:
        return [Labels(None, None)]
    target = next((named[name] for name in _TARGET if isinstance(named.get(name), torch.Tensor)), None)
    examples = []
    for number, ids in enumerate(source.tolist()):
        keys = _without_padding(_named(inputs, number, ids, tokenizer), named.get("attention_mask"), number)
        queries = None
        if target is not None and target.dim() == 2:
            queries = _convert([one for one in target[number].tolist() if one >= 0], tokenizer)
        examples.append(Labels(queries, keys))
    return examples


def _named(inputs: Any, number: int, ids: list[int], tokenizer: Any) -> Side:
    """The tokens that the tokenizer made, those that it makes of numbers, or the numbers."""
    if getattr(inputs, "is_fast", False) and callable(getattr(inputs, "tokens", None)):
        return list(inputs.tokens(number))
    return _convert(ids, tokenizer)


def _convert(ids: list[int], tokenizer: Any) -> Side:
    return [str(token) for token in (ids if tokenizer is None else tokenizer.convert_ids_to_tokens(ids))]


def _without_padding(tokens: Side, mask: Any, number: int) -> Side:
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.shape[1] != len(tokens):
        return tokens
    return [token if kept else None for token, kept in zip(tokens, mask[number].tolist(), strict=True)]
