"""Complete runs from the command line: their files, and that they can be repeated and resumed."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command import Outcome
from folders import metrics_of
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import attention_lab
from attention_lab.commandline.incompatible import find_incompatibility
from attention_lab.untrusted.plain_files import read_yaml

CONF = Path(__file__).parents[2] / "conf"
MECHANISMS = sorted(
    f"{group}={path.stem}"
    for group in ("scoring", "normalizer", "window", "pooling")
    for path in (CONF / group).glob("*.yaml")
)
OFTEN = {"scoring=linear", "window=local_m"}
"""Mechanisms that are trained in long tests; the runs with the others are slow."""
TOY = [
    "data.train_size=48",
    "data.validation_size=12",
    "data.test_size=12",
    "data.max_length=5",
    "data.batch_size=16",
]
SMALL = {
    "nw": ["model=nw", "trainer.max_epochs=3"],
    "seq2seq": [
        "model=seq2seq",
        "data=reverse",
        *TOY,
        "model.embedding_size=6",
        "model.hidden_size=8",
        "trainer.max_epochs=2",
        "trainer.log_every_n_steps=1",
    ],
    "multihead": [
        "model=multihead",
        "model.d_model=8",
        "model.heads=2",
        "model.feedforward=8",
        "trainer.max_epochs=1",
    ],
}
METRICS = {
    "nw": {"train/loo_mse", "test/mse", "train/width"},
    "seq2seq": {
        "test/sequence_error_rate",
        "test/token_error_rate",
        "test/alignment_accuracy",
        "test/alignment_error_rate",
        "test/alignment_mass",
        "test/monotonicity",
    },
    "multihead": {"test/accuracy"},
}
ATTENTIONS = {
    "nw": {"attention"},
    "seq2seq": {"decoder"},
    "multihead": {"encoder layer 1", "encoder layer 2"},
}


@pytest.fixture
def fitted(command, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """`fitted("nw")` is the run of a small model, which tests share and leave unchanged."""

    def run(model: str) -> Outcome:
        if model not in _FITTED:
            _FITTED[model] = command(*SMALL[model], folder=tmp_path_factory.mktemp(model) / "run")
        return _FITTED[model]

    return run


_FITTED: dict[str, Outcome] = {}


def _without_time(metrics: dict[str, float]) -> dict[str, float]:
    measured = ("fit/seconds", "fit/steps_per_second", "fit/peak_memory_mb")
    return {name: value for name, value in metrics.items() if name not in measured}


@pytest.mark.parametrize("model", SMALL)
def test_a_run_leaves_one_folder_with_everything(model: str, fitted) -> None:
    done = fitted(model)
    assert done.status == 0, done.err
    assert done.err == ""
    assert "Results" in done.out
    assert METRICS[model] | {"fit/seconds", "fit/steps", "parameters"} <= set(metrics_of(done.folder))
    config = OmegaConf.load(done.folder / "config.yaml")
    assert config["model"]["needs"] == config["data"]["kind"]
    assert {path.name for path in (done.folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    assert len(list(done.folder.glob("events*"))) == 1
    pictures = list((done.folder / "attention").glob("*.png"))
    assert len(pictures) >= len(ATTENTIONS[model])
    assert (done.folder / "train.log").exists()


@pytest.mark.parametrize("model", SMALL)
def test_tensorboard_shows_every_attention_and_scalar(model: str, fitted) -> None:
    done = fitted(model)
    events = EventAccumulator(str(done.folder), size_guidance={"images": 0}).Reload()
    tags = events.Tags()
    places = {tag.split("/", 2)[2] for tag in tags["images"] if tag.startswith("weights/")}
    assert places == ATTENTIONS[model]
    assert ("fit" in tags["images"]) == (model == "nw")
    epochs = OmegaConf.load(done.folder / "config.yaml").trainer.max_epochs
    assert len(events.Images(next(tag for tag in tags["images"] if tag.startswith("weights/")))) == epochs
    heads = 2 if model == "multihead" else 1
    entropies = [tag for tag in tags["scalars"] if tag.startswith("weights/heads/entropy/")]
    assert len(entropies) == len(ATTENTIONS[model]) * heads
    assert {tag.replace("entropy", "monotonicity", 1) for tag in entropies} <= set(tags["scalars"])
    assert METRICS[model] <= set(tags["scalars"])
    assert any(tag.startswith("train/lr") for tag in tags["scalars"])
    assert "samples/text_summary" in tags["tensors"]
    assert "_hparams_/session_start_info" in events.summary_metadata


@pytest.mark.long
@pytest.mark.parametrize(
    "model", ["seq2seq", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nw", "multihead"))]
)
def test_a_seed_repeats_a_run_and_another_does_not(model: str, command) -> None:
    options = SMALL[model] + (
        ["scoring=additive"] if model == "nw" else []
    )  # a kernel starts at no random place
    first, again, other = (command(*options, "pictures=0", f"seed={seed}") for seed in (3, 3, 4))
    assert _without_time(metrics_of(first.folder)) == _without_time(metrics_of(again.folder))
    assert _without_time(metrics_of(first.folder)) != _without_time(metrics_of(other.folder))


@pytest.mark.long
@pytest.mark.parametrize(
    "model", ["multihead", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nw", "seq2seq"))]
)
def test_testing_a_checkpoint_gives_what_the_run_gave(model: str, fitted, command) -> None:
    run = fitted(model)
    tested = command("stage=test", f"ckpt_path={run.folder}/checkpoints/best.ckpt")
    assert tested.status == 0, tested.err
    before, after = metrics_of(run.folder), metrics_of(tested.folder)
    assert {name: before[name] for name in METRICS[model]} == {name: after[name] for name in METRICS[model]}
    files = (run.folder / "config.yaml", tested.folder / "training.yaml")
    config, training = (read_yaml(path) for path in files)
    assert training["choices"]["model"] == model and training["trainer"] == config["trainer"]


def test_predicting_rebuilds_everything_from_the_checkpoint(
    fitted, command, tmp_path: Path, monkeypatch
) -> None:
    checkpoint = fitted("seq2seq").folder / "checkpoints" / "best.ckpt"
    moved = tmp_path / "elsewhere.ckpt"
    moved.write_bytes(checkpoint.read_bytes())
    done = command("stage=predict", f"ckpt_path={moved}", "inputs=[abc,zzz,q]")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["abc", "zzz", "q"]
    assert (done.folder / "predictions.tsv").read_text() == done.out
    assert len(list((done.folder / "attention").glob("*.png"))) == 3
    words = tmp_path / "words.txt"
    words.write_text("abc\nzzz\n")
    from_file = command("stage=predict", f"ckpt_path={moved}", f"inputs={words}")
    assert from_file.out.splitlines() == lines[:2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words.read_bytes())))
    assert command("stage=predict", f"ckpt_path={moved}", "inputs=-").out == from_file.out
    trained = attention_lab.load(moved)
    assert trained.predict(["abc", "zzz"]) == [line.split("\t")[1] for line in lines[:2]]
    (seen,) = trained.observe(["abc"])
    ((name, weights),) = seen.weights.items()
    written, _ = seen.labels(name)
    assert weights.shape == (1, len(written), 4)
    assert torch.allclose(weights.sum(-1), torch.ones(1, len(written)))


@pytest.mark.long
def test_the_command_line_wins_over_the_checkpoint(fitted, command) -> None:
    checkpoint = f"ckpt_path={fitted('seq2seq').folder}/checkpoints/best.ckpt"
    assert command("stage=test", checkpoint, "data=copy", *TOY).status == 0
    assert command("stage=test", checkpoint, "task.beam_size=3", "task.length_penalty=0.6").status == 0
    refused = command("stage=test", checkpoint, "scoring=dot")
    assert refused.status == 1
    assert refused.err == "Error: stage=test takes scoring from the checkpoint: leave out scoring=...\n"
    refused = command("stage=test", checkpoint, "data=digits")
    assert refused.err.startswith(
        "Error: data=digits is classification data, but the checkpoint needs transd"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        pytest.param(model, mechanism, marks=() if mechanism in OFTEN else pytest.mark.slow)
        for model in SMALL
        for mechanism in MECHANISMS
        if model != "multihead" or not mechanism.startswith("scoring")  # it has them as seq2seq has
    ],
)
def test_any_mechanism_trains_in_any_model_or_is_refused(model: str, mechanism: str, command) -> None:
    done = command(*SMALL[model], mechanism, "trainer.max_epochs=1", "data.batch_size=256")
    if find_incompatibility(dict([mechanism.split("=")], model=model)) is not None:
        assert done.status == 1
        assert f"model={model} does not take {mechanism}" in done.err
        return
    assert done.status == 0, done.err
    assert done.err == ""
    assert all(value == value for value in metrics_of(done.folder).values())


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ["callbacks=none", "logger=none", "optimizer=sgd", "schedule=constant", "normalizer.temperature=2.0"],
        ["trainer.precision=bf16-mixed", "task.label_smoothing=0.1", "schedule=inverse_sqrt"],
        [
            "callbacks=early_stopping",
            "logger=csv",
            "model.cell=gru",
            "model.layers=2",
            "model.wiring=luong",
            "model.input_feeding=true",
            "optimizer=adam",
        ],
        pytest.param(["data=sort"], marks=pytest.mark.slow),
    ],
    ids=lambda options: options[0],
)
def test_options_are_read(options: list[str], command) -> None:
    base = [option for option in SMALL["seq2seq"] if option != "data=reverse" or "data=sort" not in options]
    done = command(*base, "trainer.max_epochs=1", "pictures=0", *options)
    assert done.status == 0, done.err
    assert done.err == ""


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        ["model=nw", "scoring=query_free", "trainer.max_epochs=1", "trainer.precision=bf16-true"],
        ["model=graph", "data=graph8", "trainer.max_epochs=10", "trainer.precision=64-true"],
        [
            *("model=image2seq", "data=digit_strips", "data.train_size=4", "data.validation_size=2"),
            *("data.test_size=2", "data.max_digits=2", "model.channels=2", "model.embedding_size=4"),
            *("model.hidden_size=4", "trainer.max_epochs=1", "trainer.precision=bf16-true"),
        ],
    ],
    ids=lambda options: options[0],
)
def test_numbers_are_read_in_the_precision_of_the_model(options: list[str], command) -> None:
    done = command(*options, "pictures=1", "callbacks.attention_maps.examples=1")
    assert (done.status, done.err) == (0, "")
    assert list((done.folder / "attention").iterdir())


@pytest.mark.long
def test_averaged_weights_are_what_is_saved_and_tested(command) -> None:
    done = command(*SMALL["seq2seq"], "callbacks=ema")
    kept = torch.load(best := done.folder / "checkpoints" / "best.ckpt", weights_only=True)
    assert any(not kept["state_dict"][n].equal(kept["current_model_state"][n]) for n in kept["state_dict"])
    again = command("stage=test", f"ckpt_path={best}")
    assert metrics_of(again.folder)["test/loss"] == metrics_of(done.folder)["test/loss"]


@pytest.mark.slow
def test_a_sweep_gives_one_named_folder_for_each_job(command) -> None:
    done = command(
        "-m",
        "model=nw",
        "scoring=gaussian,laplacian",
        "seed=1,2",
        "trainer.max_epochs=1",
        "hydra.verbose=false",
    )
    assert done.status == 0, done.err
    names = sorted(path.name for path in done.folder.iterdir() if path.is_dir())
    assert len(names) == 4
    assert all("scoring-" in name and "seed-" in name for name in names)
    assert all((done.folder / name / "metrics.json").exists() for name in names)
