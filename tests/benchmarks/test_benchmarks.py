"""The benchmarks: every topic works at tiny sizes, and the harness reports the truth."""

import gc
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, process_time, sleep

import pytest
import torch
from torch import Tensor

from benchmarks import __main__ as command
from benchmarks import topic_run
from benchmarks.measuring import harness, machine, report
from benchmarks.measuring.growth import Limits, foretell, grow
from benchmarks.measuring.harness import Comparison, Growth, Method, Row, measure
from benchmarks.measuring.machine import ceiling, extra_peak, own_seconds
from benchmarks.measuring.own_process import OwnProcess
from benchmarks.measuring.picture import draw_growth
from benchmarks.measuring.relative_error import relative_error
from benchmarks.topics import load, topics

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
MIB = 2**20
# seconds of CPU at their tiniest, and what is tested elsewhere
HEAVY = {"encoder", "kernel_estimators", "mechanisms", "training", "training_options", "windows"}
OWN = {"viewer"}


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect() -> Iterator[None]:
    """What the whole run of tests holds is not searched for garbage at every sample."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _at_once(comparison: Comparison, repeats: int = 1) -> list[Row]:
    return measure(comparison, repeats, sample=0.0, calm=1.0)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:(`torch.jit.script` is dep|After 0.17 or January 2028)")  # of peers
@pytest.mark.parametrize(
    "topic", [pytest.param(t, marks=[pytest.mark.slow] * (t in HEAVY)) for t in sorted({*topics()} - OWN)]
)
def test_a_topic_works_at_tiny_sizes(topic: str) -> None:
    module = load(topic)
    rows = [row for made in _made(module, "comparisons") for row in _at_once(made)]
    for growth in _made(module, "growth"):
        rows += [row for _, at_size in grow(growth, 1, sample=0.0, calm=1.0) for row in at_size]
    assert rows
    for row in rows:
        assert row.trouble in ("", "not installed"), row
        assert row.trouble or row.seconds > 0
        assert row.error is None or row.error < 1e-3, row


def _made(module: object, kind: str) -> list:
    maker: Callable | None = getattr(module, kind, None)
    return list(maker(CPU, True)) if maker else []


def test_topics_are_the_files_that_make_something() -> None:
    assert {"linear", "start_up"} <= set(topics())
    assert not {"harness", "growth", "report"} & set(topics())


class _Clock:
    """One that only the work of `_method` moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


clock = _Clock()


@pytest.fixture
def _fake_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "perf_counter", clock)


def _method(name: str, log: list[str], seconds: float = 0.0) -> Method:
    def work() -> Sequence[Tensor]:
        log.append(name)
        clock.now += seconds
        return [torch.ones(2)]

    return Method(name, lambda: work)


def test_methods_take_turns_after_a_warm_up() -> None:
    log: list[str] = []
    _at_once(Comparison("", [_method("a", log), _method("b", log)]), repeats=3)
    assert "".join(log) == "aa" + "bb" + "ab" * 3  # for results and memory; the samples


@pytest.mark.usefixtures("_fake_clock")
def test_the_ratio_is_against_the_first_method() -> None:
    first, second = _at_once(
        Comparison("", [_method("slow", [], 0.02), _method("quick", [], 0.005)]), repeats=3
    )
    assert first.ratio == 1.0
    assert second.ratio == pytest.approx(4.0)
    assert second.spread == pytest.approx((4.0, 4.0))


@pytest.mark.usefixtures("_fake_clock")
def test_short_work_is_repeated_within_a_sample() -> None:
    log: list[str] = []
    measure(Comparison("", [_method("a", log, 0.001)]), 1, sample=0.01, calm=1.0)
    assert len(log) == 2 + 1 + 10  # for results and memory; for their number; the sample


def test_a_disturbed_sample_is_taken_again_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.9, 0.05] + [0.9, 0.3] * 9)  # disturbed, then calm; disturbed for ever
    monkeypatch.setattr(harness, "Others", lambda: type("Fake", (), {"share": lambda _: next(shares)})())
    monkeypatch.setattr(harness, "QUIET_AFTER", 0.0)
    log: list[str] = []
    (row,) = measure(Comparison("", [_method("a", log)]), 3, sample=0.0)
    assert len(log) == 2 + 3 + 3  # as many again as samples
    assert row.disturbed == 2
    assert row.others == 0.3  # the calmest of each counts
    table = report.comparison_table(Comparison("t", []), [row], {})
    assert "others used more than 10% of the machine, up to 30%, during samples of 1 of 1 methods" in table


def test_what_cannot_run_says_why() -> None:
    def fails() -> Callable[[], Sequence[Tensor]]:
        raise AttributeError("no kernel\nfor this")

    absent = Method("peer", fails, needs="a_package_that_is_not_there")
    rows = _at_once(Comparison("", [absent, Method("broken", fails), _method("fine", [])]))
    assert [row.trouble for row in rows] == ["not installed", "AttributeError: no kernel", ""]
    assert math.isnan(rows[2].ratio)  # of the first nothing is known


def test_relative_error_is_of_the_largest_value_of_each_tensor() -> None:
    expected = [torch.tensor([1.0, 100.0]), torch.tensor([0.5])]
    assert relative_error([torch.tensor([2.0, 100.0]), torch.tensor([0.5])], expected) == pytest.approx(0.01)
    assert relative_error([torch.tensor([1.0, 100.0]), torch.tensor([0.6])], expected) == pytest.approx(0.2)
    assert relative_error([torch.tensor([1.0, math.nan]), expected[1]], expected) == math.inf
    with pytest.raises(ValueError, match="gives 1 results, the reference 2"):
        relative_error(expected[:1], expected)
    with pytest.raises(ValueError, match="result 0: shape"):
        relative_error([expected[1], expected[1]], expected)


def test_the_error_is_against_the_reference_if_a_method_is_exact() -> None:
    wrong = Method("wrong", lambda: lambda: [torch.tensor([1.0, 1.5])])
    methods = [wrong, replace(wrong, exact=False)]
    rows = _at_once(Comparison("", methods, reference=lambda: [torch.ones(2).double()]))
    assert [row.error for row in rows] == [0.5, None]


def test_results_without_a_reference_are_not_copied() -> None:
    (row,) = _at_once(Comparison("", [Method("large", lambda: lambda: [torch.empty(9**9, device="meta")])]))
    assert row.trouble == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark is Linux's")
def test_extra_memory_is_the_peak_even_of_pages_that_were_kept() -> None:
    def work() -> Tensor:
        return torch.ones(16 * MIB // 4).sum()

    small = [torch.ones(1000) for _ in range(8000)]  # 32 MiB in pieces that the allocator keeps when freed
    del small
    for _ in range(2):
        assert 15 <= (extra_peak(work, CPU) or 0) / MIB < 20


def _burn(folder: Path, another: Callable[[], bool]) -> None:
    for turn in range(2):
        assert another()
        (folder / f"{turn}").write_text(str(os.getpid()))
        end = process_time() + 0.2
        while process_time() < end:
            pass
    if another():
        raise ValueError("no third\nfor this")
    (folder / "ended").touch()


@pytest.mark.slow
def test_a_process_of_its_own_works_when_told(tmp_path: Path) -> None:
    work = OwnProcess(partial(_burn, tmp_path))
    assert not list(tmp_path.iterdir())
    before = own_seconds() - process_time()
    assert [*work(), *work()] == []
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text() != str(os.getpid())
    alive = own_seconds() - process_time()
    assert alive - before == pytest.approx(0.4, abs=0.1)
    for said in (r"^in its process: ValueError: no third\nTraceback", "^its process ended .* status 1$"):
        with pytest.raises(RuntimeError, match=said):
            work()
    assert own_seconds() - process_time() > alive - 0.05  # what it used is not forgotten


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["del work; assert ended.exists()", "sys.exit()", "os.kill(os.getpid(), 9)"]
)
def test_a_process_of_its_own_ends_with_its_object_and_its_parent(method: str, tmp_path: Path) -> None:
    script = (
        "from tests.benchmarks.test_benchmarks import OwnProcess, Path, _burn, os, partial, sys\n"
        f"ended = Path({str(tmp_path / 'ended')!r}); work = OwnProcess(partial(_burn, ended.parent))\n"
        f"work(); work(); {method}"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check="kill" not in method, timeout=120)
    end = monotonic() + 10
    while not (tmp_path / "ended").exists():
        assert monotonic() < end
        sleep(0.05)


def test_the_ceiling_of_this_machine_is_positive() -> None:
    found = ceiling(CPU)
    assert list(found) == ["GF/s f32 GEMM", "GB/s copied", "G/s exp in cache"]
    assert all(value > 0 for value in found.values())


def test_growth_is_foretold_by_the_last_power() -> None:
    assert foretell([(10, 1.0)], 20) == 4.0
    assert foretell([(10, 1.0), (20, 8.0)], 40) == pytest.approx(64.0)
    assert foretell([(10, 1.0), (20, 2.0)], 40) == pytest.approx(4.0)
    assert foretell([(10, 2.0), (20, 1.0)], 40) == 1.0


@pytest.mark.usefixtures("_fake_clock")
def test_a_method_stops_growing_where_it_would_take_too_long(tmp_path: Path) -> None:
    def methods(size: int) -> list[Method]:
        return [_method("square", [], 1e-4 * size**2), _method("linear", [], 1e-4 * size)]

    growth = Growth("title", "n", (10, 20, 40, 80), methods)
    measured = list(grow(growth, 1, limits=Limits(seconds=0.1), sample=0.0, calm=1.0))
    assert [n for n, _ in measured] == [10, 20, 40, 80]
    assert [bool(rows[0].trouble) for _, rows in measured] == [False, False, True, True]
    assert not any(rows[1].trouble for _, rows in measured)
    assert [measured[i][1][0].trouble for i in (2, 3)] == ["about 0.16 s", "about 0.64 s"]
    assert draw_growth(growth, measured).startswith(b"\x89PNG")
    table = report.growth_table(growth, measured, {}, "a.png").splitlines()
    assert table[2] == "![title](a.png)"
    assert table[4] == "| n | square | linear |"
    assert table[8].startswith("| 40 | about 0.16 s | 4.00 ms, ")


def test_a_run_replaces_its_own_section_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = report.merge("", "linear", report.section("linear", "Old.", "today", ["old table"]))
    text = report.merge(text, "windows", report.section("windows", "Kept.", "today", ["kept table"]))
    target = tmp_path / "RESULTS.md"
    target.write_text(text)
    fake = type(
        "Topic",
        (),
        {"comparisons": staticmethod(lambda device, quick: [Comparison("new", [_method("a", [])])])},
    )
    monkeypatch.setattr(topic_run, "load", lambda _: fake)
    monkeypatch.setattr(topic_run, "ceiling", lambda _: {"GF/s": 7.0})
    topic_run.run("linear", device="cpu", quick=True, repeats=1, output=target)
    written = target.read_text()
    assert "old table" not in written
    assert "### new" in written
    assert "The machine then: 7.0 GF/s." in written
    assert written.index("topic: linear") < written.index("topic: windows")
    assert written.count("kept table") == written.count("# Benchmarks\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lineal"], "benchmarks: no such topic: lineal; there are "),
        (["linear", "--output", "/no/such/a.md"], "benchmarks: --output: cannot write to /no/"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_help_names_the_topics_and_imports_no_torch() -> None:
    script = (
        "import sys; from benchmarks.__main__ import main\n"
        "try: main(['--help'])\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    )
    shown = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert all(topic in shown for topic in topics())
