"""Compare speed, memory and error of our parts with textbook code and peers, and write a Markdown file.

One command runs all topics, each in a separate process, and writes benchmarks/RESULTS.md (on a GPU,
RESULTS.<its name>.md). If only some topics are run, only their sections are replaced.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from attention_lab.errors import LabError
from benchmarks.arguments import positive
from benchmarks.topics import RESULTS, topics


def main(arguments: list[str] | None = None) -> int:
    """Run the topics that the command line names; returns the exit status."""
    found = topics()
    options = _parser(found).parse_args(arguments)
    chosen = options.topics or list(found)
    if unknown := [topic for topic in chosen if topic not in found]:
        return _refuse(f"no such topic: {', '.join(unknown)}; there are {', '.join(found)}")
    if options.output and not os.access(options.output.absolute().parent, os.W_OK):
        return _refuse(f"--output: cannot write to {options.output.absolute().parent}")
    try:
        if len(chosen) > 1:
            return _each_by_itself(chosen, options)
        # As in train.py, read when torch is imported: if threads wait in a busy loop for one that another
        # program has pushed aside, a sample takes a hundred times longer.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        from benchmarks.topic_run import run  # here, so that torch is imported only if needed

        run(
            chosen[0],
            device=options.device,
            quick=options.quick,
            repeats=options.repeats,
            threads=options.threads,
            output=options.output,
        )
    except LabError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _each_by_itself(chosen: list[str], options: argparse.Namespace) -> int:
    """Run each topic in its own process: none affects the memory of the next, and a crash ends only one."""
    given = ["--repeats", str(options.repeats), "--device", options.device]
    given += ["--quick"] if options.quick else []
    given += ["--threads", str(options.threads)] if options.threads else []
    given += ["--output", str(options.output)] if options.output else []
    failed = [topic for topic in chosen if subprocess.run(_again(topic, given), check=False).returncode]
    return _refuse(f"these topics failed: {', '.join(failed)}") if failed else 0


def _again(topic: str, given: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks", topic, *given]


def _refuse(reason: str) -> int:
    print(f"benchmarks: {reason}", file=sys.stderr)
    return 2


def _parser(found: dict[str, str]) -> argparse.ArgumentParser:
    width = max(map(len, found), default=0)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=(__doc__ or "").strip(),
        epilog="topics:\n" + "\n".join(f"  {name:<{width}}  {heading}" for name, heading in found.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topics", nargs="*", metavar="topic", help="what to measure; everything by default")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes, to check that everything works; the tables are only shown",
    )
    parser.add_argument(
        "--repeats",
        type=positive,
        default=7,
        metavar="N",
        help="measurements of each implementation (default: 7)",
    )
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads of PyTorch (default: all cores)"
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU if there is one"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"results file (default: {_relative(RESULTS)}/RESULTS.md)"
    )
    return parser


def _relative(path: Path) -> str:
    return os.path.relpath(path)


if __name__ == "__main__":
    sys.exit(main())
