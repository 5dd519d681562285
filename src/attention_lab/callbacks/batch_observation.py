"""Record the attentions of any module on a given batch for the Attention tab."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeGuard

import torch
from torch import nn

from attention_lab.attention import Recording, recording
from attention_lab.attention.evaluation_mode import evaluation_mode
from attention_lab.attention.recording.call_arguments import arguments_of
from attention_lab.callbacks.randomness import random_states, restore_random_states
from attention_lab.console_text import counted
from attention_lab.errors import LabError
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation
from attention_lab.tensorboard_plugin.image_patches import BatchImages

Forward = Callable[[Any, Any], Any]
Labels = Sequence[Sequence[str]]


def observe_batch(
    module: nn.Module, batch: Any, labels: Labels | None, examples: int, forward: Forward | None
) -> list[Observation]:
    """Run a module on a batch in evaluation mode, uncompiled, and record the attention of the first examples.

    The module's modes and the random number generators are left as they were.

    Args:
        module: the module.
        batch: its argument, on the module's device; see `call_module`.
        labels: labels of the positions of each example; positions without one are padding and left out.
        examples: the largest number of examples.
        forward: a function that calls the module instead of `call_module`.

    Raises:
        LabError: no attention was recorded, an example has no labels, or its first label would be on padding.
    """
    with _evaluating(module), _uncompiled(), torch.no_grad(), recording(module, slice(examples)) as weights:
        (call_module if forward is None else forward)(module, batch)
    if not weights:
        raise LabError(
            "AttentionMaps: no attention in the module ran on the batch; to call the module differently, "
            "pass forward=lambda module, batch: ..."
        )
    number = min(examples, *(len(one) for one in weights.values()))
    if labels is not None and len(labels) < number:
        raise LabError(
            f"AttentionMaps: labels are given for {counted(len(labels), 'example')}, "
            f"but the batch has {number} or more"
        )
    if labels is not None:
        _check_lengths(weights, labels)
        _check_padding(weights, labels)
    return [_observation(weights, example, labels) for example in range(number)]


def over_images(
    observations: list[Observation], images: Any, patch_size: int | None, module: nn.Module
) -> list[Observation]:
    """The observations with attention to the patches of images laid over them; see `BatchImages`.

    Raises:
        LabError: the images have another shape or are too few, or no attention has their patches as keys.
    """
    try:
        pictures = BatchImages(images, patch_size, module)
        found = [
            one._replace(records=tuple(pictures.below(number, each) for each in one.records))
            for number, one in enumerate(observations)
        ]
        pictures.check_used(record for one in found for record in one.records)
    except ValueError as error:
        raise LabError(f"AttentionMaps: {error}") from None
    return found


def _check_lengths(weights: Recording, labels: Labels) -> None:
    """Raise LabError if no attention has as many positions as there are labels, or an example has more."""
    sizes = [size for one in weights.values() for size in one.shape[2:]]
    counts = [len(one) for one in labels]
    if not {*counts} & {*sizes} or max(counts) > max(sizes):
        raise LabError(
            f"AttentionMaps: an example has {max(counts)} labels, but the attentions have "
            f"{' and '.join(map(str, dict.fromkeys(sizes)))} positions: give a label for each position"
        )


def _check_padding(weights: Recording, labels: Labels) -> None:
    """Raise LabError if an example without labels for its padding has that padding on the left."""
    longest = max(map(len, labels))
    for name, heads in weights.items():
        if heads.shape[-1] != longest:
            continue
        visible = weights.mask(name).flatten(1, 2).any(1)
        for number, (keys, own) in enumerate(zip(visible, labels, strict=False), start=1):
            if len(own) < longest and keys[-1] and not keys[0]:
                raise LabError(
                    f"AttentionMaps: example {number} has {len(own)} labels for {longest} positions, but the "
                    "first positions are padding (masked): give a label for each position, padding included"
                )


def check_labels(labels: object) -> None:
    """Raise LabError if labels are not a list of texts for each example."""
    if labels is not None and not (_is_list(labels) and all(_is_list(one) for one in labels)):
        raise LabError(
            "AttentionMaps: labels must be a list of texts for each example, such as "
            "[['the', 'cat'], ['a', 'dog']]"
        )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def call_module(module: nn.Module, batch: Any) -> Any:
    """`module(**batch)` for a mapping, `module(*batch)` for a tuple or list, otherwise `module(batch)`.

    A mapping whose names the module does not have as parameters is its one argument, if it takes one.
    A TypeError, as for a batch that also has the targets, gets a note that says how to call it differently.
    """
    try:
        given = tuple(batch) if isinstance(batch, list) else batch
        arguments, named = arguments_of(module.forward, given)
        return module(*arguments, **named)
    except TypeError as error:
        error.add_note(
            f"AttentionMaps called the module with all of its batch, a {type(batch).__name__}; to call the "
            "module differently, pass forward=lambda module, batch: ..."
        )
        raise


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; afterwards restore each submodule's mode and the random states."""
    states = random_states()
    try:
        with evaluation_mode(module):
            yield
    finally:
        restore_random_states(states)


def _uncompiled() -> AbstractContextManager[object]:
    """Run compiled modules as they were written; the compiler is imported only if something is compiled."""
    loaded = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if loaded else nullcontext()


def _observation(weights: Recording, example: int, labels: Labels | None) -> Observation:
    """The records of one example."""
    own = None if labels is None else [str(label) for label in labels[example]]
    longest = 0 if labels is None else max(map(len, labels))
    shown = {}
    for name, heads in weights.items():
        queries, keys = (_side(own, size, longest) for size in heads.shape[2:])
        shown[name] = QueriesAndKeys(queries, keys)
    return make_observation(weights, example, shown, input=" ".join(own or []), output="", expected="")


def _side(labels: list[str] | None, size: int, longest: int) -> list[str]:
    """The labels of one side of a map: the example's labels if their number fits, otherwise positions."""
    if labels is not None and (size == longest or size == len(labels)):
        return labels
    return [str(position) for position in range(1, size + 1)]
