"""No cell of a CSV file is a formula, however a spreadsheet reads it; numbers stay numbers."""

import csv
import io
import re
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attention_lab
from attention_lab.console_text import console_message, counted, printable, without_controls
from attention_lab.text_tables import (
    ESCAPES,
    csv_text,
    markdown_code,
    markdown_table,
    markdown_text,
    metric_name,
    number,
    numbers_like,
    safe_cell,
    unescape,
    with_interval,
)

ORDINARY = "می\u200cخواهم क्\u200dष e\u0301 \u06dd١ 汉字 👩\u200d🔬 नमस्ते"
"""Text with joiners, combining marks and an Arabic sign that encloses a number."""
BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = "\t\r\n\x00\ufeff\u200b\u00a0\u2060\u00ad\u034f\ufe0f\u2028 \u3000\u3164\u2800\ufffd\"'"
SIGNS = "=+-@|＝＋－＠｜﹦﹢﹣﹫⁼⁺⁻₌₊₋−⩵"
SEPARATORS = ",;|\t；，"


@pytest.mark.parametrize(
    "text",
    [
        *(" =1+1", "＝1+1", "=1+1", "\x00=1+1", "\ufeff=1+1", "\u200b=1+1"),
        *("+1+1", "-1+1", "@SUM(A1)", "|calc", "=cmd|' /C calc'!A0", '"=1+1', "-", "- 1", "-inf", "+nan"),
        *("\u3000＋1＋1", "−1+1", "⁼1", "\u00a0\u034f-1+1", "--1", "-1,5", "-１", "-1_000", "- 0.5", "-0x1"),
    ],
)
def test_what_a_spreadsheet_would_compute_gets_an_apostrophe(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (";=1+1", ";'=1+1"),
        ("\t=1+1", "'\t'=1+1"),
        ("\r\n=1+1", "'\r\n'=1+1"),
        ("a;=1+1", "a;'=1+1"),
        ("a, =1;\ufeff＝1", "a,' =1;'\ufeff＝1"),
        ("a\t@b|+c", "a\t'@b|'+c"),
    ],
)
def test_a_formula_after_a_separator_gets_an_apostrophe_too(text: str, safe: str) -> None:
    assert safe_cell(text) == safe


@pytest.mark.parametrize(
    "value",
    [
        *("-0.5", "+0.5", "-1", "1e-3", "-.5", "-5.", "-1.5E+10", "0", ""),
        *("dot", "lr=0.1", "a-b", "a = b", "x@y", "encoder|decoder", "[1,2]", "(-1)", "1-1", "a, b", "日本"),
        *(-0.5, 3, None, True),
    ],
)
def test_honest_values_stay_as_they_are(value: object) -> None:
    assert safe_cell(value) == value


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_every_number_stays_a_number(number: float) -> None:
    assert safe_cell(number) == number
    assert safe_cell(str(number)) == str(number)


def _computes(field: str) -> bool:
    """Whether a careless spreadsheet would take a field for a formula: the rules, written another way."""
    plain = unicodedata.normalize("NFKC", field)
    shown = re.sub(rf"^[\s{re.escape(HIDDEN.replace(chr(39), ''))}\u0300-\u036f]+", "", plain)
    number = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", field, re.ASCII)
    return shown[:1] in tuple("=+-@|\u2212") and not number


ALPHABET = st.sampled_from(HIDDEN + SIGNS + SEPARATORS + "1a.e")
TEXTS = st.text(ALPHABET, max_size=12) | st.text(max_size=12)


@given(TEXTS)
def test_no_text_is_a_formula_wherever_it_is_parted(text: str) -> None:
    safe = safe_cell(text)
    number = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text, re.ASCII)
    fields = [safe] if number else re.split(r"[,;|\t\r\n；，｜]", safe)
    assert not any(map(_computes, fields))
    assert re.sub("'", "", safe) == re.sub("'", "", text)  # nothing else has changed


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_file_has_the_same_cells_for_who_reads_commas(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert read == [[safe_cell(re.sub("[\r\n]", " ", cell)) for cell in row] for row in rows]


@pytest.mark.parametrize(
    "hidden", ["\n", "\x1b", "\x9b", "\x7f", "\u200b", "\u2028", "\ue000", "\ud800", *BIDIRECTIONAL]
)
def test_what_is_printed_moves_no_cursor_and_hides_nothing(hidden: str) -> None:
    assert printable(f"a{hidden}b") == "a\ufffdb"


@pytest.mark.parametrize("control", ["\r", "\x1b", "\x9b", "\x7f", "\0", "\u2028", "\ud800", *BIDIRECTIONAL])
def test_a_predicted_text_controls_no_terminal(control: str) -> None:
    assert without_controls(f"a{control}b\tc") == "a\ufffdb\tc"


def test_of_all_characters_only_those_that_control_are_replaced() -> None:
    kinds = ("Cc", "Cs", "Zl", "Zp")
    replaced = {one for one in map(chr, range(sys.maxunicode + 1)) if without_controls(one) != one}
    controls = {one for one in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(one) in kinds}
    assert replaced == (controls | {*BIDIRECTIONAL}) - {"\t"}


def test_ordinary_text_stays() -> None:
    assert printable(ORDINARY) == without_controls(ORDINARY) == ORDINARY
    assert without_controls("ក\u200bខ \ue000 \u200e") == "ក\u200bខ \ue000 \u200e"  # in Khmer, private, a mark


def test_a_message_is_one_short_line() -> None:
    assert (
        console_message("Error", "a.tsv:2: \x1b]0;x\x07\n there") == "Error: a.tsv:2: \ufffd]0;x\ufffd  there"
    )
    assert console_message("Hint", ValueError("é")) == "Hint: é"
    assert len(console_message("Warning", "a" * 100_000)) < 10_000


def test_every_message_on_the_console_is_made_by_one_function() -> None:
    source = Path(attention_lab.__file__).parent
    files = [*source.rglob("*.py"), *(source.parent / "hydra_plugins").rglob("*.py")]
    spelled = re.compile(r"""f["'](Error|Warning|Hint|Resume): """)
    assert [path.name for path in files if spelled.search(path.read_text())] == []


def test_what_is_printed_keeps_spaces_and_is_cut() -> None:
    assert printable("汉\u3000字 é") == "汉\u3000字 é"
    assert printable("walk\tV;PST") == "walk V;PST"
    assert printable("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "no tabs"), (1, "1 tab"), (2, "2 tabs"), (1234, "1,234 tabs")]
)
def test_counted_things(count: int, shown: str) -> None:
    assert counted(count, "tab") == shown


def test_code_of_no_text_is_no_pair_of_backticks() -> None:
    assert [markdown_code(text) for text in ("", "a")] == ["", "`a`"]


def test_a_text_stays_in_its_cell() -> None:
    assert markdown_text("see www.x.org or HTTPS://x.org") == r"see www\.x.org or HTTPS:\//x.org"
    cells = [markdown_text("a|b"), markdown_text("[x](y) *z* <b>&"), markdown_code("`|`"), "`plain | code`"]
    assert markdown_table(["one", "two", "three", "four"], [cells], numbers_from=2).splitlines() == [
        "| one | two | three | four |",
        "| --- | --- | ---: | ---: |",
        r"| a\|b | \[x\](y) \*z\* &lt;b>&amp; | `'\|'` | `plain \| code` |",
    ]


@pytest.mark.parametrize(
    ("value", "ends", "shown"),
    [
        (0.02913, (0.025, 0.0341), "0.02913 [0.02500, 0.03410]"),
        (0.5, (0.4, 0.6), "0.5000 [0.4000, 0.6000]"),
        (1.0, (0.98, 1.0), "1.000 [0.980, 1.000]"),
        (12.345, (9.0, 15.7), "12.35 [9.00, 15.70]"),
        (3.0, (2.5, 3.5), "3 [2.500, 3.500]"),
        (12345.6, (12000.0, 13000.4), "12,346 [12,000, 13,000]"),
        (1e-5, (0.0, 2e-5), "1.000e-05 [0.000, 2.000e-05]"),
        (0.0, (0.0, 0.0123), "0.000 [0.000, 0.012]"),
        # an end that is not the value does not look like it
        (0.0, (0.0, 0.00037), "0.000 [0.0000, 0.0004]"),
        (1.0, (0.99963, 1.0), "1.000 [0.9996, 1.0000]"),
        (0.99996, (0.9999, 0.99999), "0.99996 [0.99990, 0.99999]"),
        (0.99999994, (0.9999999, 1.0), "1.000 [1.000, 1.000]"),
        (0.25, (0.25, 0.25), "0.2500 [0.2500, 0.2500]"),
    ],
)
def test_a_number_is_written_alike_with_and_without_its_interval(
    value: float, ends: tuple[float, float], shown: str
) -> None:
    assert with_interval(value, *ends) == shown
    assert shown.startswith(f"{number(value)} [")
    assert numbers_like(value, value) in ([number(value)], ["3"])


def test_metrics_are_named_in_words() -> None:
    names = ["test/token_error_rate", "fit/peak_memory_mb", "fit/steps_per_second", "validation/loss", "p"]
    assert [*map(metric_name, names)] == [
        *("token error rate", "peak memory (MiB)", "steps/s", "validation loss", "p")
    ]
    assert metric_name("train/loo_mse") == "train leave-one-out mse"


def test_only_the_beginning_of_an_enormous_text_is_looked_at() -> None:
    """A run's folder has values of megabytes, each of which is shown in several tables."""
    start = time.process_time()
    assert printable("\x1b" * 20_000_000, 5) == "\ufffd" * 4 + "…"
    assert time.process_time() - start < 0.5
    assert [printable("abc", most) for most in (2, 3)] == ["a…", "abc"]


def test_no_cell_of_a_file_controls_a_terminal_and_every_cell_is_read_back() -> None:
    text = "".join(map(chr, range(256))) + "می‌خواهم"
    cell = text.translate(ESCAPES)
    assert without_controls(cell) == cell and "\t" not in cell
    assert unescape(cell) == text
    assert unescape("\\x1B \\x41 \\") == "\\x1B \\x41 \\"
