"""Run the commands of contract.md and print which of its promises hold.

    python docs/contract.py            all promises, some hours on two cores
    python docs/contract.py 7 22 23    only these rows
    python docs/contract.py --jobs 2   two commands at a time, each on its share of the cores

Each command runs exactly as written there, in its own folder under logs/contract. The exit status is 1 if
any promise does not hold.
"""

import argparse
import json
import operator
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "logs" / "contract"
COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class Promise(NamedTuple):
    """A line of the table."""

    row: str
    what: str
    command: str
    condition: str

    @property
    def arguments(self) -> list[str]:
        """The command's words, as a shell splits it."""
        return shlex.split(self.command)


def promises(rows: list[str]) -> list[Promise]:
    """The lines of the table, or only those of the given rows."""
    lines = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if re.match(r"\| \d", line)
    ]
    found = [
        Promise(row, what, command.strip("`"), (*rest, "")[0].strip("`| "))
        for row, what, command, *rest in cells
    ]
    return [promise for promise in found if not rows or promise.row in rows]


def run(promise: Promise, folder: Path, threads: int) -> tuple[bool, str]:
    """Whether a promise holds, and the evidence for it."""
    program, *arguments = promise.arguments
    if program == "python":
        sweeps = {f"experiment={name}" for name in ("crossover", "crossover_digits", "efficiency")}
        sweep = not sweeps.isdisjoint(arguments)
        arguments.append(f"hydra.{'sweep' if sweep else 'run'}.dir={folder}")
        command = [sys.executable, *arguments]
    else:
        command = [sys.executable, "-m", program, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "console.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return False, lines[-1] if lines else f"exit status {done.returncode}"
    return met(promise.condition, folder)


def met(condition: str, folder: Path) -> tuple[bool, str]:
    """Whether a run's folder meets a condition, and what was found."""
    if not condition:
        return True, "exit status 0"
    if " and " in condition:
        results = [met(part, folder) for part in condition.split(" and ")]
        return all(holds for holds, _ in results), ", ".join(seen for _, seen in results)
    comparison = re.fullmatch(r"(\S+) (<=|>=|<|>) (\S+)", condition)
    if comparison is None:
        files = sorted(folder.glob(condition))
        return bool(files), f"{len(files)} files" if files else f"no {condition}"
    name, sign, limit = comparison.groups()
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    if metrics.get(name) is None:
        return False, f"no {name} in metrics.json"
    return COMPARE[sign](metrics[name], float(limit)), f"{name.rpartition('/')[2]} {metrics[name]:.4g}"


def main() -> int:
    """Run the rows named on the command line, or all."""
    parser = argparse.ArgumentParser(description="Run the commands of contract.md.")
    parser.add_argument("rows", nargs="*", help="numbers of rows; none: all")
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time")
    options = parser.parse_args()
    chosen = promises(options.rows)
    if not chosen:
        sys.exit(f"Error: contract.md has no row {' '.join(options.rows)}")
    folder = OUTPUT / time.strftime("%Y-%m-%d_%H-%M-%S")
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    console, table = Console(), Table("#", "promise", "result", "holds", "seconds")

    def judge(number: int) -> tuple[bool, str, float]:
        begun = time.perf_counter()
        promise = chosen[number]
        holds, seen = run(promise, folder / f"{number:02d}_row_{promise.row}", threads)
        seconds = time.perf_counter() - begun
        console.print(
            f"{promise.row:>3}  {'yes' if holds else 'NO '}  {seconds:4.0f} s  {promise.command}",
            highlight=False,
            soft_wrap=True,
        )
        return holds, seen, seconds

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(judge, range(len(chosen))))
    for promise, (holds, seen, seconds) in zip(chosen, results, strict=True):
        mark = "[green]yes[/]" if holds else "[red]no[/]"
        table.add_row(promise.row, promise.what, seen, mark, f"{seconds:.0f}")
    console.print(table)
    held = sum(holds for holds, _, _ in results)
    console.print(f"{held} of {len(results)} hold; outputs in {folder}")
    return int(held < len(results))


if __name__ == "__main__":
    sys.exit(main())
