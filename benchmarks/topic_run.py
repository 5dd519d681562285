"""Run one topic: measure its contests and growths, and write its section of the results."""

from datetime import date
from functools import partial
from pathlib import Path

import torch

from attention_lab.errors import LabError
from attention_lab.writing import write_atomically
from benchmarks import report
from benchmarks.growth import grow
from benchmarks.harness import CALM, SAMPLE, measure
from benchmarks.machine import ceiling, device_name, driver_version
from benchmarks.picture import draw_growth
from benchmarks.topics import HERE, load, results_name, topics

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
        None if quick else HERE / results_name("cpu" if where.type == "cpu" else device_name(where))
    )
    say(f"{topic}: {topics()[topic]}")
    module, tables = load(topic), []
    pictures: dict[str, bytes] = {}
    sample, calm = (0.0, 1.0) if quick else (SAMPLE, CALM)
    for contest in getattr(module, "contests", _none)(where, quick):
        say(f"\n{contest.title}")
        can = ceiling(where)
        rows = measure(contest, repeats, device=where, sample=sample, calm=calm, say=_indented)
        tables.append(report.contest_table(contest, rows, can))
    for place, growth in enumerate(getattr(module, "growth", _none)(where, quick)):
        say(f"\n{growth.title}")
        can = ceiling(where)
        measured = list(grow(growth, repeats, device=where, sample=sample, calm=calm, say=_indented))
        name = f"{target.stem.lower()}-{topic}-{place + 1}.png" if target else ""
        if name:
            pictures[name] = draw_growth(growth, measured)
        tables.append(report.growth_table(growth, measured, can, name))
    for table in getattr(module, "tables", _none)(where, quick):
        tables.append(report.own_table(table, ceiling(where)))
        say(f"\n{tables[-1]}")
    text = report.section(topic, topics()[topic], _setting(where), tables)
    if target is None:
        say(f"\n{text}")
        return
    try:
        for name, picture in pictures.items():
            write_atomically(target.with_name(name), picture)
        write_atomically(target, report.merge(report.read(target), topic, text))
    except LabError:
        say(f"\n{text}")
        raise LabError(f"cannot write {target}: the section stands above instead") from None
    say(f"\n{topic}: written to {target}")


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
