"""Which examples, heads and queries are recorded."""

import numpy as np
import pytest
import torch
from torch import nn

from attention_lab.attention import recording
from attention_lab.attention.recorder import indices


@pytest.mark.parametrize("option", ["examples", "heads", "queries"])
def test_a_choice_is_numbers(option: str) -> None:
    assert indices(None, option) is None and indices(slice(2), option) == slice(2)
    for one in (1, np.int64(1), [1], (1,), torch.tensor([1]), torch.tensor(1), range(1, 2)):
        assert indices(one, option) == [1]
    for wrong in (torch.tensor([True, False]), [True], "all", ["0"], 1.5, [None]):
        with pytest.raises(TypeError, match=rf"recording\({option}=...\) takes indices or a slice, not an? "):
            indices(wrong, option)
    with pytest.raises(ValueError, match=rf"recording\({option}=\[\]\) selects nothing"):
        indices([], option)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [(3, "not an int"), ("encoder", r"such as \['encoder'\], not a str"), ([3], "not of an int")],
)
def test_names_are_a_list_of_names(names: object, complaint: str, unchecked_shapes: None) -> None:
    with pytest.raises(TypeError, match=complaint), recording(nn.Identity(), names=names):  # type: ignore[arg-type]
        pass
