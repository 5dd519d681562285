"""What the topics of the benchmarks measure on a GPU, tested without one."""

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

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


def test_kernel_regression_takes_chunks_of_the_gpus_size_and_no_peer_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic: Any = load("kernel_regression")
    sizes: list[int] = []
    monkeypatch.setattr(topic, "checkpoint", lambda _, q, *rest, **__: sizes.append(len(q)) or q)
    with FakeTensorMode():
        x, y, width = (torch.empty(*shape, device="cuda") for shape in ((100_000, 1), (100_000, 1), (1,)))
        names = [method.name for method in topic._methods((x, y, width), 1000, compiled=False)]
        topic._chunks(x, y, width)
    assert "statsmodels KernelReg" not in names
    assert len(sizes) < 1000
