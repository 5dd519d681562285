"""Kernel regression estimators of one input against peers: predictions, and bandwidths by leave-one-out."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attention_lab.estimators import KernelRegression
from benchmarks.measuring.harness import Comparison, Method, Work

Array = NDArray[np.float64]
Data = tuple[Array, Array, float]
"""Inputs `[n, 1]` and targets `[n]` in random order, and a bandwidth."""
Predict = Callable[[], Array]
SHOWN = 300
"""Number of predictions that are compared with the formula in float64."""
LARGEST = {
    "statsmodels": 10_000,
    "scikit-learn": 10_000,
    "kernelsmooth": 10_000,
    "KeOps": 30_000,
    "pyfigtree": 10**6,
    "fastlpr": 10**7,
}
"""Maximum number of samples for each library; with more, predictions take minutes or all memory."""
LARGEST_SEARCH = {"statsmodels": 1000, "kernelsmooth": 10_000, "fastlpr": 10**5}
"""The same for choosing a bandwidth."""

PREDICTIONS = (
    "Libraries that approximate are asked for errors of at most 1e-6; fastlpr has no setting for that, and "
    "ours is also asked for an error like that of fastlpr. Fitting with a given bandwidth is not timed, "
    "except for fastlpr, which predicts as it fits."
)
SEARCHES = (
    "Ours is a fit: the search, the predictions of all samples by all others, and the variance. fastlpr "
    "chooses among 20 bandwidths by generalised cross-validation with random numbers. statsmodels evaluates "
    "its criterion tens of times, each taking as long as its predictions above."
)


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """From a thousand to ten million samples, each with roughly the best bandwidth; on the CPU."""
    sizes = (60,) if quick else (1000, 10_000, 10**5, 10**6, 10**7)
    for n in sizes:
        data = _data(n)
        yield Comparison(
            f"Predictions at all samples, n {n:,}, bandwidth {data[2]:.3g} over a range of 5",
            _predictions(data, n),
            reference=partial(_formula, data),
            note=PREDICTIONS,
            work=(n, "samples/s"),
        )
    for n in sizes:
        data = _data(n)
        yield Comparison(
            f"Bandwidth by leave-one-out, n {n:,}",
            _searches(data, n),
            note=SEARCHES,
            work=(n, "samples/s"),
        )


def _data(n: int) -> Data:
    generator = np.random.default_rng(0)
    x = 5 * generator.random((n, 1))
    y = 2 * np.sin(x[:, 0]) + x[:, 0] ** 0.8 + 0.5 * generator.standard_normal(n)
    return x, y, 0.2 * (n / 100) ** -0.2


def _shown(n: int) -> slice:
    return slice(None, None, max(n // SHOWN, 1))


def _formula(data: Data) -> list[Tensor]:
    """The formula for some of the samples, one chunk at a time."""
    x, y, bandwidth = data
    rows = []
    for query in x[_shown(len(x))]:
        kernel = np.exp(((x[:, 0] - query) / bandwidth) ** 2 * -0.5)
        rows.append(kernel @ y / kernel.sum())
    return [torch.tensor(rows, dtype=torch.float64)]


def _predictions(data: Data, n: int) -> list[Method]:
    peers = {
        "statsmodels": ("statsmodels KernelReg", "statsmodels", _statsmodels),
        "scikit-learn": ("scikit-learn RadiusNeighborsRegressor", "", _scikit_learn),
        "KeOps": ("KeOps, float64", "pykeops", _keops),
        "kernelsmooth": ("kernelsmooth", "kernelsmooth", _kernelsmooth),
        "pyfigtree": ("pyfigtree", "pyfigtree", _pyfigtree),
        "fastlpr": ("fastlpr", "fastlpr", _fastlpr),
    }
    methods = [
        _method(name, partial(prepare, data), needs)
        for library, (name, needs, prepare) in peers.items()
        if n <= LARGEST[library]
    ]
    for tolerance in ("1e-6", "1e-3"):
        model = KernelRegression(bandwidth=data[2], tolerance=float(tolerance))
        methods.append(_method(f"ours, tolerance {tolerance}", partial(_fitted, data, model)))
    if n <= 10**4:
        exact = KernelRegression(bandwidth=data[2], tolerance=None)
        methods.append(_method("ours, exact", partial(_fitted, data, exact)))
    return methods


def _method(name: str, prepare: Callable[[], Predict], needs: str = "") -> Method:
    """A method whose predictions are compared at some of the samples."""

    def make() -> Work:
        predict = prepare()

        def work() -> Sequence[Tensor]:
            found = np.ravel(predict())
            return [torch.from_numpy(found[_shown(len(found))].astype(np.float64))]

        return work

    return Method(name, make, needs=needs)


def _fitted(data: Data, model: Any) -> Predict:
    return partial(model.fit(data[0], data[1]).predict, data[0])


def _statsmodels(data: Data) -> Predict:
    model = _kernel_reg(data, [data[2]])
    return lambda: model.fit(data[0])[0]


def _kernel_reg(data: Data, bandwidth: str | list[float]) -> Any:
    from statsmodels.nonparametric.kernel_regression import KernelReg

    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", FutureWarning)  # about its random numbers
        return KernelReg(data[1], data[0], "c", reg_type="lc", bw=bandwidth)


def _scikit_learn(data: Data) -> Predict:
    """Neighbours within six bandwidths, weighted by the kernel; weights left out are below 1e-7."""
    from sklearn.neighbors import RadiusNeighborsRegressor

    def weights(distances: Array) -> Array:
        return np.array([np.exp((far / data[2]) ** 2 * -0.5) for far in distances], dtype=object)

    return _fitted(data, RadiusNeighborsRegressor(radius=6 * data[2], weights=weights))


def _keops(data: Data) -> Predict:
    from pykeops.torch import LazyTensor

    x, y = torch.from_numpy(data[0]) / data[2], torch.from_numpy(data[1])[:, None]
    kernel = (-((LazyTensor(x[:, None]) - LazyTensor(x[None])) ** 2).sum(-1) / 2).exp()
    return lambda: ((kernel * LazyTensor(y[None])).sum(1) / kernel.sum(1)).numpy()


def _kernelsmooth(data: Data) -> Predict:
    from kernelsmooth import KernelRegression as Peer

    return _fitted(data, Peer(bandwidth=data[2] / data[0].std(ddof=1)))


def _pyfigtree(data: Data) -> Predict:
    """Its kernel is exp(-u^2), and its error is relative to the sum of all weights."""
    from pyfigtree import figtree

    x, y, bandwidth = data
    sums = partial(figtree, x, x, bandwidth=bandwidth * 2**0.5, epsilon=1e-8)
    return lambda: np.ravel(sums(y)) / np.ravel(sums(np.ones_like(y)))


def _fastlpr(data: Data) -> Predict:
    """Its kernel is exp(-u^2); it interpolates on a grid with as many points as there are samples."""
    from fastlpr import cv_fastlpr

    x, y, bandwidth = data
    options = {"order": 0, "calc_dof": False, "accuracy": 6}
    return lambda: np.ravel(cv_fastlpr(x, y, [[bandwidth / 2**0.5]], options).yhat)


def _searches(data: Data, n: int) -> list[Method]:
    methods = []
    if n <= LARGEST_SEARCH["statsmodels"]:
        methods.append(
            Method("statsmodels KernelReg, cv_ls", lambda: partial(_statsmodels_search, data), "statsmodels")
        )
    if n <= LARGEST_SEARCH["kernelsmooth"]:
        methods.append(
            Method("kernelsmooth, lscv", lambda: partial(_kernelsmooth_search, data), "kernelsmooth")
        )
    if n <= LARGEST_SEARCH["fastlpr"]:
        methods.append(Method("fastlpr, GCV", lambda: partial(_fastlpr_search, data), "fastlpr"))
    kernels = ("gaussian", "epanechnikov") if n <= 10**6 else ("gaussian",)
    methods += [_search(data, kernel) for kernel in kernels]
    return methods


def _search(data: Data, kernel: str) -> Method:
    def work() -> Sequence[Tensor]:
        return [torch.from_numpy(KernelRegression(kernel).fit(data[0], data[1]).bandwidth_)]

    return Method(f"ours, {kernel}", lambda: work)


def _statsmodels_search(data: Data) -> Sequence[Tensor]:
    return [torch.from_numpy(np.abs(_kernel_reg(data, "cv_ls").bw))]


def _kernelsmooth_search(data: Data) -> Sequence[Tensor]:
    from kernelsmooth import KernelRegression as Peer

    model = Peer("lscv").fit(data[0], data[1])
    return [torch.tensor([float(np.ravel(model.bandwidth)[0]) * data[0].std(ddof=1)])]


def _fastlpr_search(data: Data) -> Sequence[Tensor]:
    from fastlpr import cv_fastlpr, get_hlist

    x, y, bandwidth = data
    candidates = get_hlist(20, [[bandwidth / 10, bandwidth * 10]])
    found = cv_fastlpr(x, y, candidates, {"order": 0, "dstd": 0, "accuracy": 6})
    return [torch.tensor([float(np.ravel(found.h)[0]) * 2**0.5])]
