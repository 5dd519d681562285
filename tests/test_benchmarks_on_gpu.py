"""What the topics of the benchmarks measure on a GPU, found out without one."""

from typing import Any

import pytest
import torch

from benchmarks.topics import load


@pytest.mark.parametrize(("on_gpu", "ours"), [(True, ["ours"]), (False, ["ours, no compiler"])])
def test_additive_scores_that_triton_computes_have_one_row(
    on_gpu: bool, ours: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether anything may be compiled changes nothing there."""
    additive: Any = load("additive")
    monkeypatch.setattr(additive.triton_scores, "usable", lambda *_: on_gpu)
    (comparison,) = additive.comparisons(torch.device("cpu"), True)
    assert [method.name for method in comparison.methods] == ["textbook", "textbook, checkpointed", *ours]
