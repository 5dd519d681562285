"""What the parts of an attention return is checked, and told in one line that names the part."""

from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.attention import Attention, Score
from attention_lab.attention.windows import Span
from attention_lab.errors import LabError

KEYS = torch.zeros(2, 7, 4)
SCORES = torch.ones(2, 5, 7)


class _Numbers(nn.Module):
    """A part whose result the test chooses."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def forward(self, *given: Any) -> Any:
        return self.result


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        ({}, "Given must return floating-point scores, not a NoneType"),
        ({"scores": SCORES > 0}, "floating-point scores, not torch.bool"),
        ({"keys": (1, 2)}, r"Given.keys must return a tensor .* got a tuple"),
        ({"keys": torch.ones(2, 1, 4)}, r"tensor \[..., 7, f\] .* got \[2, 1, 4\]"),
        (
            {"scores": SCORES, "weights": torch.ones(2, 5)},
            r"_Numbers must return weights \[2, 5, 7\], one for each score, got \[2, 5\]",
        ),
        ({"scores": SCORES, "weights": torch.ones(1, 5, 7)}, r"one for each score, got \[1, 5, 7\]"),
        (
            {"span": Span(torch.ones(5, 7))},
            r"the Span of _Numbers must be boolean and \[..., 5, 7\], got torch.float32 \[5, 7\]",
        ),
        ({"span": Span(torch.ones(3, 7) > 0)}, r"got torch.bool \[3, 7\]"),
        (
            {"scores": SCORES, "context": torch.ones(2, 5, 7)},
            r"_Numbers must return contexts \[2, 5, 4\] for weights \[2, 5, 7\] .* got \[2, 5, 7\]",
        ),
        ({"span": Span([[True]])}, "the mask in the Span of _Numbers must be boolean .*, got a list"),
        (
            {"scores": SCORES, "span": Span(None, torch.ones(4, 7))},
            r"the factor in the Span of _Numbers must be floating-point and .*, got torch.float32 \[4, 7\]",
        ),
        (
            {"scores": SCORES, "span": Span(None, SCORES > 0)},
            "the factor .* must be floating-point .* torch.bool",
        ),
        (
            {"scores": SCORES, "weights": SCORES > 0},
            "_Numbers must return floating-point weights, not torch.bool",
        ),
        (
            {"scores": SCORES, "context": KEYS[:, :5].long()},
            "_Numbers must return floating-point contexts, not torch",
        ),
        ({"scores": SCORES, "context": None}, r"_Numbers must return contexts .* got a NoneType"),
    ],
)
def test_parts_return_what_the_formula_needs(results: dict[str, Any], complaint: str) -> None:
    class Given(Score):
        def keys(self, key: Any) -> Any:
            return results.get("keys", key)

        def forward(self, query: Any, keys: Any) -> Any:
            return results.get("scores")

    normalizer = _Numbers(results["weights"]) if "weights" in results else None
    window = _Numbers(results["span"]) if "span" in results else None
    pooling = _Numbers(results["context"]) if "context" in results else None
    attention = Attention(Given(4, 4), normalizer, pooling, window)
    with pytest.raises(ValueError, match=complaint) as raised:
        attention(torch.zeros(2, 5, 4), attention.remember(torch.zeros(2, 7, 4)))
    assert isinstance(raised.value, LabError)  # one line on the command line
