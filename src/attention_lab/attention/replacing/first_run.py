"""Run a model once to see where it attends."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from attention_lab.attention.evaluation_mode import evaluation_mode
from attention_lab.attention.recording.call_arguments import arguments_of
from attention_lab.attention.recording.unobserved import compiled_method
from attention_lab.attention.replacing import hugging_face, scaled_dot_product_calls
from attention_lab.attention.replacing.calls import Calls
from attention_lab.attention.replacing.unreplaced_attention import noted_names
from attention_lab.errors import first_line


class FoundCalls(NamedTuple):
    """The calls of attention functions by the modules of a model.

    Attributes:
        interface: those of the attention interface of transformers.
        fused: those of torch's `scaled_dot_product_attention`.
    """

    interface: Calls
    fused: Calls


class FirstRun(NamedTuple):
    """The findings of a run of a model.

    Attributes:
        calls: the calls that can be replaced.
        attending: the names of the modules that compute attention in other ways; see `noted_names`.
    """

    calls: FoundCalls
    attending: list[str]


def first_run(model: nn.Module, inputs: Any) -> FirstRun:
    """Run a model once and note its attention; the model itself stays unchanged.

    Args:
        model: any module.
        inputs: what the model is called with; None to call only the transformers models in it, with their
            `dummy_inputs`.

    Raises:
        ValueError: the model fails, or has an attention with parts that a mechanism would drop.
    """
    with (
        evaluation_mode(model),
        _uncompiled(model),
        torch.no_grad(),
        hugging_face.noted_interface_calls(model) as interface,
        scaled_dot_product_calls.noted_fused_calls(model) as fused,
        noted_names(model) as attending,
    ):
        if inputs is not None:
            _run(model, inputs, "these inputs")
        else:
            for one in hugging_face.outermost_models(model):
                given = {name: x.to(one.device) for name, x in one.dummy_inputs.items()}
                _run(one, given, "its dummy_inputs, so give inputs")
    for module, call in interface.last.items():
        if call.reason_against is not None:  # even if not chosen: it will call our function, too
            raise ValueError(call.reason_against)
        fused.last.pop(module, None)
    fused.missed[:] = [one for one in fused.missed if one not in interface.last]
    return FirstRun(FoundCalls(interface, fused), attending)


def _uncompiled(model: nn.Module) -> AbstractContextManager[Any]:
    """A context in which compiled modules run uncompiled."""
    if any(compiled_method(one) is not None for one in model.modules()):
        stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return stance
    return nullcontext()


def _run(model: nn.Module, inputs: Any, given: str) -> None:
    try:
        arguments, named = arguments_of(model.forward, inputs)
        model(*arguments, **named)
    except Exception as error:
        raise ValueError(f"{type(model).__name__} fails with {given}: {first_line(error)}") from error
