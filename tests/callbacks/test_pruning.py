"""What a trial reports to its search."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna")

from optuna.exceptions import StorageInternalError
from optuna.pruners import NopPruner
from optuna.storages import RDBStorage
from optuna.trial import TrialState, create_trial
from studies import join_study

from attention_lab.callbacks import Pruning
from attention_lab.errors import PrunedError
from attention_lab.search.storage import storage_url
from attention_lab.search.study import open_trial

LOSS = "validation/loss"


def _refuse(*_: object) -> None:
    raise StorageInternalError("the server is restarting")


def _validated(value: float) -> Any:
    return SimpleNamespace(
        callback_metrics={LOSS: value},
        state=SimpleNamespace(fn="fit"),
        sanity_checking=False,
        is_global_zero=True,
        strategy=SimpleNamespace(broadcast=bool),
    )


def test_a_value_that_cannot_be_recorded_does_not_end_the_run(tmp_path: Path) -> None:
    """When a server restarted during a validation, the trial failed, and its training was lost."""
    study = join_study(tmp_path).study
    study.add_trial(create_trial(state=TrialState.RUNNING))
    url = storage_url(None, tmp_path)
    pruning = Pruning(LOSS, 0, lambda one: open_trial(one, name="study", storage=url, pruner=NopPruner()))
    module: Any = None
    pruning.on_validation_end(_validated(3.0), module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RDBStorage, "set_trial_intermediate_value", _refuse)
        pruning.on_validation_end(_validated(2.0), module)
        with pytest.raises(PrunedError):
            pruning.on_validation_end(_validated(math.nan), module)
    pruning.on_validation_end(_validated(1.0), module)
    assert study.trials[0].intermediate_values == {1: 3.0, 4: 1.0}
