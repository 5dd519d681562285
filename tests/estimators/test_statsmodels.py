"""Equal to statsmodels' KernelReg at the same bandwidth, on real data; its errors are never smaller."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from attention_lab.estimators import KernelRegression

sm = pytest.importorskip("statsmodels.api")
SETS: dict[str, tuple[list[str], str]] = {
    "engel": (["income"], "foodexp"),
    "nile": (["year"], "volume"),
    "longley": (["GNP"], "TOTEMP"),
    "stackloss": (["AIRFLOW", "WATERTEMP"], "STACKLOSS"),
    "copper": (["COPPERPRICE"], "WORLDCONSUMPTION"),
    "statecrime": (["urban", "poverty"], "violent"),
    "cancer": (["population"], "cancer"),
    "macrodata": (["realgdp"], "infl"),
    "iris": ([], ""),
    "wine": ([], ""),
    "diabetes": ([], ""),
}
QUICK = {"longley", "stackloss", "nile"}


def _real(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "iris":
        table = load_iris().data
        return table[:, [0, 3]], table[:, 2]
    if name == "wine":
        table = load_wine().data
        return table[:, [0]], table[:, 12]
    if name == "diabetes":
        diabetes = load_diabetes(scaled=False)
        return diabetes.data[:, [2]], diabetes.target
    inputs, target = SETS[name]
    table = getattr(sm.datasets, name).load_pandas().data
    return table[inputs].to_numpy(float), table[target].to_numpy(float)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SETS]
)
@pytest.mark.filterwarnings("ignore:After 0.17 or January 2028:FutureWarning")  # theirs, of random numbers
@pytest.mark.parametrize(("degree", "kind"), [(0, "lc"), (1, "ll")])
def test_as_statsmodels_but_never_worse(name: str, degree: int, kind: str) -> None:
    from statsmodels.nonparametric.kernel_regression import KernelReg

    x, y = _real(name)
    with np.errstate(invalid="ignore", divide="ignore"):  # theirs, at bandwidths that it tries
        theirs: Any = KernelReg(y, x, "c" * x.shape[1], reg_type=kind, bw="cv_ls")
    bandwidth = np.abs(theirs.bw)  # it finds negative ones
    wanted = theirs.fit(x)[0]
    for tolerance in (None, 1e-6):
        same = KernelRegression(bandwidth=bandwidth, degree=degree, tolerance=tolerance).fit(x, y)
        assert same.predict(x) == pytest.approx(wanted, rel=1e-6, abs=1e-6 * np.abs(y).max())
    error = np.ravel(theirs.cv_loo(bandwidth, theirs.est[kind]))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = KernelRegression(degree=degree).fit(x, y)
    assert ours.loo_error_ <= min(error, same.loo_error_) * (1 + 1e-7)
    assert (ours.bandwidth_ > 0).all()
