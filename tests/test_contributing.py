"""The index in CONTRIBUTING.md, of what is to be found in which file, names files that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOTS = (REPOSITORY / "src" / "attention_lab", REPOSITORY)
_FILE = re.compile(r"`([\w./]+(?:\.py|\.js|/))`")


def _index() -> Iterator[str]:
    """The cells of the column `look in`."""
    _, table = (REPOSITORY / "CONTRIBUTING.md").read_text().split("| to find | look in |\n|---|---|\n")
    for row in table.split("\n\n")[0].splitlines():
        yield row.split(" | ")[1]


@pytest.mark.parametrize("cell", list(_index()))
def test_the_index_names_files_that_exist(cell: str) -> None:
    """After the first path of a cell, others may be relative to one of the folders before them."""
    folders = list(ROOTS)
    for name in _FILE.findall(cell):
        found = next((folder / name for folder in reversed(folders) if (folder / name).exists()), None)
        assert found is not None, f"CONTRIBUTING.md: {name} does not exist"
        folders += [found.parent, *([found] if found.is_dir() else [])]


@pytest.mark.parametrize("name", ["normalizers", "pooling", "windows"])
def test_another_mechanism_fits_into_its_file(name: str) -> None:
    """A contributor who adds one of 50 lines must not have to split the file first."""
    text = (ROOTS[0] / "attention" / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) + 50 <= 300
