"""What a decoder without attention loses: the claim with its intervals, the accuracies, and the encoder."""

import math

import pytest
import torch
from torch import Tensor

from attention_lab.theorems import EarlyInformation, Finding, early_information


def test_nothing_is_lost_where_both_hand_on_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    model = EarlyInformation._model
    monkeypatch.setattr(
        EarlyInformation, "_model", lambda self, arm: model(self, arm._replace(memory="final"))
    )
    finding = EarlyInformation(4, 5, 6, (), steps=2, seeds=2).run(1)
    assert not finding.holds
    assert "backwards 0.00 ± 0.00, forwards 0.00 ± 0.00" in finding.notes[0]


def test_what_is_lost_counts_with_its_interval_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: over two seeds, the half width is t = 12.706 times half of the difference between them."""

    def finding(backwards: tuple[float, float], forwards: tuple[float, float]) -> Finding:
        early = {"backwards": backwards, "forwards": forwards}

        def accuracies(self: EarlyInformation, arm: early_information.Arm, seed: int) -> list[float]:
            return [1.0, 1.0, 1.0, early[arm.order][seed - 1] if arm.memory == "final" else 1.0]

        monkeypatch.setattr(EarlyInformation, "_accuracies", accuracies)
        return EarlyInformation(4, 8, 4, (), seeds=2).run(1)

    sure, unsure = (0.5, 0.52), (0.9, 0.1)
    assert finding(sure, sure).holds
    assert not finding(unsure, sure).holds and not finding(sure, unsure).holds
    found = finding(sure, unsure)
    all_right = "1.00 (1.00 to 1.00)"
    few, unknown = "0.51 (0.38 to 0.64)", "0.50 (0.00 to 1.00)"
    assert found.rows[-2] == ["first 1 read", all_right, few, all_right, unknown]
    assert found.rows[-1] == ["last 1 read", *[all_right] * 4]
    assert (
        "backwards, without attention: the first symbols read are lost more often than the last"
        in found.notes[1]
    )
    assert "forwards, without attention: no significant difference" in found.notes[2]


@pytest.mark.parametrize("order", early_information.ORDERS)
def test_an_accuracy_stands_at_the_number_of_symbols_read_after_it(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that knows the symbol read first, and nothing else."""

    def knows_the_first(self: EarlyInformation, model: object, source: Tensor, target: Tensor) -> Tensor:
        right = torch.nn.functional.one_hot(target, 10).float()
        place = -1 if order == "backwards" else 0
        assert torch.equal(target[:, place], source[:, 0])
        only = torch.zeros_like(right)
        only[:, place] = right[:, place]
        return only  # elsewhere the likeliest is id 0, which is no symbol

    monkeypatch.setattr(EarlyInformation, "_logits", knows_the_first)
    monkeypatch.setattr(EarlyInformation, "_train", lambda *a: None)
    found = EarlyInformation(6, 6)._accuracies(early_information.Arm(order, "final", 4), 1)
    assert found == [0, 0, 0, 0, 0, 1]


def test_the_encoder_knows_no_later_symbols() -> None:
    """What is read last must not be the first symbols, as in the backward half of a bidirectional encoder."""
    model = EarlyInformation()._model(early_information.Arm("backwards", "annotations", 8)).eval()
    source = torch.tensor([[4, 5, 6, 7], [4, 5, 6, 8]])
    one, other = model.encode(source, torch.tensor([4, 4])).keys
    assert torch.equal(one[:3], other[:3]) and not torch.equal(one[3], other[3])


def test_the_interval_of_a_mean_over_seeds() -> None:
    """By hand: t = 4.3027 for two degrees of freedom, standard deviation 1."""
    found = early_information.mean_interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.302653 / math.sqrt(3))
