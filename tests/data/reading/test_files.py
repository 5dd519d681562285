import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from attention_lab.data import LabelledImages
from attention_lab.data.reading import files
from attention_lab.data.reading.files import Row, parse_number, read_columns, read_csv, read_text
from attention_lab.errors import LabError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "given.txt"


def refusal(file: Path, content: bytes, columns: list[str] | None = None) -> str:
    """The one line that says what is wrong, after the name of the file."""
    file.write_bytes(content)
    with pytest.raises(LabError) as caught:
        read_csv(str(file), columns) if columns else read_columns(str(file), ("source", "target"))
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(file))
    return text.removeprefix(str(file))


CHOOSE = "; choose columns with data.inputs=[...] and data.target=..."


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_unreadable_files(file: Path, tmp_path: Path, columns: list[str] | None) -> None:
    assert refusal(file, b"", columns) == ": the file is empty"
    assert refusal(file, b"\xef\xbb\xbf\r\n\n", columns) == ": the file is empty"
    assert refusal(file, b"x\ty\nx\t\xff\n", columns).startswith(":2: not UTF-8; save the file")
    save = "; save the file with the encoding UTF-8"
    assert refusal(file, b"x\ty\xe9", columns) == f":1: not UTF-8{save}"
    assert refusal(file, "x\ty".encode("utf-16"), columns) == f": not UTF-8, but UTF-16{save}"
    assert (
        refusal(file, b"\xfe\xff" + "x\ty".encode("utf-16-be"), columns) == f": not UTF-8, but UTF-16{save}"
    )
    for encoding in ("utf-16-le", "utf-16-be"):  # without a byte order mark
        assert refusal(file, "x\ty\n".encode(encoding), columns) == f": not UTF-8, but UTF-16{save}"
    assert "UTF-16" not in refusal(file, bytes(100), columns)  # as a crash may leave a file
    packed = ": not UTF-8, but compressed by gzip; unpack it first"
    assert refusal(file, gzip.compress(b"x\ty\n", mtime=0), columns) == packed
    with pytest.raises(LabError, match=r"^absent\.tsv: No such file or directory \(looked for it from /"):
        read_text("absent.tsv")
    with pytest.raises(LabError, match=r"/absent\.tsv: No such file or directory$"):
        read_text(str(tmp_path / "absent.tsv"))
    with pytest.raises(LabError, match=r"it is a directory, not a regular file$"):
        read_text(str(tmp_path))


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_an_archive_has_no_lines(file: Path, columns: list[str] | None) -> None:
    """Nor need it be invalid UTF-8: this one is valid, and has two line feeds, which are the time 1:16:20."""
    entry = zipfile.ZipInfo("sheet.xml", (2026, 11, 27, 1, 16, 20))
    entry.external_attr = 1
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(entry, "al")
    archived = file.read_bytes()
    assert "\n\n" in archived.decode()
    sheet = ": not UTF-8, but a ZIP archive or a spreadsheet; save its text as a file of its own"
    assert refusal(file, archived, columns) == sheet


def test_byte_order_mark_and_line_ends(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\n\r\n")
    assert read_columns(str(file), ("source", "target")) == [
        Row(f"{file}:1", "a", "b"),
        Row(f"{file}:2", "c", "d"),
    ]
    file.write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n")
    assert read_csv(str(file), ["x"]) == [[1.0]]


def test_unusual_characters_end_no_line(file: Path) -> None:
    file.write_text("a\u2028b\tc\x0bd\n", encoding="utf-8")
    assert read_columns(str(file), ("source", "target")) == [Row(f"{file}:1", "a\u2028b", "c\x0bd")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\tb\nc d\n", ":2: no tabs, but one is needed: source<TAB>target"),
        (b"a\tb\n\nc\td\n", ":2: the line is empty; remove it, or write source<TAB>target"),
        (
            b"a\tb\tc\n",
            ":1: 2 tabs, but one is needed: source<TAB>target; cut -f1-2 keeps the first columns",
        ),
        (
            b"a\tb\nc\td\te\n",
            ":2: 2 tabs, but one is needed: source<TAB>target; write a space for a tab within a column",
        ),
        (
            b"\tsource\ttarget\n0\ta\tb\n",
            ":1: 2 tabs, but one is needed: source<TAB>target; cut -f2- leaves out the first column",
        ),
        (b"a\tb\n \tb\n", ":2: the source is empty; a line is source<TAB>target"),
        (b"a\t\n", ":1: the target is empty; a line is source<TAB>target"),
    ],
)
def test_lines_of_another_form(file: Path, content: bytes, expected: str) -> None:
    assert refusal(file, content) == expected


@pytest.mark.parametrize("name", ["my.csv", "MY.JSONL", "my.json"])
def test_a_file_of_another_kind_is_to_be_converted(tmp_path: Path, name: str) -> None:
    """The error about a missing tab did not say what to do with such a file."""
    found = refusal(tmp_path / name, b'{"text": "a", "label": "b"}\n')
    kind = name.rpartition(".")[2].lower()
    assert found == (
        f":1: no tabs, but one is needed: source<TAB>target; docs/guides/own-data.md shows how to convert a "
        f".{kind} file"
    )


def test_a_folder_of_images_is_to_be_listed(tmp_path: Path) -> None:
    """The error said only that it was not a regular file."""
    with pytest.raises(LabError) as raised:
        LabelledImages(file=str(tmp_path)).setup()
    assert str(raised.value) == (
        f"{tmp_path}: it is a directory, not a regular file: list its images in a file of label<TAB>image "
        "lines, as docs/guides/own-data.md shows"
    )


def test_more_rows_than_fit_in_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row takes 230 bytes, and as few as four in the file."""
    monkeypatch.setattr(files, "MOST_ROWS", 3)
    file.write_text("x,y\n" + "1,2\n" * 2)
    assert len(read_csv(str(file), ["x"])) == 2
    file.write_text("x,y\n" + "1,2\n" * 3)
    with pytest.raises(LabError, match=rf"^{file}: it has more than 3 lines: use only a part of it$"):
        read_csv(str(file), ["x"])
    file.write_text("a\tb\n" * 4)
    with pytest.raises(LabError, match=rf"^{file}: it has more than 3 lines: use only a part of it$"):
        read_columns(str(file), ("source", "target"))


@pytest.mark.parametrize(
    ("read", "line", "needed"),
    [
        (read_text, "a b\n", 25 * 4),
        (lambda path: read_text(path, files.WORDS), "a b\n", 32 * 4),
        (lambda path: read_columns(path, ("source", "target")), "a\tb\n", 30 * 4 + 900),
        (lambda path: read_csv(path, ["1"]), "1,2\n", 10 * 4 + 430),
    ],
)
def test_a_file_that_needs_more_memory_than_there_is(
    read: Callable[[str], object], line: str, needed: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte and a line of a file take several times their size, as measured for each kind of data."""
    file.write_text(line * 10_000)
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: needed * 10_000)
    read(str(file))
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: needed * 10_000 - 1)
    with pytest.raises(
        LabError, match=r"given.txt: .* about \d+ MiB of memory, .* has \d+ MiB: use only a part"
    ):
        read(str(file))


def test_accents_without_end_are_named_with_their_line(file: Path) -> None:
    file.write_text(f"a\tb\nc\te{chr(0x301) * 1001}\n", encoding="utf-8")
    with pytest.raises(LabError, match=rf"^{file}:2: more than 1000 accents on one letter$"):
        read_columns(str(file), ("source", "target"))


def test_csv_columns_are_found_by_name(file: Path) -> None:
    file.write_text('id, y, "x, of it"\n"a", 1e-3, 2\nb,-1, " 3 "\n')
    assert read_csv(str(file), ["x, of it", "y"]) == [[2.0, 0.001], [3.0, -1.0]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x,z\n1,2\n", f":1: column 'y' is not in the header: x, z{CHOOSE}"),
        (
            b"x;y\n1;2\n",
            ":1: column 'x' is not in the header: x;y; columns must be separated by commas, not ';'",
        ),
        (
            b"0.5,1e3\n1,2\n",
            ":1: column 'x' is not in the header: 0.5, 1e3; "
            "the first line must name the columns, such as x,y",
        ),
        (b"x,y,x\n1,2,3\n", f":1: column 'x' is twice or more in the header: x, y, x{CHOOSE}"),
        (b"x,y\n1,2\n3\n", ":3: 1 field, but the header has 2"),
        (b"x,y\n1,2\n\n3,4\n", ":3: no fields, but the header has 2"),
        (b"x,y\n1,2,3\n", ":2: 3 fields, but the header has 2"),
        (b"x,y\n1,2\n3,tall\n", ":3: column 'y': 'tall' should be a finite number, such as 1.5"),
        (b"x,y\n1,\n", ":2: column 'y': '' should be a finite number, such as 1.5"),
        (b"x,y\n1,1_0\n", ":2: column 'y': '1_0' should be a finite number, such as 1.5"),
        (b"x,y\n1,nan\n", ":2: column 'y': 'nan' should be a finite number, such as 1.5"),
        (b"x,y\n-inf,1\n", ":2: column 'x': '-inf' should be a finite number, such as 1.5"),
        (
            b"x,y\n1e39,1\n",
            ":2: column 'x': '1e39' is too large: give numbers below 3.4e+38, in a larger unit",
        ),
        (b"x,y\n", ":2: no rows below the header"),
        (b'x,y\n1,2\n"3,4\n', ":3: unexpected end of data; close every quote"),
        (
            b"x,y\n1,2\n3," + b"4" * 140_000,
            ":3: a field has more than 131,072 characters: shorten it, or close its quote",
        ),
    ],
)
def test_bad_csv(file: Path, content: bytes, expected: str) -> None:
    assert refusal(file, content, ["x", "y"]) == expected


@pytest.mark.parametrize("names", [["x"] * 5000, ["x" * 100_000], [f"column_{n}" for n in range(5000)]])
def test_a_long_header_is_shown_in_part(file: Path, names: list[str]) -> None:
    found = refusal(file, f"{','.join(names)}\n".encode(), ["y"])
    assert len(found) < 1500
    assert found.endswith(CHOOSE)


@pytest.mark.parametrize("long", [b"ab ," * 30 + b"\n1\n", b"x\n" + b"1," * 60, b"x\n" + b'"1\n",' * 30])
def test_a_row_so_long_that_its_fields_fill_the_memory(
    long: bytes, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_ROW", 100)
    file.write_bytes(b"x\n" + b"1\n" * 100)
    assert len(read_csv(str(file), ["x"])) == 100
    file.write_bytes(long)
    with pytest.raises(LabError, match=rf"^{file}:\d+: the row is longer than 100 characters$"):
        read_csv(str(file), ["x"])


def test_a_long_wrong_field_is_shown_in_part() -> None:
    with pytest.raises(LabError) as caught:
        parse_number("no\nnumber " * 1000)
    assert len(str(caught.value)) < 100
    assert "\n" not in str(caught.value)
