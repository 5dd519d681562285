"""What TensorBoard's Attention tab is given may lie on the GPU."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from torch.utils.tensorboard import SummaryWriter

from attention_lab.tensorboard_plugin import add_attention, decode

pytestmark = pytest.mark.gpu


def test_weights_mask_and_gold_alignment(device: torch.device, tmp_path: Path) -> None:
    weights = torch.tensor([[[0.25, 0.75], [1, 0], [0.5, 0.5]]], dtype=torch.bfloat16, device=device)
    mask = torch.ones(3, 2, dtype=torch.bool, device=device)
    with SummaryWriter(tmp_path) as writer:
        add_attention(writer, "a", weights, list("xyz"), list("ab"), 0, mask=mask, gold=mask[:, 0].long())
    (file,) = tmp_path.glob("events*")
    (value,) = [value for event in EventFileLoader(str(file)).Load() for value in event.summary.value]
    record = decode(*value.tensor.string_val)
    assert np.allclose(record.weights, weights.float().cpu().numpy(), atol=1e-5)
    assert record.gold is not None and record.gold.tolist() == [1, 1, 1]
