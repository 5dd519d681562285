"""The sampler and the pruner of a search, as a configuration gives them."""

import pytest
from omegaconf import OmegaConf

optuna = pytest.importorskip("optuna")

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.search.trials import _make_part  # noqa: E402


def test_without_a_sampler_or_pruner_optuna_chooses() -> None:
    """An experiment file may have `pruner: null`, which ended in a traceback."""
    config = OmegaConf.create({"pruner": None, "sampler": {"_target_": "optuna.samplers.RandomSampler"}})
    assert _make_part("pruner", config.pruner, optuna.pruners.BasePruner) is None
    sampler = _make_part("sampler", config.sampler, optuna.samplers.BaseSampler)
    assert isinstance(sampler, optuna.samplers.RandomSampler)


@pytest.mark.parametrize("given", ["random", 3, ["random"], {}, {"seed": 1}])
def test_what_names_no_class_is_an_error(given: object) -> None:
    config = OmegaConf.create({"sampler": given})
    with pytest.raises(LabError, match=r"^sweep\.sampler=.*: give the class of a sampler of Optuna, or"):
        _make_part("sampler", config.sampler, optuna.samplers.BaseSampler)
