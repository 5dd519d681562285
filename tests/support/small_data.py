"""Data from small files, and all examples of a split, which many tests need."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attention_lab.data.reading.datasets import Split

FILES = {"train_file": "train", "validation_file": "dev", "test_file": "test"}


def whole(split: Split) -> Any:
    """All examples of a split in one batch."""
    return split[torch.arange(len(split))]


def data_of_files(make: Callable[..., Any], *texts: str, **options: Any) -> Any:
    """The data set of these three texts, which are written to the working directory."""
    for name, text in zip(FILES.values(), texts, strict=True):
        Path(name).write_text(text, encoding="utf-8")
    data = make(**FILES, **options)
    data.setup()
    return data
