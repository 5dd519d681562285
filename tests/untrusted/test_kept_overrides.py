"""What the folder of a run that is gone on with may bring along."""

from pathlib import Path

import pytest
import yaml

from attention_lab.errors import LabError
from attention_lab.interruption.resume import go_on


def _folder(folder: Path, *overrides: str, search: str | None = None) -> Path:
    (folder / ".hydra").mkdir(exist_ok=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    hydra = {"hydra": {"overrides": {"hydra": [] if search is None else [f"hydra.searchpath=[{search}]"]}}}
    (folder / ".hydra" / "hydra.yaml").write_text(yaml.safe_dump(hydra))
    return folder


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer._target_=os.mkdir", r"add 'allow=\[os\]'"),
        ("+callbacks.mine={_target_: my_package.Mine}", r"add 'allow=\[my_package\]'"),
        ("trainer={a: [{_target_: pytorch_lightning.callbacks.LambdaCallback}]}", "names code"),
        ("model._target_=attention_lab.data.reading.files.Path", "names code"),
        ("data=../../tmp/evil", "is no choice of conf/"),
        ("data=/tmp/evil", "is no choice of conf/"),
        ("+data@model=[x,../y]", "is no choice of conf/"),
        ("hydra.launcher._target_=x", "is no option of a training"),
        ("+hydra/launcher=x", "is no option of a training"),
        ("inputs=${oc.env:SECRET}", "would read more than options"),
        ("inputs=${oc.create:{_target_:os.mkdir}}", "is no option"),
        ("--config-dir=/tmp/evil", "is no option"),
        ("seed=1,2", "has several values"),
        ("a=[", "is no option"),
    ],
)
def test_refused(override: str, said: str, tmp_path: Path) -> None:
    # What the folder itself allows does not count.
    folder = _folder(tmp_path, "model=nw", "allow=[os,my_package,pytorch_lightning]", override)
    with pytest.raises(LabError, match=said) as caught:
        go_on([f"resume={folder}"])
    assert ".hydra/overrides.yaml" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_taken(tmp_path: Path) -> None:
    usual = [
        *(
            "model=nw",
            "data.file=../my data.csv",
            "ckpt_path=a/b.ckpt",
            "monitor={metric: test/x, mode: max}",
        ),
        *(
            "optimizer._target_=torch.optim.RMSprop",
            "scoring._target_=attention_lab.attention.scores.Additive",
        ),
        *("callbacks.stop={_target_: pytorch_lightning.callbacks.EarlyStopping}", "task.x=${model.y}"),
    ]
    usual[1] = "data.file='../my data.csv'"
    folder = _folder(tmp_path, *usual, "resume=auto")
    assert go_on([f"resume={folder}"])[: len(usual)] == usual
    own = [*usual, "model._target_=my_package.MyModel"]
    _folder(tmp_path, *own)
    assert go_on([f"resume={folder}", "allow=[my_package]"])[: len(own)] == own


def test_configurations_from_elsewhere_have_to_be_named_again(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "model=nw", search="file:///tmp/evil")
    with pytest.raises(LabError, match=r"took options from elsewhere.*add 'hydra.searchpath="):
        go_on([f"resume={folder}"])
    again = "hydra.searchpath=[file:///tmp/evil]"
    assert again in go_on([f"resume={folder}", again])
