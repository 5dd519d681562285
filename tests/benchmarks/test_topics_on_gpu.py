"""What the topics of the benchmarks measure on a GPU, tested without one."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.measuring.harness import Comparison, Method, Work, measure
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


@pytest.mark.slow
def test_what_fails_while_it_is_timed_or_compared_ends_no_other() -> None:
    """Such as where the memory that it had at first is now held by the methods after it."""
    left = iter([[torch.ones(2)]] * 3)

    def grows() -> Sequence[Tensor]:
        for results in left:
            return results
        raise torch.OutOfMemoryError("CUDA out of memory")

    def fine() -> Work:
        return lambda: [torch.ones(2)]

    methods = [Method("grows", lambda: grows), Method("other shape", lambda: lambda: [torch.ones(3)])]
    comparison = Comparison("", [*methods, Method("fine", fine)], reference=lambda: [torch.ones(2)])
    first, second, third = measure(comparison, 3, sample=0.0, calm=1.0)
    assert (first.trouble, third.trouble) == ("out of memory", "")
    assert second.trouble == "ValueError: result 0: shape (3,), the reference has (2,)"
    assert third.seconds > 0 and math.isnan(third.ratio)
