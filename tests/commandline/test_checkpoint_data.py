"""With `stage=test` a file to test on may be given whatever data the command line chooses."""

import pytest

from attention_lab.commandline.checkpoint_data import with_test_files


@pytest.mark.parametrize("stage", ["stage=test", "stage='test'", "++stage=test"])
def test_a_file_is_set_by_force(stage: str) -> None:
    given = [stage, "-m", "data.test_file=a.tsv", "+data.file=b.tsv", "data.batch_size=2", "data=pairs"]
    forced = [stage, "-m", "++data.test_file=a.tsv", "+data.file=b.tsv", "data.batch_size=2", "data=pairs"]
    assert with_test_files(given) == forced
    assert with_test_files([stage, "data.file=a.tsv"]) == [stage, "++data.file=a.tsv"]


@pytest.mark.parametrize("stage", ["stage=fit", "seed=1", "stage=predict"])
def test_other_stages_know_the_options_of_their_data(stage: str) -> None:
    given = [stage, "data.test_file=a.tsv"]
    assert with_test_files(given) == given
