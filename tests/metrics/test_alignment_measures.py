import pytest
import torch

from attention_lab.metrics.alignment_measures import AlignmentMeasures

# one head follows the gold, one goes backwards
GOLD = torch.tensor([[0, 1, 2, -1]])
FORWARD = torch.eye(4)[[0, 1, 2, 3]]
BACKWARD = torch.eye(4)[[2, 1, 0, 3]]


def test_one_head() -> None:
    measures = AlignmentMeasures()
    measures.update(FORWARD[None, None], GOLD)
    measures.update(BACKWARD[None, None], GOLD)
    values = {name: value.item() for name, value in measures.take().items()}
    assert values == {
        "alignment_accuracy": pytest.approx(4 / 6),
        "alignment_error_rate": pytest.approx(2 / 6),
        "alignment_mass": pytest.approx(4 / 6),
        "monotonicity": 0.5,
    }


def test_the_mean_over_heads_and_each_head() -> None:
    measures = AlignmentMeasures()
    measures.update(torch.stack([FORWARD, BACKWARD])[None], GOLD)
    values = {name: value.item() for name, value in measures.take().items()}
    assert len(values) == 4 * 3
    # of the mean, the largest weight of steps 0 and 2 is at 0 and 2 alike; each is half, so both are links
    assert values["alignment_accuracy"] == pytest.approx(2 / 3)
    assert values["alignment_error_rate"] == pytest.approx(1 - 2 * 3 / (5 + 3))
    assert values["alignment_mass"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert values["monotonicity"] == 1.0
    for name, first, second in (
        ("alignment_accuracy", 1, 1 / 3),
        ("alignment_error_rate", 0, 2 / 3),
        ("alignment_mass", 1, 1 / 3),
        ("monotonicity", 1, 0),
    ):
        assert values[f"{name}/head_1"] == pytest.approx(first)
        assert values[f"{name}/head_2"] == pytest.approx(second)


def test_a_step_from_the_first_source_position_counts() -> None:
    measures = AlignmentMeasures()
    measures.update(torch.eye(3)[[2, 0, 1]][None, None], torch.tensor([[0, 1, 2]]))
    assert measures.take()["monotonicity"].item() == 0.5  # back from 2 to 0, then forward


def test_taking_starts_anew() -> None:
    measures = AlignmentMeasures()
    assert measures.take() == {}
    measures.update(BACKWARD[None, None], GOLD)
    measures.take()
    assert measures.take() == {}
    measures.update(torch.stack([FORWARD, FORWARD])[None], GOLD)
    assert measures.take()["alignment_accuracy"].item() == 1.0
    assert not measures.state_dict()


def test_several_gold_positions_of_a_step() -> None:
    measures = AlignmentMeasures()
    measures.update(BACKWARD[None, None], torch.tensor([[[2, 3], [0, -1], [1, 0], [-1, -1]]]))
    values = {name: value.item() for name, value in measures.take().items()}
    assert values["alignment_accuracy"] == pytest.approx(2 / 3)
    assert values["alignment_mass"] == pytest.approx(2 / 3)
    assert values["monotonicity"] == 0.0
