"""What `import attention_lab` offers."""

import importlib.metadata

import pytest

import attention_lab
from attention_lab import data


def test_the_version_is_that_of_the_installed_package() -> None:
    assert attention_lab.__version__ == importlib.metadata.version("attention-lab")


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(AttributeError, match="attention-lab is not installed"):
        _ = attention_lab.__version__
    assert getattr(attention_lab, "__version__", None) is None


def test_completion_offers_the_public_names_only() -> None:
    assert dir(attention_lab) == sorted([*attention_lab.__all__, "__version__"])


@pytest.mark.parametrize(
    "name",
    [
        *("TransductionData", "ClassificationData", "LanguageData"),
        *("RegressionData", "ImageTransductionData", "GraphData"),
    ],
)
def test_the_bases_of_data_sets_are_in_the_data_package(name: str) -> None:
    assert name in data.__all__ and issubclass(getattr(data, name), data.DataModule)
