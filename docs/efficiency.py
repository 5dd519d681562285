"""Draw docs/efficiency.png and print its table: accuracy from finished sweeps, speed and memory measured now.

    python train.py -m experiment=efficiency seed=1,2
    python docs/efficiency.py logs/efficiency_*

A sweep also measures the speed of its runs, but in wall-clock time, which is accurate only on an idle
machine. Here the mechanisms take turns in one process with one thread, and CPU seconds are counted,
because other programs disturb these less. Results are medians of five measurements.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.leaderboard.settings import Setting, group_runs  # noqa: E402
from attention_lab.runs.run_folder import find_runs  # noqa: E402
from attention_lab.text_tables import markdown_table  # noqa: E402
from attention_lab.viz import to_png  # noqa: E402
from attention_lab.viz.plots import draw_panels  # noqa: E402
from attention_lab.viz.plots.panels import Bubbles, Series  # noqa: E402
from benchmarks.measuring.harness import Comparison, Row, measure  # noqa: E402
from benchmarks.topics.mechanisms import MECHANISMS, methods  # noqa: E402

ACCURACY = "test/accuracy"
KEYS = ("mechanism", "data.length")


def speeds(lengths: Sequence[int], mechanisms: Sequence[str]) -> dict[tuple[str, int], Row]:
    """CPU seconds and memory of a training step, for each mechanism at each length."""
    torch.set_num_threads(1)
    found = {}
    for length in lengths:
        chosen = [method for method in methods(length, torch.device("cpu")) if method.name in mechanisms]
        for row in measure(Comparison(f"length {length}", chosen), 5, calm=float("inf")):
            found[row.name, length] = row
    return found


def picture(found: Sequence[Setting], rows: Mapping[tuple[str, int], Row]) -> bytes:
    """A line of bubbles for each mechanism: mean accuracy against speed, memory as area."""
    lines: dict[str, list[Setting]] = {}
    for cell in found:
        lines.setdefault(cell.options["mechanism"], []).append(cell)
    measured = []
    for name, line in lines.items():
        lengths = [cell.options["data.length"] for cell in line]
        costs = [rows[name, length] for length in lengths]
        measured.append(
            Series(
                name,
                [1 / row.cpu for row in costs],
                [mean(cell.values(ACCURACY).values()) for cell in line],
                areas=[megabytes(row) for row in costs],
                texts=[f"{length:,}" for length in lengths],
            )
        )
    x_label = "training steps per CPU second, one sequence a step"
    return to_png(
        draw_panels(
            [Bubbles(measured, x_label=x_label, y_label="accuracy")],
            title="Associative recall: accuracy, speed and memory",
            note="mean over the seeds; beside each bubble the length and, as its area, the peak memory in MB",
        )
    )


def megabytes(row: Row) -> float:
    """The peak memory."""
    return (row.memory or 0.0) / 1e6


def table(found: Sequence[Setting], rows: Mapping[tuple[str, int], Row]) -> str:
    """Markdown: a row for each length and mechanism."""
    header = [
        "length",
        "mechanism",
        "accuracy",
        "seeds",
        "steps per CPU second",
        "times scaled_dot",
        "peak MB",
    ]
    lines = []
    for cell in sorted(found, key=lambda one: int(one.options["data.length"])):
        mechanism, length = (cell.options[key] for key in KEYS)
        values = list(cell.values(ACCURACY).values())
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
        row, first = rows[mechanism, length], rows["scaled_dot", length]
        costs = [f"{1 / row.cpu:.3g}", f"{first.cpu / row.cpu:.2g}", f"{megabytes(row):,.0f}"]
        lines.append([f"{length:,}", mechanism, f"{mean(values):.3f}{spread}", str(len(values)), *costs])
    return markdown_table(header, lines)


def main() -> int:
    """Read the sweeps named on the command line."""
    try:
        jobs = [job for job in find_runs([Path(name) for name in sys.argv[1:]]) if ACCURACY in job.metrics]
        if not jobs:
            raise LabError("name the folders of finished sweeps: python docs/efficiency.py logs/efficiency_*")
        pairs = [tuple(job.value(key) for key in KEYS) for job in jobs]
        rows = speeds(sorted({length for _, length in pairs}), ["scaled_dot", *{name for name, _ in pairs}])
        order = [(name, length) for name in MECHANISMS for length in sorted({pair[1] for pair in pairs})]
        found = sorted(group_runs(jobs, KEYS), key=lambda cell: order.index(tuple(cell.options.values())))
    except (LabError, KeyError) as error:
        return _refuse(error)
    (ROOT / "docs" / "efficiency.png").write_bytes(picture(found, rows))
    print(table(found, rows))
    return 0


def _refuse(error: Exception) -> int:
    print(f"Error: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
