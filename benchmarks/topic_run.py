"""Run one topic: measure its comparisons and growths, and write its section of the results."""

from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path

import torch

from attention_lab.errors import LabError
from attention_lab.files.writing import write_atomically
from benchmarks.measuring import report
from benchmarks.measuring.growth import grow
from benchmarks.measuring.harness import CALM, SAMPLE, measure
from benchmarks.measuring.machine import ceiling, device_name, driver_version
from benchmarks.measuring.picture import draw_growth
from benchmarks.topics import RESULTS, load, results_name, topics

say = partial(print, flush=True)


def run(
    topic: str,
    *,
    device: str = "auto",
    quick: bool = False,
    repeats: int = 7,
    threads: int | None = None,
    output: Path | None = None,
) -> None:
    """Measure a topic and write its section to the results; a quick run without `output` only prints it.

    Raises:
        LabError: the device does not exist, or the results cannot be written.
    """
    if threads:
        torch.set_num_threads(threads)
    where = _device(device)
    # The sizes of a topic share code; after 8 compilations of it, PyTorch would no longer compile.
    torch._dynamo.config.recompile_limit = 64
    target = output or (
        None if quick else RESULTS / results_name("cpu" if where.type == "cpu" else device_name(where))
    )
    say(f"{topic}: {topics()[topic]}")
    module, written = load(topic), _Section(topic, where, target)
    sample, calm = (0.0, 1.0) if quick else (SAMPLE, CALM if where.type == "cpu" else 1.0)
    for comparison in getattr(module, "comparisons", _none)(where, quick):
        say(f"\n{comparison.title}")
        can = ceiling(where)
        rows = measure(comparison, repeats, device=where, sample=sample, calm=calm, say=_indented)
        written.add(report.comparison_table(comparison, rows, can))
    for place, growth in enumerate(getattr(module, "growth", _none)(where, quick)):
        say(f"\n{growth.title}")
        can = ceiling(where)
        measured = list(grow(growth, repeats, device=where, sample=sample, calm=calm, say=_indented))
        name = f"{target.stem.lower()}-{topic}-{place + 1}.png" if target else ""
        picture = {name: draw_growth(growth, measured)} if name else {}
        written.add(report.growth_table(growth, measured, can, name), picture)
    for table in getattr(module, "tables", _none)(where, quick):
        told = report.own_table(table, ceiling(where))
        say(f"\n{told}")
        written.add(told)
    if target is None:
        say(f"\n{written.text}")
    else:
        written.write()
        say(f"\n{topic}: written to {target}")


class _Section:
    """The section of a topic: a new one is written after each table, an old one replaced once all is done."""

    def __init__(self, topic: str, device: torch.device, target: Path | None) -> None:
        self.topic, self.target, self.setting = topic, target, _setting(device)
        self.tables: list[str] = []
        self.pictures: dict[str, bytes] = {}
        self.new = target is not None and not report.has_section(report.read(target), topic)

    @property
    def text(self) -> str:
        return report.section(self.topic, topics()[self.topic], self.setting, self.tables)

    def add(self, table: str, pictures: Mapping[str, bytes] | None = None) -> None:
        self.tables.append(table)
        self.pictures.update(pictures or {})
        if self.new:
            self.write()

    def write(self) -> None:
        assert self.target is not None
        try:
            for name, picture in self.pictures.items():
                write_atomically(self.target.with_name(name), picture)
            write_atomically(self.target, report.merge(report.read(self.target), self.topic, self.text))
        except LabError:
            say(f"\n{self.text}")
            raise LabError(f"cannot write {self.target}: the section is printed above instead") from None


def _none(device: torch.device, quick: bool) -> tuple[()]:
    return ()


def _indented(line: str) -> None:
    say(f"  {line}")


def _device(name: str) -> torch.device:
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise LabError("--device cuda: PyTorch sees no GPU here; use --device cpu")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def _setting(device: torch.device) -> str:
    threads = f"{torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
    more = f" driver {driver_version()}," if device.type == "cuda" else ""
    return f"{date.today():%Y-%m-%d}, PyTorch {torch.__version__}, {device_name(device)},{more} {threads}."
