"""Hostile checkpoints and run folders, in every way in which they are used.

To run all of them and print a table of the outcomes:

    python -m pytest tests/untrusted/test_attack.py -m slow -n0 -s
"""

import random
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from forked import MEGABYTES, SECONDS, prepare, run
from hostile import Case, cases

# imported once for all forked processes
import attention_lab.experiment.stages.export
import attention_lab.experiment.stages.fit
import attention_lab.experiment.stages.predict
import attention_lab.experiment.stages.test
import attention_lab.leaderboard.board
import attention_lab.report.report_page  # noqa: F401

SAMPLE = 4


class Prepared(NamedTuple):
    """The trained bases, and the megabytes that training them took at most."""

    root: Path
    normal: float


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("attack")
    return Prepared(folder, prepare(folder))


def _attack(prepared: Prepared, chosen: list[Case]) -> list[str]:
    """The faults found; prints a table of the outcomes by use."""
    root, normal = prepared
    table: Counter[tuple[str, str]] = Counter()
    faults, longest, largest = [], 0.0, 0.0
    for case in chosen:
        outcome = run(root, case)
        longest, largest = max(longest, outcome.seconds), max(largest, outcome.megabytes - normal)
        fault = outcome.fault
        if fault is None and outcome.seconds > SECONDS and outcome.status != 143:
            fault = f"{outcome.seconds:.0f} s"
        if fault is None and outcome.megabytes - normal > MEGABYTES:
            fault = f"{outcome.megabytes - normal:.0f} MB"
        result = "fault" if fault else {0: "works", 143: "trains on"}.get(outcome.status, "one line")
        table[case.name.split(" ")[1], result] += 1
        if fault:
            faults.append(f"{case.name}: {fault}: {outcome.err[-600:]}")
    for (use, result), count in sorted(table.items()):
        sys.stdout.write(f"{use:20} {result:10} {count:4}\n")
    most = f"at most {longest:.1f} s and {largest:.0f} MB more than the normal {normal:.0f} MB"
    sys.stdout.write(f"{len(chosen)} cases, {len(faults)} faults; {most}\n")
    return faults


@pytest.mark.long
def test_a_sample(prepared: Prepared) -> None:
    found = cases(prepared.root)
    assert len(found) >= 300
    assert _attack(prepared, random.Random(0).sample(found, SAMPLE)) == []


@pytest.mark.slow
def test_all(prepared: Prepared) -> None:
    faults = _attack(prepared, cases(prepared.root))
    assert not faults, "\n".join(faults)
