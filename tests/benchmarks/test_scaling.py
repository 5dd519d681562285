"""The model of data-parallel training: its formulas by hand and by simulation, and its table in the docs."""

from pathlib import Path

import pytest

from benchmarks import scaling
from benchmarks.scaling import Link, Step, buckets, communication, efficiency, exposed, sent

ROOT = Path(__file__).parents[2]
LINK = Link(1e9, 1e-3)


def test_bytes_and_seconds_by_hand() -> None:
    assert sent(1_000_000, 2) == 4e6
    assert sent(1_000_000, 8) == 7e6
    assert sent(1_000_000, 1) == 0
    assert [buckets(n) for n in (1, 6_553_600, 6_553_601)] == [1, 1, 2]
    assert communication(1_000_000, 8, LINK) == pytest.approx(7e-3 + 2 * 3 * 1e-3)


def _simulated(pieces: int, seconds: float, backward: float) -> float:
    """Time from the end of the backward pass until the last bucket is sent, bucket by bucket."""
    end = 0.0
    for number in range(1, pieces + 1):
        end = max(end, number * backward / pieces) + seconds / pieces
    return end - backward


@pytest.mark.parametrize("parameters", [1000, 7_000_000, 200_000_000])
@pytest.mark.parametrize("backward", [0.0, 1e-3, 0.1, 10.0])
def test_exposed_communication_is_that_of_a_simulated_pipeline_of_buckets(
    parameters: int, backward: float
) -> None:
    found = exposed(Step(parameters, 0.01, backward), 8, LINK)
    seconds = communication(parameters, 8, LINK)
    assert found == pytest.approx(_simulated(buckets(parameters), seconds, backward))


def test_efficiency_is_between_nothing_and_one_and_falls() -> None:
    step = Step(1_000_000, 0.02, 0.03)
    assert efficiency(step, 1, LINK) == 1.0
    assert efficiency(step, 2, LINK) == pytest.approx(0.05 / (0.05 + 4e-3 + 2e-3))
    found = [efficiency(step, n, LINK) for n in (1, 2, 8, 64)]
    assert sorted(found, reverse=True) == found
    assert efficiency(Step(1_000_000, 0.02, 0.03, spread=0.1), 8, LINK) < found[2]


def test_the_documented_table_is_reproduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.main([]) == 0
    assert capsys.readouterr().out.strip() in (ROOT / "docs" / "scaling.md").read_text()
    arguments = "--parameters 1106987 --forward-ms 27 --backward-ms 46 --gb-per-second 0.95 --latency-us 100"
    assert scaling.main([*arguments.split(), "--devices", "2"]) == 0
    assert "| yours | 1,106,987 | 73 ms | 4.4 MB, 4.9 ms, 93.8% |" in capsys.readouterr().out
