"""The model that comes with the package."""

import attention_lab
from attention_lab.inference.pretrained import PACKAGED, WEIGHTS

FOLDER = PACKAGED / "g2p-english"
KNOWN = {
    "hello": "HH EH L OW",  # the dictionary has HH AH L OW, too
    "attention": "AH T EH N SH AH N",
    "cat": "K AE T",
    "night": "N AY T",
    "phone": "F OW N",
}


def test_the_packaged_model_pronounces_english() -> None:
    model = attention_lab.pretrained("g2p-english")
    assert dict(zip(KNOWN, model.predict(list(KNOWN)), strict=True)) == KNOWN


def test_the_packaged_model_is_small_and_has_a_card() -> None:
    assert (FOLDER / WEIGHTS).stat().st_size < 10_000_000
    card = (FOLDER / "README.md").read_text()
    for part in ("| words in error |", "| data | CMU Pronouncing Dictionary", "Carnegie Mellon University"):
        assert part in card
