"""Local-constant and local-linear kernel regression for given bandwidths: values, errors and influence."""
