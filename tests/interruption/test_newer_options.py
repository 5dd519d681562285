"""A run that was started before an option existed."""

import json
from pathlib import Path

import pytest
import yaml

from attention_lab.errors import LabError
from attention_lab.interruption.resume import check_same_options


def test_options_newer_than_a_run_may_be_off(tmp_path: Path) -> None:
    name = "attention_lab.data.Pairs"
    old = {"data": {"_target_": name, "seed": 0}, "trainer": {"_target_": "b.Trainer"}}
    (tmp_path / "config.yaml").write_text(json.dumps(old))
    new = {**old, "data": {**old["data"], "right_to_left": False}}
    check_same_options(tmp_path, new)
    on = {**old, "data": {**old["data"], "right_to_left": True}}
    other = {**old, "trainer": {**old["trainer"], "use_distributed_sampler": False}}
    for config, given in ((on, ()), (other, ()), (new, ("data.right_to_left",))):
        with pytest.raises(LabError, match=r"leave that option as it was"):
            check_same_options(tmp_path, config, given)
    check_same_options(tmp_path, {**old, "trainer": {**old["trainer"], "enable_progress_bar": False}})
    for one in (old, new):  # a class of the user's own may have another default
        one["data"]["_target_"] = "mine.Pairs"
    (tmp_path / "config.yaml").write_text(json.dumps(old))
    with pytest.raises(LabError, match=r"has data.right_to_left=None, not False"):
        check_same_options(tmp_path, new)


def test_long_options_are_cut_in_the_message(tmp_path: Path) -> None:
    kept = {"data": {"\x1b" + "a" * 900: "b" * 10_000}, "trainer": {}}
    (tmp_path / "config.yaml").write_text(json.dumps(kept))
    with pytest.raises(LabError, match=r"has data\.\ufffda+…=b+…, not None: leave that") as raised:
        check_same_options(tmp_path, {})
    assert len(str(raised.value)) < 600


@pytest.mark.slow
def test_a_run_without_newer_options_resumes(command) -> None:
    done = command("model=nw", "data.train_size=10", "pictures=0", "trainer.max_epochs=1")
    file = done.folder / "config.yaml"
    kept = yaml.safe_load(file.read_text())
    for option in ("ckpt_path", "pictures", "pictures_format", "compile", "threads", "tags", "notes"):
        del kept[option]
    file.write_text(yaml.safe_dump(kept))
    (done.folder / "metrics.json").unlink()
    again = command(f"resume={done.folder}")
    assert again.status == 0 and (done.folder / "metrics.json").is_file(), again.err
