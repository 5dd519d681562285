"""A model with two attentions, which tests of several recordings share."""

from torch import Tensor, nn

from attention_lab import MultiheadAttention


class Both(nn.Module):
    """Our own attention after torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.theirs = nn.MultiheadAttention(8, 2, batch_first=True)
        self.ours = MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.theirs(x, x, x, need_weights=False)[0]
        return self.ours(x, x, x, need_weights=False)[0]  # type: ignore[no-any-return]
