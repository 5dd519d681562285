"""What was measured, as Markdown tables."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from benchmarks import topic_run
from benchmarks.measuring import report
from benchmarks.measuring.harness import Comparison, Least, Method, Row, measure

MIB = 2**20


def test_a_table_reads_well() -> None:
    comparison = Comparison("sizes", [], reference=list, work=(1000.0, "tokens/s"), note="A note.")
    rows = [
        Row("textbook", 2.0, 1.0, (1.0, 1.0), 3.5 * 2**30, 4.2e-7),
        Row("ours", 0.0123, 162.6, (150.2, 170.1), 12.4 * MIB, None),
        Row("peer", trouble="not installed"),
    ]
    assert report.comparison_table(comparison, rows, {"GF/s f32 GEMM": 251.3}) == (
        "### sizes\n\n"
        "| method | times faster | time | extra memory | error | tokens/s |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| textbook | 1.0 (1.0 to 1.0) | 2.00 s | 3.5 GiB | 4e-7 | 500 |\n"
        "| ours | 163 (150 to 170) | 12.3 ms | 12 MiB | - | 81,301 |\n"
        "| peer | - | not installed | - | - | - |\n\n"
        "A note.\nThe machine then: 251 GF/s f32 GEMM."
    )


def test_a_rate_is_compared_with_the_rate_of_the_machine() -> None:
    can = {"TF/s bf16 GEMM": 800.0, "GB/s copied": 2000.0}  # and as much read as written
    assert report.share(Least(4e14), 1.0, can) == "50% of GEMM"
    assert report.share(Least(4e14, moved=3e12), 1.0, can) == "75% of copying"
    assert report.share(Least(1e9, gemm="GF/s f32 GEMM"), 0.1, can | {"GF/s f32 GEMM": 50.0}) == "20% of GEMM"
    comparison = Comparison("sizes", [], least=Least(4e14))
    rows = [Row("ours", 1.0, 1.0, (1.0, 1.0)), Row("peer", trouble="not installed")]
    table = report.comparison_table(comparison, rows, can).splitlines()
    assert table[2].endswith("| TFLOP/s | of the machine's |")
    assert table[4].endswith("| 400 | 50% of GEMM |")
    assert table[5] == "| peer | - | not installed | - | - | - |"


@pytest.mark.long
@pytest.mark.parametrize("old", [False, True])
def test_of_a_topic_that_is_cut_short_the_finished_tables_stay(
    old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old section stays whole, instead."""
    target = tmp_path / "RESULTS.md"
    if old:
        target.write_text(report.merge("", "linear", report.section("linear", "A.", "then", ["old table"])))

    def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
        yield Comparison("finished", [Method("a", lambda: lambda: [torch.ones(1)])])
        raise KeyboardInterrupt

    monkeypatch.setattr(topic_run, "load", lambda _: SimpleNamespace(comparisons=comparisons))
    monkeypatch.setattr(topic_run, "ceiling", lambda _: {"GF/s": 7.0})
    with pytest.raises(KeyboardInterrupt):
        topic_run.run("linear", device="cpu", quick=True, repeats=1, output=target)
    written = target.read_text()
    assert ("old table" in written, "### finished" in written) == (old, not old)


@pytest.mark.long
def test_without_room_for_a_reference_only_the_errors_are_missing() -> None:
    def reference() -> list[Tensor]:
        raise torch.OutOfMemoryError

    lines: list[str] = []
    comparison = Comparison("", [Method("a", lambda: lambda: [torch.ones(1)])], reference=reference)
    (row,) = measure(comparison, 1, sample=0.0, calm=1.0, say=lines.append)
    assert row.error is None and not row.trouble
    assert lines[0] == "no errors are given, as there is no reference: out of memory"
