"""Kernel regression as a scikit-learn estimator."""

import warnings
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student_t
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from attention_lab.attention.scores.kernels import LOG_KERNELS
from attention_lab.estimators.bandwidth import Choice, choose_bandwidth
from attention_lab.estimators.leave_one_out import LeaveOneOut
from attention_lab.estimators.smoothing.samples import Samples, make_samples
from attention_lab.estimators.smoothing.smooth import smooth


class KernelRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Local-constant (Nadaraya-Watson) or local-linear kernel regression.

    `degree=0`: `f(x) = sum_i s_i K((x - x_i) / h) y_i / sum_i s_i K((x - x_i) / h)` with sample weights s
    (Nadaraya 1964, Watson 1964). `degree=1`: the value at x of the line, or plane, that fits the samples
    best with these kernels as weights (Cleveland 1979, Fan 1992), without a first-order bias at the edges.

    **Time.** One input takes O(n log n) for sorting and O(n) for each bandwidth: Gaussian kernels are
    accurate to within `tolerance`, the others are exact. Several inputs take O(n^2) time in chunks, in O(n)
    memory.

    **Bandwidth.** `h` is the unit in which distances are measured, for each input; it is the inverse of the
    width `w = 1 / h` of `attention_lab.attention.scores.kernels`. `"loo"` minimises the leave-one-out error,
    over a grid and then by the derivative (Gaussian) or golden sections. A `ConvergenceWarning` is issued if
    the best bandwidth is at an end of the search, where each sample is predicted by its nearest neighbour or
    an input is smoothed out.

    **Errors.** With the smoother matrix L, `nu = tr L` and `nu~ = tr L'L`, the variance of the noise is
    estimated by `sigma^2 = sum_i s_i (y_i - f(x_i))^2 / (n - 2 nu + nu~)`, and the standard error of f(x) is
    `sigma |l(x)|` (Wasserman, "All of Nonparametric Statistics", 2006, sections 5.6 and 5.7; Loader, "Local
    Regression and Likelihood", 1999, section 2.3). These errors assume noise of constant variance and do not
    include the bias. If f goes through all samples there is no estimate, and errors are infinite.

    **Nothing within reach.** Where a compact kernel reaches no sample, f is estimated from the nearest ones
    with equal kernels. This is the limit of a Gaussian or Laplacian kernel as its bandwidth becomes small,
    and keeps predictions and leave-one-out errors finite. A line through samples whose inputs are all
    equal, or nearly equal compared with their distance from x, is a constant.

    **Weights.** A sample of weight 2 is the same as two equal samples. Leave-one-out leaves out one of them
    (or all of a sample whose weight is below 1). If weights are not counts, divide them by the largest.

    Args:
        kernel: with `u = (x - x_i) / h`, `gaussian` `exp(-|u|^2 / 2)`, `laplacian` `exp(-|u|_1)`, or for
            `|u| <= 1` only `epanechnikov` `1 - |u|^2`, `tricube` `(1 - |u|^3)^3`, `boxcar` 1.
        bandwidth: h, a positive number, one for each input, or `"loo"`.
        degree: 0 or 1.
        tolerance: largest error of a prediction with Gaussian kernels of one input, relative to the largest
            target (measured from the mean); None: rounding errors only.

    Attributes:
        bandwidth_: h of each input `(n_features,)`.
        loo_predictions_: the prediction of each training sample from all others, in the shape of y.
        loo_error_: the mean squared error of these predictions, over samples and targets.
        sigma_: the standard deviation of the noise, a number or one for each target.
        effective_dof_: `nu`, the number of parameters of an equally flexible linear model.
        residual_dof_: `n - 2 nu + nu~`.
        n_features_in_: number of inputs.
    """

    _samples: Samples

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | ArrayLike | Literal["loo"] = "loo",
        degree: int = 0,
        tolerance: float | None = 1e-6,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.degree = degree
        self.tolerance = tolerance

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Store the samples, choose the bandwidth if required, and estimate the variance of the noise.

        Args:
            X: inputs `(n_samples, n_features)`.
            y: targets `(n_samples,)` or `(n_samples, n_targets)`.
            sample_weight: how many samples each one counts as, not negative.

        Raises:
            ValueError: an option or the data is invalid.
        """
        self._check_options()
        inputs, targets = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True
        )
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        counted = weights > 0
        number = int(counted.sum())
        if number < 2 and weights.sum() <= 1:
            raise ValueError(f"kernel regression needs at least 2 samples, got n_samples = {number}")
        inputs, targets = (np.asarray(part, dtype=np.float64) for part in (inputs, targets))
        self._many_targets = targets.ndim > 1
        columns = targets.reshape(len(targets), -1)
        self._centre = np.average(inputs[counted], axis=0, weights=weights[counted])
        self._mean = np.average(columns[counted], axis=0, weights=weights[counted])
        parts = inputs - self._centre, columns - self._mean, weights
        if not counted.all():
            parts = tuple(part[counted] for part in parts)
        # The search follows a gradient, even where gradients are switched off.
        with torch.inference_mode(False):
            self._samples = make_samples(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))
            loo = LeaveOneOut(self._samples, self.kernel, self.degree, self.tolerance)
            self.bandwidth_ = self._bandwidths(loo)
            left_out = loo.predictions(torch.from_numpy(self.bandwidth_))
            self.loo_error_ = loo.error_of(left_out)
            predictions = np.empty_like(columns)
            predictions[np.flatnonzero(counted)[self._samples.order.numpy()]] = left_out.numpy()
        self._estimate_noise()
        if not counted.all():  # nothing is left out for these
            predictions[~counted] = self._smooth(inputs[~counted])[0] - self._mean
        predictions += self._mean
        self.loo_predictions_ = predictions if self._many_targets else predictions[:, 0]
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Estimate f at some points.

        Args:
            X: inputs `(n_queries, n_features)`.
            return_std: whether to return the standard errors of f as well.

        Returns:
            Estimates in the shape of y and the dtype of X; with `return_std` also standard errors.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        mean, norm = self._smooth(inputs.astype(np.float64, copy=False), errors=return_std)
        if norm is None:
            return self._shaped(mean, inputs.dtype)
        error = np.sqrt(norm)[:, None] * np.atleast_1d(self.sigma_)
        return self._shaped(mean, inputs.dtype), self._shaped(error, inputs.dtype)

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.95,
        *,
        of_observations: bool = False,
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Pointwise intervals of the curve, or of new observations.

        For the curve, these are confidence intervals `f(x) ± t sigma |l(x)|`, with Student's t for
        `residual_dof_`. They cover the expectation of the estimate at x. For observations, these are
        prediction intervals `f(x) ± t sigma sqrt(1 + |l(x)|^2)`. They cover a new y at x if the noise is
        normal, and are much wider. For the local-linear estimate with an infinite bandwidth, both are those
        of least squares.

        Args:
            X: inputs `(n_queries, n_features)`.
            level: the probability that an interval covers, at its point.
            of_observations: whether the intervals are for new observations instead of the curve.

        Returns:
            The lower ends and the upper ends.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1, got {level}")
        mean, error = self.predict(X, return_std=True)
        if of_observations:
            error = np.hypot(error, self.sigma_).astype(error.dtype, copy=False)
        reach = error * (student_t.ppf((1 + level) / 2, self.residual_dof_) if self.residual_dof_ else 1.0)
        return mean - reach, mean + reach

    def _check_options(self) -> None:
        if self.kernel not in LOG_KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(LOG_KERNELS)}, got {self.kernel!r}")
        if self.degree not in (0, 1):
            raise ValueError(f"degree must be 0 or 1, got {self.degree!r}")
        tolerance = self.tolerance
        if tolerance is not None and not 0 < tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, or None, got {tolerance!r}")

    def _bandwidths(self, loo: LeaveOneOut) -> NDArray[np.float64]:
        inputs = loo.samples.keys.shape[1]
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "loo":
                raise ValueError(f"bandwidth must be numbers or 'loo', got {self.bandwidth!r}")
            choice = choose_bandwidth(loo)
            _warn_of_edges(choice, self.degree)
            return choice.bandwidth.numpy()
        given = np.asarray(self.bandwidth, dtype=np.float64)
        if given.shape not in ((), (1,), (inputs,)) or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(
                f"bandwidth must be a positive number, or one for each of {inputs} inputs, "
                f"got {self.bandwidth!r}"
            )
        return np.array(np.broadcast_to(given, (inputs,)))

    def _estimate_noise(self) -> None:
        samples = self._samples
        values = samples.values[samples.single]
        bandwidth = torch.from_numpy(self.bandwidth_)
        found = smooth(
            samples,
            samples.keys[samples.single],
            bandwidth,
            self.kernel,
            self.degree,
            self.tolerance,
            errors=True,
        )
        assert found.norm is not None and found.influence is not None
        counts = samples.counts
        trace, squares = float(counts @ found.influence), float(counts @ found.norm)
        residual = max(float(counts.sum()) - 2 * trace + squares, 0.0)
        self.effective_dof_ = trace
        self.residual_dof_ = residual if residual > 1e-9 * float(counts.sum()) else 0.0
        total: Tensor = counts @ (values - found.mean).square()
        sigma = np.full(len(total), np.inf) if not self.residual_dof_ else np.sqrt(total.numpy() / residual)
        self.sigma_: Any = sigma if self._many_targets else float(sigma[0])

    def _smooth(
        self, inputs: NDArray[np.float64], *, errors: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Estimates at some points, and their variances for noise of variance 1."""
        query = torch.from_numpy(np.ascontiguousarray(inputs - self._centre))
        bandwidth = torch.from_numpy(self.bandwidth_)
        found = smooth(
            self._samples, query, bandwidth, self.kernel, self.degree, self.tolerance, errors=errors
        )
        return found.mean.numpy() + self._mean, None if found.norm is None else found.norm.numpy()

    def _shaped(self, columns: NDArray[np.float64], dtype: np.dtype) -> NDArray[np.floating]:
        found = columns.astype(dtype, copy=False)
        return found if self._many_targets else found[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _warn_of_edges(choice: Choice, degree: int) -> None:
    """Warn about bandwidths at an end of the search."""
    if choice.smallest:
        warnings.warn(
            f"the leave-one-out error is lowest at the smallest bandwidth for inputs {choice.smallest}: "
            "each sample is predicted by its nearest neighbours, as when samples are repeated; "
            "set bandwidth to a number",
            ConvergenceWarning,
            stacklevel=4,
        )
    if choice.largest:
        shape = "a straight line" if degree else "a constant"
        warnings.warn(
            f"the leave-one-out error is lowest at the largest bandwidth for inputs {choice.largest}: the "
            f"estimate is {shape} in them",
            ConvergenceWarning,
            stacklevel=4,
        )
