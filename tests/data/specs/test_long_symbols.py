"""A symbol that is too long is found where the file is read, which names its line."""

from pathlib import Path

import pytest

from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.files import (
    InflectionSpec,
    LabelledSpec,
    PairsSpec,
    TextSpec,
    TimeSeriesSpec,
)
from attention_lab.data.specs.images import ImageFilesSpec, LabelledImagesSpec
from attention_lab.errors import LabError

LONG = "x" * 10_001


@pytest.mark.parametrize(
    ("lines", "spec"),
    [
        (f"a\tb\nc\td {LONG}\n", PairsSpec(file="data", target_split="spaces")),
        (f"a\tb\n{LONG}\td\n", PairsSpec(file="data", source_split="spaces")),
        (f"a\tb\nc\t{LONG}\n", LabelledSpec(file="data")),
        (f"a\tb\n{LONG}\tc\n", LabelledSpec(file="data")),
        (f"a\t1\n{LONG}\t2\n", TimeSeriesSpec(file="data")),
        (f"a\tb\n{LONG}\tc\n", LabelledImagesSpec(file="data")),
        (f"a\tb\nc\t{LONG}\n", ImageFilesSpec(file="data", target_split="spaces")),
        (f"a\tb\tN\nc\td\tN;{LONG}\n", InflectionSpec(file="data")),
        (f"a b {LONG}\n", TextSpec(file="data", unit="words")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, FileSpec) else "",
)
def test_a_symbol_that_is_too_long(lines: str, spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").write_text(lines)
    place = "data" if isinstance(spec, TextSpec) else "data:2"
    problem = "the symbol '.*x' has 10,00. characters, more than 10,000: split it"
    with pytest.raises(LabError, match=f"^{place}: {problem}"):
        spec.load()


@pytest.mark.parametrize(
    "spec", [PairsSpec(file="data"), LabelledSpec(file="data", unit="characters")], ids=["pairs", "labelled"]
)
def test_a_long_text_of_characters_is_read(spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").write_text("".join(f"{n}\t{LONG}{n}\n" for n in range(20)))
    assert sum(map(len, spec.load())) == 20
