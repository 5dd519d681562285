"""What a data module has before and after it reads its data."""

import pytest

from attention_lab.data import Reverse


@pytest.mark.parametrize("name", ["sizes", "codec"])
def test_sizes_and_codec_are_known_after_setup(name: str) -> None:
    data = Reverse(train_size=8, validation_size=4, test_size=4)
    with pytest.raises(AttributeError) as caught:
        getattr(data, name)
    assert str(caught.value) == (
        f"'Reverse' object has no attribute '{name}': call setup() first, which reads the data"
    )
    data.setup()
    assert getattr(data, name) is not None


def test_other_attributes_are_reported_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"^'Reverse' object has no attribute 'colour'$"):
        _ = Reverse().colour
