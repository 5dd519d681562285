"""Engel's food expenditure by local-linear kernel regression, docs/kernel_regression.png.

python docs/kernel_regression_curve.py     fits the curves (seconds) and redraws the picture
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import statsmodels.api as sm

from attention_lab.estimators import KernelRegression

mpl.use("Agg")
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Fit and draw."""
    from matplotlib import pyplot as plt

    table = sm.datasets.engel.load_pandas().data
    x, y = table[["income"]].to_numpy(), table["foodexp"].to_numpy()
    grid = np.linspace(x.min(), 3000, 300)[:, None]  # only three households have a higher income
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.scatter(x, y, s=8, color="0.6", label="households")
    for degree, colour, name in ((0, "tab:orange", "local-constant"), (1, "tab:blue", "local-linear")):
        model = KernelRegression(degree=degree).fit(x, y)
        label = f"{name}, h = {model.bandwidth_[0]:.0f}, RMSE {model.loo_error_**0.5:.0f}"
        axes.plot(grid, model.predict(grid), color=colour, label=label)
        if degree:
            low, high = model.predict_interval(grid)
            axes.fill_between(
                grid[:, 0], low, high, color=colour, alpha=0.2, label="95% interval", linewidth=0
            )
    axes.set(xlabel="income", ylabel="food expenditure", xlim=(300, 3000), ylim=(0, 2100))
    axes.set_title(
        "The bandwidth h with the smallest leave-one-out error (RMSE)", fontsize="medium", loc="left"
    )
    axes.legend(frameon=False)
    path = ROOT / "docs" / "kernel_regression.png"
    figure.savefig(path, dpi=110)
    print(path)


if __name__ == "__main__":
    main()
