"""`replace_attention`: any mechanism in a model that was written elsewhere."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from attention_lab.argument_checks import kind_of
from attention_lab.attention.attention import Attention, Mechanism, check_mechanism
from attention_lab.attention.recording.chosen_modules import ChosenModules
from attention_lab.attention.replacing import hugging_face, scaled_dot_product
from attention_lab.attention.replacing.attend import mechanism_in
from attention_lab.attention.replacing.calls import PART
from attention_lab.attention.replacing.first_run import FoundCalls, first_run
from attention_lab.attention.replacing.unreplaced_attention import warn_of_unreplaced
from attention_lab.attention.torch_multihead import MultiheadAttention

_REMEDIES = {
    "the attention interface": "give inputs that use them",
    "scaled_dot_product_attention": (
        "give inputs or set an option so that it does, or make hand-written attention call it"
    ),
}
"""The functions of `FoundCalls`, and what to do if a model does not call them."""


class _Replacement(NamedTuple):
    """A new part of a module.

    Attributes:
        name: the name in the model of the module whose attention is replaced.
        holder: the module that holds the part.
        part: the name of the part in its holder.
        new: the new part.
        attention: the new attention, which is the part or within it.
    """

    name: str
    holder: nn.Module
    part: str
    new: nn.Module
    attention: Attention


def replace_attention(
    model: nn.Module,
    mechanism: Mechanism,
    inputs: Any = None,
    *,
    names: Collection[str] | None = None,
) -> dict[str, Attention]:
    """Replace each attention of a model with a mechanism; all else, including the weights, stays the same.

    For example:

        replace_attention(model, Mechanism(ScaledDot, normalizer=Entmax15))

    This replaces `softmax(score(query, key), mask) value` in each `torch.nn.MultiheadAttention`, in each
    attention of a `transformers` model that uses the library's attention interface, as most do, and in each
    module that calls torch's `scaled_dot_product_attention`, as in `timm`, `diffusers` and nanoGPT.
    Projections, masks, rotary and other positions, biases, dropout, caches and `generate` remain those of the
    model, and `recording` sees the new weights. With `Mechanism(ScaledDot)`, a model computes the same as
    before, up to rounding, with its own scale of the scores.

    Attention that a module computes with its own operations stays as it is. If the model is run and only some
    modules do so, a warning names them.

    The new parameters of a score, a normaliser or a window, if any, are parts of the model: create the
    optimiser afterwards. To load saved weights, build the model, replace its attention in the same way, and
    then call `load_state_dict`. In a model of `transformers`, `model.set_attn_implementation("sdpa")`, or
    "eager" where the model has no other, restores its own attention.

    Args:
        model: the model; it is changed in place.
        mechanism: makes the new attentions, from the sizes and the number of the heads.
        inputs: what the model is run on once to see where it attends: a mapping of keyword arguments, a tuple
            of positional ones, or a single one, which may be a mapping. By default, a `transformers` model
            runs on its `dummy_inputs`, and another model does not run, so only torch's modules are found.
        names: names of the modules whose attention is replaced, with all modules inside them; None for all.

    Returns:
        The new attentions, by the name of the module that each belongs to.

    Raises:
        TypeError: the model is not a module, or contains a subclass of torch's attention; `mechanism` is not
            a `Mechanism`.
        KeyError: the model has no module of that name.
        ValueError: `names` is empty, there is no attention to replace, the model cannot run on the inputs or
            does not run all chosen attentions with them; or its attention has parts that a mechanism would
            drop: a soft cap, sinks, or its own selection of keys; or a module attends several times in a
            forward pass.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace_attention takes a torch.nn.Module, not {kind_of(model)}")
    check_mechanism(mechanism)
    chosen = ChosenModules("replace_attention", names, dict(model.named_modules()))
    found, attending = first_run(model, inputs)
    with torch.inference_mode(False):  # tensors made in inference mode cannot be trained
        replacements = [
            *_in_torch(model, mechanism, chosen),
            *_in_calls(model, mechanism, chosen, found, inputs),
        ]
    if not replacements:
        where = "" if names is None else f" in {', '.join(names)}"
        raise ValueError(
            f"{type(model).__name__} has no attention{where} that can be replaced: it needs a "
            "torch.nn.MultiheadAttention, a transformers model that uses the attention interface, or modules "
            "that call scaled_dot_product_attention when the model runs on `inputs`"
        )
    replaced = {one.name for one in replacements}
    warn_of_unreplaced(model, [name for name in attending if name in chosen and name not in replaced])
    for _, holder, part, new, attention in replacements:
        setattr(holder, part, new)
        attention.part_of_layer = attention.part_of_layer or part
    if any(one.holder in found.interface.last for one in replacements):
        hugging_face.use_mechanisms(model)
    for one in replacements:
        if one.holder in found.fused.last:
            scaled_dot_product.use_mechanism(one.holder)
    return {one.name: one.attention for one in replacements}


def _in_torch(model: nn.Module, mechanism: Mechanism, chosen: ChosenModules) -> Iterator[_Replacement]:
    """Replacements of torch's modules, wherever they are held."""
    holders = [(one, part, held) for one in model.modules() for part, held in one._modules.items()]
    for name, module in model.named_modules():
        if not isinstance(module, nn.MultiheadAttention) or name not in chosen:
            continue
        if type(module) is MultiheadAttention:
            size = module.head_dim
            attention = mechanism(size, size, module.num_heads, module.dropout).to(module.out_proj.weight)
            yield _Replacement(name, module, "attention", attention.train(module.training), attention)
            continue
        if type(module) is not nn.MultiheadAttention:
            raise TypeError(f"{name or 'the model'} is {kind_of(module)}, which may compute something else")
        if module is model:
            raise TypeError(
                "the model is the attention itself: use MultiheadAttention.from_torch(model, mechanism)"
            )
        new = MultiheadAttention.from_torch(module, mechanism)
        for place, parameter in module.named_parameters(remove_duplicate=False):  # others may share it
            owner, _, own = place.rpartition(".")
            setattr(new.get_submodule(owner), own, parameter)
        for holder, part, held in holders:
            if held is module:
                yield _Replacement(name, holder, part, new, new.attention)


def _in_calls(
    model: nn.Module, mechanism: Mechanism, chosen: ChosenModules, found: FoundCalls, inputs: Any
) -> Iterator[_Replacement]:
    """New parts of the modules that call a function that attends."""
    names = {module: name for name, module in model.named_modules()}
    for calls, (function, remedy) in zip(found, _REMEDIES.items(), strict=True):
        missed = [name for one in calls.missed if (name := names[one]) in chosen]
        if missed:
            example = missed[0] or "the model itself"
            raise ValueError(
                f"{type(model).__name__} does not call {function} in {len(missed)} of its attentions, "
                f"such as {example}, {_given(model, inputs)}: {remedy}; or choose others with names=[...]"
            )
        for module, call in calls.last.items():
            name = names.get(module)
            if name is None or name not in chosen:
                continue
            if call.reason_against is not None:
                raise ValueError(call.reason_against)
            mechanism_in(module)  # raises TypeError if an attribute of this name is anything else
            attention = call.new_attention(module, mechanism)
            if calls is found.interface:
                hugging_face.register_when_unpickled(attention)
            yield _Replacement(name, module, PART, attention, attention)


def _given(model: nn.Module, inputs: Any) -> str:
    if inputs is not None:
        return "with these inputs"
    return "with its dummy_inputs" if hugging_face.outermost_models(model) else "without inputs"
