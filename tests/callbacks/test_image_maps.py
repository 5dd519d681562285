"""`AttentionMaps` with images: the attention of a vision model in the log, over what it reads."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor
from torch.utils.data import DataLoader
from vision import VisionTransformer

from attention_lab.attention import recording
from attention_lab.callbacks import AttentionMaps
from attention_lab.errors import LabError
from attention_lab.tensorboard_plugin import decode

IMAGES = torch.rand(3, 3, 8, 12, generator=torch.Generator().manual_seed(0))
PLACES = [f"vision encoder layer {number} self_attn" for number in (1, 2)]


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.vision = VisionTransformer(patches=6)

    def forward(self, images: Tensor) -> Tensor:
        return self.vision(images)  # type: ignore[no-any-return]

    def training_step(self, batch: Tensor) -> Tensor:
        return self(batch).square().mean()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(maps: AttentionMaps, folder: Path) -> Module:
    torch.manual_seed(0)
    module = Module()
    trainer = pl.Trainer(
        max_epochs=1,
        logger=TensorBoardLogger(str(folder)),
        callbacks=[maps],
        enable_model_summary=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accelerator="cpu",
    )
    trainer.fit(module, DataLoader(IMAGES, batch_size=3))  # type: ignore[arg-type]
    return module.eval()


@pytest.mark.filterwarnings("ignore")
def test_records_lie_over_the_images_and_one_picture_has_all_heads(tmp_path: Path) -> None:
    module = fit(AttentionMaps(IMAGES, images=IMAGES, examples=2), tmp_path)
    log = EventAccumulator(str(next(tmp_path.rglob("events*")).parent), {"tensors": 0, "images": 0}).Reload()
    tags = [f"example {number}/{place}" for number in (1, 2) for place in PLACES]
    assert log.Tags()["images"] == [f"weights/{tag}" for tag in tags]
    assert [tag for tag in log.Tags()["tensors"] if tag.startswith("example")] == tags
    with torch.no_grad(), recording(module) as weights:
        module(IMAGES)
    for number in (0, 1):
        event: Any = log.Tensors(f"example {number + 1}/{PLACES[1]}")[-1]
        last = decode(*event.tensor_proto.string_val)
        assert last.picture is not None and last.picture.pixels.shape == (8, 12) and last.picture.cell == 4
        assert list(last.keys) == ["r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"]
        expected = weights["vision.encoder.layers.1.self_attn"][number][..., 1:]
        assert torch.allclose(torch.from_numpy(last.weights), expected, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": IMAGES, "patch_size": 2}, "have 24 patches of 2 x 2, but the attentions have 7 keys"),
        (
            {"images": IMAGES[:1]},
            "^AttentionMaps: images are given for 1 of 2 or more examples: give one",
        ),
        ({"images": IMAGES[0, 0]}, r"^AttentionMaps: images must have the shape \[B, C, H, W\]"),
        ({"images": IMAGES, "patch_size": 0}, "^AttentionMaps: patch_size=0 must be a whole number"),
    ],
)
def test_images_that_do_not_fit(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=said):
        fit(AttentionMaps(IMAGES, **options), tmp_path)


def test_images_need_a_batch() -> None:
    with pytest.raises(LabError, match=r"^AttentionMaps: images are for a batch of your own: give the batch"):
        AttentionMaps(images=IMAGES)
    with pytest.raises(
        LabError, match=r"^AttentionMaps: patch_size is for images: give images=\.\.\. as well$"
    ):
        AttentionMaps(IMAGES, patch_size=4)
