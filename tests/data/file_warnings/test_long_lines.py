"""A line far longer than the others is pointed out, and one too long for any model rejected."""

from pathlib import Path

import pytest

from attention_lab.data import ImageFiles, Inflection, Labelled, Pairs, TimeSeries
from attention_lab.data.file_warnings.long_lines import long_line_hint
from attention_lab.errors import LabError


@pytest.mark.parametrize(
    ("kind", "line", "length", "median"),
    [
        (Pairs, "{row:02}{text}\tb", "6,002 source symbols", 14),
        (Pairs, "{row}\t{text}", "6,000 target symbols", 12),
        (Labelled, "{half}\t{text}{row}", "3,001 words", 7),
        (Inflection, "go{row}\t{text}\tV;PST", "6,000 target symbols", 12),
    ],
)
def test_it_is_pointed_out(kind: type[Pairs], line: str, length: str, median: int, tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    texts = ["a " * (3000 if row == 7 else 5 + row % 3) for row in range(20)]
    file.write_text(
        "\n".join(line.format(row=row, half=row % 2, text=text) for row, text in enumerate(texts))
    )
    data = kind(file=str(file))
    data.setup()
    start = f"{file}:8: {length}, although half of the lines have at most {median}: "
    assert data.hints[f"{file}:8"].startswith(start)


@pytest.mark.parametrize(
    ("kind", "line", "problem", "remedy"),
    [
        (Pairs, "{text}{row}\tb", "30,001 source symbols", "split it if it is several examples"),
        (Pairs, "{row}\t{text}", "30,000 target symbols", "split it if it is several examples"),
        (Inflection, "go{row}\t{text}\tV;PST", "30,000 target symbols", "split it if it is several examples"),
        (ImageFiles, "{row}.png\t{text}", "30,000 symbols", "split it if it is several lines of text"),
        (Labelled, "{half}\t{text}{row}", "15,001 words", "set data.max_length=15001"),
        (TimeSeries, "{half}\t{numbers}", "15,001 steps", "set data.max_length=15001"),
    ],
)
def test_one_too_long_for_any_model_is_rejected(
    kind: type[Pairs], line: str, problem: str, remedy: str, tmp_path: Path
) -> None:
    """Its batch would take memory until the program is killed."""
    file = tmp_path / "a.tsv"
    texts = ["a " * (15_000 if row == 7 else 5 + row % 3) for row in range(20)]
    file.write_text(
        "\n".join(
            line.format(row=row, half=row % 2, text=text, numbers=text.replace("a", f"{row}") + "1")
            for row, text in enumerate(texts)
        )
    )
    with pytest.raises(LabError) as caught:
        kind(file=str(file)).setup()
    allowed = "at most 10,000 are allowed"
    assert str(caught.value) == f"{file}:8: {problem}, but {allowed}: leave it out, or {remedy}"
    if kind in (Labelled, TimeSeries):
        kind(file=str(file), max_length=15_001).setup()


def test_the_longest_is_named_and_the_others_are_counted() -> None:
    places = [f"a.tsv:{row}" for row in range(1, 11)]
    lengths = [4, 5, 6, 7, 8, 5_000, 9_000, 6, 7, 5]
    line = (
        "a.tsv:7: 9,000 words, although half of the lines have at most 6: a batch with such a line takes "
        "memory and time for its length; leave it out, or split it if it is several examples"
    )
    assert long_line_hint(places, lengths, "words") == {"a.tsv:7": f"{line} (1 more such line)"}
    lengths[5] = 40
    assert long_line_hint(places, lengths, "words") == {"a.tsv:7": line}


def test_lines_of_ordinary_lengths_are_not() -> None:
    def hint(*lengths: int) -> dict[str, str]:
        return long_line_hint([f"a.tsv:{row}" for row in range(len(lengths))], lengths, "words")

    assert hint() == {}
    assert hint(5, 999, 5) == {}  # short enough for every model
    assert hint(100, 1_500, 90, 120) == {}  # not that much longer than the others
    assert hint(2_000) == {}
