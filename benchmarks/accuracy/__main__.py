"""Reproduce a published table of character transduction: train on each language in a folder and compare.

The folder has the official layout of the shared task. Each run is a process with one thread. Repeating the
same command continues what was stopped, and skips what is finished.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.files.writing import write_atomically
from benchmarks.accuracy.runs import ROOT, Runs
from benchmarks.accuracy.table import table
from benchmarks.accuracy.tasks import TASKS, languages
from benchmarks.arguments import positive


def main(arguments: list[str] | None = None) -> int:
    """Run the task that the command line names; returns the exit status."""
    options = _parser().parse_intermixed_args(arguments)
    task = TASKS[options.task]
    output = options.output or ROOT / "logs" / "accuracy" / options.task
    runs = Runs(task, output, options.seeds, options.kind or task.kinds, options.overrides)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        found = languages(task, options.data, options.size)
        if options.languages:
            found = [language for language in found if language.name in options.languages]
            if missing := set(options.languages) - {language.name for language in found}:
                raise LabError(f"--languages: {', '.join(sorted(missing))} not in {options.data}")
        output.mkdir(parents=True, exist_ok=True)
        failed = [] if options.table else runs.run(found, options.jobs)
        text = table(runs, found)
        write_atomically(output / "table.md", text)
    except (LabError, OSError) as error:
        print(f"benchmarks.accuracy: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks.accuracy: stopped; the same command continues", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    print(text)
    for line in failed:
        print(f"benchmarks.accuracy: {line}", file=sys.stderr)
    return 1 if failed else 0


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=(__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument(
        "overrides", nargs="*", help="further options of train.py, such as trainer.max_epochs=5"
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder with the task's files"
    )
    parser.add_argument(
        "--size", choices=("low", "medium", "high"), default="medium", help="size of the training sets"
    )
    parser.add_argument(
        "--languages", nargs="+", metavar="NAME", help="only these (default: all in the folder)"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2], metavar="N", help="seeds of each kind (default: 1 2)"
    )
    parser.add_argument(
        "--kind",
        action="append",
        metavar="OPTIONS",
        help="options of a kind of model in the ensemble, as 'pooling=monotonic model.dropout=0.3'; "
        "repeat it for each kind (default: the kinds of the task)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one per core)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="for the runs (default: logs/accuracy/TASK)"
    )
    parser.add_argument(
        "--table", action="store_true", help="train nothing, only print the table of finished runs"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
