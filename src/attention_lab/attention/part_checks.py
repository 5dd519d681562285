"""Reject arguments that cannot be parts of an attention, with a message that says what is expected."""

from torch import nn

from attention_lab.argument_checks import kind_of
from attention_lab.attention.scores import Score

_TORCH_PARAMETERS = {
    *("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
    *("bias_k", "bias_v", "out_proj.weight", "out_proj.bias"),
}


def check_parts(score: object, **others: object) -> None:
    """Raise TypeError if the score is not a `Score`, or another part is a class or cannot be called."""
    for name, part in {"score": score, **others}.items():
        if isinstance(part, type):
            raise TypeError(f"Attention({name}=...) takes an instance, not a class: {_called(part)}")
        if part is not None and not callable(part):
            raise TypeError(f"Attention({name}=...) takes a module, not {kind_of(part)}")
    if hasattr(score, "_orig_mod"):  # what torch.compile returns
        kind = type(score._orig_mod).__name__
        raise TypeError(
            f"Attention(score) takes a Score, not a compiled one: compile the attention, or the model around "
            f"it, such as torch.compile(Attention({kind}(...)))"
        )
    if not isinstance(score, Score):
        raise TypeError(
            f"Attention(score) takes a Score, not {kind_of(score)}: define class MyScore(Score) with "
            "forward(query, keys)"
        )


def check_makers(**makers: object) -> None:
    """Raise TypeError if a part of a mechanism is not the class or function that makes it."""
    for name, maker in makers.items():
        if isinstance(maker, nn.Module) or not callable(maker):
            kind = type(maker).__name__
            like = kind if isinstance(maker, nn.Module) else "MyPart"
            raise TypeError(
                f"Mechanism({name}=...) takes a class such as {like}, or partial({like}, option=...), which "
                f"makes the part for any sizes, not {kind_of(maker)}"
            )


def check_mechanism(mechanism: object, kind: type) -> None:
    """Raise TypeError if `mechanism` is not of the class `Mechanism`, given as `kind`."""
    if not isinstance(mechanism, kind):
        like = mechanism.__name__ if isinstance(mechanism, type) else "ScaledDot"
        raise TypeError(f"mechanism must be a Mechanism, such as Mechanism({like}), not {kind_of(mechanism)}")


def check_relative(relative: object) -> None:
    """Raise TypeError if relative positions are a name or a class instead of an object with their methods."""
    if relative is None or (not isinstance(relative, type) and hasattr(relative, "rotate")):
        return
    kind = relative.__name__ if isinstance(relative, type) else "Rotary"
    raise TypeError(
        f"MultiHead(relative=...) takes relative positions for its heads, such as {kind}(heads=8, size=64) "
        f"for 8 heads of size 64, not {kind_of(relative)}"
    )


def check_torch_module(module: object) -> None:
    """Raise TypeError if a module is not `torch.nn.MultiheadAttention`, or has other parameters than that."""
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"from_torch takes a torch.nn.MultiheadAttention, not {kind_of(module)}")
    for name in module.state_dict():
        if name not in _TORCH_PARAMETERS and not name.startswith("attention."):  # those of our own score
            raise TypeError(
                f"from_torch cannot copy {name}: remove parametrizations, pruning and adapters from the "
                "module first, and add them to the copy"
            )


def _called(kind: type) -> str:
    options = "query_size=64, key_size=64" if issubclass(kind, Score) else "..."
    return f"write {kind.__name__}({options})"
