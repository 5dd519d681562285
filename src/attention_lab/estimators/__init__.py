"""Estimators with scikit-learn's interface, for numpy arrays. Imports no Lightning, Hydra or TensorBoard."""

from attention_lab.estimators.kernel_regression import KernelRegression

__all__ = ["KernelRegression"]
