"""The arguments of the drop-in for torch.nn.MultiheadAttention, which tools look up by name."""

from inspect import signature

from torch import nn

from attention_lab import MultiheadAttention


def test_they_are_those_of_torch_by_name_and_place() -> None:
    *ours, mechanism = signature(MultiheadAttention).parameters.values()
    torchs = signature(nn.MultiheadAttention).parameters.values()
    assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in torchs]
    assert mechanism.name == "mechanism"


def test_parameters_without_initialisation() -> None:
    # It looks for an argument `device`.
    layer: MultiheadAttention = nn.utils.skip_init(MultiheadAttention, 8, 2, kdim=5)
    assert layer.k_proj_weight.shape == (8, 5)
