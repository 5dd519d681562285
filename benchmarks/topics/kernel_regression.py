"""Gaussian kernel regression of one input, leave-one-out, with the gradient of w, against n x n code."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attention_lab.attention.fast.gaussian import pairs
from attention_lab.attention.fast.gaussian.regression import gaussian_regression
from benchmarks.measuring.harness import Comparison, Growth, Method

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From x `[n, 1]`, y `[n, 1]` and w `[1]` to the predictions `[n, 1]`."""

LARGEST = {
    "cpu": {"textbook": 10_000, "compile": 10_000, "chunks": 10_000, "exact": 30_000, "peers": 10_000},
    "cuda": {"textbook": 30_000, "compile": 30_000, "chunks": 100_000, "exact": 100_000, "peers": 100_000},
}
"""The largest number of samples for each method on a device; with more, it takes minutes or all memory."""
STATSMODELS = 10_000
NOTE = "statsmodels has no gradient: its row is the predictions alone, and states no error."


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """From a thousand to a million samples, on a GPU ten million; w times the range of x is 50, 5 or 5000."""
    sizes = [1000, 10_000, 10**5, 10**6, *([10**7] if device.type == "cuda" else [])]
    for n, width in [(60, 10.0)] if quick else [*((n, 10.0) for n in sizes), (10_000, 1.0), (10_000, 1e3)]:
        data = _data(n, width, device)
        yield Comparison(
            f"n {n:,}, w {width:g} over a range of 5",
            _methods(data, n, compiled=not quick),
            reference=partial(_reference, *data) if n <= 10_000 else None,
            note=NOTE if device.type == "cpu" else "",
            work=(n, "samples/s"),
        )


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """Predictions and gradient at growing numbers of samples."""
    more = (3_000_000, 10_000_000) if device.type == "cuda" else ()
    yield Growth(
        "Leave-one-out predictions and the gradient of w, w 10 over a range of 5",
        "n",
        (30, 60) if quick else (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, *more),
        lambda n: _methods(_data(n, 10.0, device), n, compiled=False),
    )


def _data(n: int, width: float, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs in random order, targets, and w."""
    generator = torch.Generator().manual_seed(0)
    x = 5 * torch.rand(n, 1, generator=generator)
    y = 2 * x.sin() + x**0.8 + 0.5 * torch.randn(n, 1, generator=generator)
    return x.to(device), y.to(device), torch.tensor([width], device=device)


def _methods(data: tuple[Tensor, Tensor, Tensor], n: int, *, compiled: bool) -> list[Method]:
    """All methods that can handle n samples."""
    method, most = partial(_method, data), LARGEST[data[0].device.type]
    methods = []
    if n <= most["textbook"]:
        methods.append(method("textbook", lambda: _textbook))
    if compiled and n <= most["compile"]:
        methods.append(method("textbook, torch.compile", lambda: torch.compile(_textbook)))
    if n <= STATSMODELS and data[0].device.type == "cpu":  # where it computes
        methods.append(
            Method("statsmodels KernelReg", partial(_statsmodels, data), needs="statsmodels", exact=False)
        )
    if n <= most["peers"]:
        methods.append(method("KeOps", _keops, needs="pykeops"))
    if n <= most["chunks"]:
        methods.append(method("textbook in chunks, recomputed", lambda: _chunks))
    if n <= most["exact"]:
        methods.append(method("ours, exact", lambda: partial(_ours, tolerance=None)))
    return [*methods, method("ours, O(n), tolerance 1e-6", lambda: partial(_ours, tolerance=1e-6))]


def _method(
    data: tuple[Tensor, Tensor, Tensor], name: str, make: Callable[[], Loss], needs: str = ""
) -> Method:
    def prepare() -> Callable[[], Sequence[Tensor]]:
        predict = make()
        return lambda: _predict_and_derive(predict, *data)

    return Method(name, prepare, needs=needs)


def _predict_and_derive(predict: Loss, x: Tensor, y: Tensor, width: Tensor) -> list[Tensor]:
    """The predictions, and the gradient of their mean squared error with respect to w."""
    width = width.clone().requires_grad_()
    predicted = predict(x, y, width)
    (gradient,) = torch.autograd.grad((predicted - y).square().mean(), width)
    return [predicted.detach(), gradient]


def _reference(x: Tensor, y: Tensor, width: Tensor) -> list[Tensor]:
    return _predict_and_derive(_textbook, x.double(), y.double(), width.double())


def _own(x: Tensor) -> Tensor:
    return torch.arange(len(x), device=x.device)


def _textbook(x: Tensor, y: Tensor, width: Tensor) -> Tensor:
    """All pairs at once, as it is usually written for a single feature."""
    return _rows(x, x, y, width, _own(x))


def _rows(q: Tensor, x: Tensor, y: Tensor, width: Tensor, own: Tensor) -> Tensor:
    scores = ((q - x.mT) * width).square() / -2
    hidden = own[:, None] == torch.arange(len(x), device=x.device)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ y


def _ours(x: Tensor, y: Tensor, width: Tensor, tolerance: float | None) -> Tensor:
    return gaussian_regression(x, x, y, width, _own(x), tolerance)


def _chunks(x: Tensor, y: Tensor, width: Tensor) -> Tensor:
    """The textbook's code for some rows at a time, which the backward pass recomputes."""
    rows = max(pairs.at_once(x.device) // len(x), 1)
    parts = [
        checkpoint(_rows, q, x, y, width, i, use_reentrant=False)
        for q, i in zip(torch.split(x, rows), torch.split(_own(x), rows), strict=True)
    ]
    return torch.cat(parts)


def _keops() -> Loss:
    """Reductions over symbolic matrices; each sample's own term is subtracted."""
    from pykeops.torch import LazyTensor

    def predict(x: Tensor, y: Tensor, width: Tensor) -> Tensor:
        scaled = x * width
        q, k, v = LazyTensor(scaled[:, None]), LazyTensor(scaled[None]), LazyTensor(y[None])
        kernel = (-((q - k) ** 2).sum(-1) / 2).exp()
        sums: Tensor = (kernel * v).sum(1) - y
        mass: Tensor = kernel.sum(1) - 1
        return sums / mass

    return predict


def _statsmodels(data: tuple[Tensor, Tensor, Tensor]) -> Callable[[], Sequence[Tensor]]:
    """Its local constant estimator; it predicts from all samples and has no gradient of the bandwidth."""
    from statsmodels.nonparametric.kernel_regression import KernelReg

    x, y, width = (part.cpu().double().numpy() for part in data)
    model = KernelReg(y[:, 0], x, "c", reg_type="lc", bw=[1 / width[0]])
    return lambda: [torch.from_numpy(model.fit(x)[0])[:, None]]
