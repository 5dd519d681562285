"""The guide's programs that read an exported classifier give the labels and logits of the model."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from toys import toy

from attention_lab.data.reading.codecs import ClassificationCodec, LabelledImageCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.inference.exporting import export
from attention_lab.models import MultiHeadClassifier

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "export.md"
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.slow
def test_texts_and_images_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    image = Image.effect_noise((20, 12), 80).convert("RGB")
    image.putpixel((3, 4), (255, 0, 9))
    image.save("photo.png")
    words = Tokenizer.of(Notation("spaces"), [["a", "film", "good"]])
    texts = ClassificationCodec(["bad", "good"], length=6, tokenizer=words)
    photos = LabelledImageCodec.of(["b", "c"], list(torch.rand(5, 3, 8, 8)), patch_size=4)
    given: dict[str, Any] = {}
    for name, codec, line in (("model", texts, "a very good film"), ("photos", photos, "photo.png")):
        model = toy(MultiHeadClassifier, sizes=codec.sizes).eval()
        export(model, codec, tmp_path / f"{name}.onnx")
        (block,) = (one for one in _blocks() if f"{name}.onnx" in one)
        exec(block, given)
        batch = codec.encode([line])
        with torch.no_grad():
            expected = model(batch.inputs, batch.lengths)
        torch.testing.assert_close(torch.from_numpy(given["logits"]), expected, atol=1e-5, rtol=1e-5)


def _blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
