"""Record the attention of a model on given inputs: one run in evaluation mode, without gradients."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from attention_lab.attention import Recording, recording
from attention_lab.attention.evaluation_mode import evaluation_mode
from attention_lab.attention.recording.call_arguments import arguments_of
from attention_lab.notebook.matching import Labels, Side, labels_of_examples

_SOURCE, _TARGET = "input_ids", ("decoder_input_ids", "labels")


def record_model(
    model: nn.Module,
    inputs: Any,
    labels: Any = None,
    names: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    tokenizer: Any = None,
) -> tuple[Recording, list[Labels]]:
    """Run a model and return the weights of each attention and the labels of each example.

    Args:
        model: any module.
        inputs: its arguments: a mapping of keyword arguments, a tuple of positional ones, or a single one.
        labels: labels of the positions, for all examples or for each, if the inputs do not provide them.
        names: modules to record; all by default.
        heads: heads to record; all by default.
        tokenizer: an object with `convert_ids_to_tokens`, needed if the inputs contain only token ids.

    Raises:
        ValueError: there are no inputs, or they are texts.
    """
    if inputs is None:
        raise ValueError("show(model, inputs): inputs are missing: give the arguments to call the model with")
    if isinstance(inputs, str) or (isinstance(inputs, list) and any(isinstance(one, str) for one in inputs)):
        raise ValueError(
            "show(model, inputs): the inputs are text, but a model takes tensors: "
            'give tokenizer(text, return_tensors="pt")'
        )
    arguments, named = arguments_of(model.forward, inputs)
    options: dict[str, Any] = {"names": names, **({"heads": heads} if heads is not None else {})}
    with evaluation_mode(model), torch.no_grad(), recording(model, **options) as weights:
        model(*arguments, **named)
    if labels is not None:
        return weights, labels_of_examples(None, labels)
    target = _TARGET if getattr(getattr(model, "config", None), "is_encoder_decoder", False) else _TARGET[:1]
    columns = next((one for one in arguments if isinstance(one, Mapping)), named)
    return weights, _tokens(inputs, columns, target, tokenizer)


def _tokens(inputs: Any, named: Mapping[str, Any], targets: Sequence[str], tokenizer: Any) -> list[Labels]:
    """The tokens of each example: those of the source and, if there is one, of the target."""
    source, target = _ids(named, _SOURCE), _ids(named, *targets)
    count = len(source or target or [])
    if not count:
        return [Labels(None, None)]
    examples = []
    for number in range(count):
        keys = queries = None
        if source is not None:
            tokens = _named(inputs, number, source[number], tokenizer)
            keys = _without_padding(tokens, named.get("attention_mask"), number)
        if target is not None:
            tokens = _convert(target[number], tokenizer)
            queries = _without_padding(tokens, named.get("decoder_attention_mask"), number)
        examples.append(Labels(queries, keys, strict=False))
    return examples


def _ids(named: Mapping[str, Any], *names: str) -> list[list[int]] | None:
    """The token ids `[B, L]` under the first of these names that exists."""
    found = (named.get(name) for name in names)
    ids = next((one for one in found if isinstance(one, torch.Tensor) and one.dim() == 2), None)
    return None if ids is None or ids.is_floating_point() else ids.tolist()


def _named(inputs: Any, number: int, ids: list[int], tokenizer: Any) -> Side:
    """The tokens recorded in the inputs, else the ids converted by the tokenizer, else the ids."""
    if getattr(inputs, "is_fast", False) and callable(getattr(inputs, "tokens", None)):
        return list(inputs.tokens(number))
    return _convert(ids, tokenizer)


def _convert(ids: list[int], tokenizer: Any) -> Side:
    """Convert ids to tokens; negative ids, as in labels, are padding."""
    tokens = ids if tokenizer is None else tokenizer.convert_ids_to_tokens([max(0, one) for one in ids])
    return [str(token) if number >= 0 else None for token, number in zip(tokens, ids, strict=True)]


def _without_padding(tokens: Side, mask: Any, number: int) -> Side:
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.shape[1] != len(tokens):
        return tokens
    return [token if kept else None for token, kept in zip(tokens, mask[number].tolist(), strict=True)]
