"""Every seed of data is one that NumPy and PyTorch accept."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from attention_lab.argument_checks import LARGEST_SEED
from attention_lab.data.specs import SPECS
from attention_lab.errors import LabError

SEEDED = [spec for spec in SPECS.values() if "seed" in spec.__dataclass_fields__]


@pytest.mark.parametrize("spec", SEEDED, ids=[spec.__name__ for spec in SEEDED])
def test_a_seed_out_of_range_is_rejected(spec: type[Any]) -> None:
    required = {one.name: "" for one in fields(spec) if one.default is MISSING and one.init}
    assert spec(**required, seed=LARGEST_SEED).seed == LARGEST_SEED
    with pytest.raises(LabError, match=r"data\.seed=4294967296: choose at most 4294967295"):
        spec(**required, seed=LARGEST_SEED + 1)
    for seed in (-1, 0.5, "one"):
        with pytest.raises(LabError, match=rf"data\.seed={seed}: give a whole number of at least 0"):
            spec(**required, seed=seed)
