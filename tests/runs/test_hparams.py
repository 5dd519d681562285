"""The columns of the HPARAMS tab; `test_run_names.py` has those of a sweep."""

from types import SimpleNamespace

from hydra.types import RunMode

from attention_lab.runs.hparams import hparam_order


def test_given_options_are_the_first_columns_of_hparams_and_files_the_last() -> None:
    given = ["data=pairs", "data.train_file=a.tsv", "seed=2", "model.hidden_size=8", "trainer.max_epochs=3"]
    names = SimpleNamespace(override_dirname=SimpleNamespace(exclude_keys=[]))
    hydra = SimpleNamespace(
        overrides=SimpleNamespace(task=given), job=SimpleNamespace(config=names), mode=RunMode.RUN
    )
    expected = "model.hidden_size trainer.max_epochs data seed model scoring data.train_file"
    assert hparam_order(hydra) == expected.split()
