"""Mistakes in options are reported in one line."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from attention_lab.commandline.choice_checks import check_choices
from attention_lab.commandline.flags import read_flags
from attention_lab.commandline.option_checks import check_arguments
from attention_lab.errors import LabError

CONF = Path(__file__).parents[2] / "conf"
TOY = ["model=seq2seq", "data=reverse", "data.train_size=32", "data.validation_size=4", "data.test_size=4"]


def _check_line(done, part: str) -> None:
    assert done.status != 0
    (line,) = done.err.splitlines()
    assert line.startswith("Error: ")
    assert part in line


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"data={__file__}", f"is a file: choose the kind of data, such as data=pairs data.file={__file__}"),
        (f"model=nw data={__file__}", f"such as data=csv_regression data.file={__file__}"),
        (f"model=lm data={__file__}", f"such as data=text data.file={__file__}"),
        (
            "data=my.tsv",
            "there is no file my.tsv: choose the kind of data, such as data=pairs data.file=my.tsv",
        ),
        (
            "model=lm data=/nowhere/my-data.txt",
            "there is no file /nowhere/my-data.txt: choose the kind of data, ",
        ),
        ("data=/nowhere/my", "data=/nowhere/my is unknown: choose cmudict, copy, "),
        (
            "data=my_package.data.Mine",
            "for a class of your own, add data._target_=my_package.data.Mine to one",
        ),
        ("model=./seq2seqq", "model=./seq2seqq is unknown (did you mean seq2seq?): choose cnn, "),
        ("data=my.ts", "such as model=multihead data=time_series data.file=my.ts"),
        (f"data={'b' * 300}.tsv", "there is no file bbb"),  # longer than a file's name can be
        (
            "model=nw data.file=a",
            "there is no option data.file; data=csv_regression, image_files, inflection, la",
        ),
        (
            "model=bahdanau",
            "(did you mean model=seq2seq model.wiring=bahdanau scoring=additive?): choose",
        ),
        ("model=LSTM", "(did you mean model=rnn to classify, or model=seq2seq to generate?)"),
        (
            "scoring=luong",
            "(did you mean scoring=dot, general, concat or location?)",
        ),
        (
            "scoring=softmax",
            "(did you mean normalizer=softmax?): choose additive,",
        ),
        ("scoring=local_p", "scoring=local_p is unknown (did you mean window=local_p?)"),
        ("gpu=0", "there is no option gpu; did you mean trainer.accelerator=gpu?"),
        ("trainer.gpus=1", "there is no option trainer.gpus; did you mean trainer.devices?"),
        ("num_hiddens=8", "there is no option num_hiddens; did you mean model.hidden_size?"),
        ("scoring.hidden=8", "there is no option scoring.hidden; did you mean scoring.hidden_size?"),
        ("attention=dot", "there is no option attention; did you mean scoring=...?"),
        ("seed=abc", "seed=abc must be a whole number, such as 1"),
        (
            "scoring=additive,dot",
            "scoring=additive,dot has several values: add -m to run each of them in a sweep",
        ),
        ("tags=a,b", "tags=a,b has several values: for a list write 'tags=[a,b]', for a sweep add -m"),
        ("tags={a:1}", "tags={'a': 1} must be a list, as in 'tags=[one,two]'"),
        ("data={a:1}", "data={'a': 1} is unknown: choose cmudict, copy"),
        ("data.train_file=a", "there is no option data.train_file; data=csv_regression, image_files, "),
        ("seed=null", "seed=null must be a whole number, such as 1"),
        ("-m seed=1,b", "seed=b must be a whole number, such as 1"),
        ("optimizer.lr=nan", "optimizer.lr=nan must be a number, such as 0.002"),
        ("model.layers=1.5", "model.layers=1.5 must be a whole number, such as 1"),
        ("trainer.max_steps=1e5", "trainer.max_steps=100000.0 must be a whole number, such as 100000"),
        ("model.residual=maybe", "model.residual=maybe must be true or false"),
        ("monitor=loss", "set its options: monitor.metric, monitor.mode"),
        ("callbacks.progress_bar=null", "to remove it, write ~callbacks.progress_bar"),
        (
            "callbacks.embeddings=false",
            "callbacks.embeddings=false: to remove it, write ~callbacks.embeddings",
        ),
        ("callbacks.progress_bar={rate:1}", "there is no option callbacks.progress_bar.rate"),
        ("callbacks.progress_bar={refresh_rate:x}", "progress_bar.refresh_rate=x must be a whole number"),
        (
            "optimizer._target_=''",
            "optimizer._target_= must be the name of a class, such as my_package.MyClass",
        ),
        (
            "~model._target_",
            "~model._target_: model._target_ cannot be left out: set it with model._target_=...",
        ),
        (
            "~monitor.metric",
            "~monitor.metric: monitor.metric cannot be left out: set it with monitor.metric=...",
        ),
        ("~trainer.default_root_dir", "trainer.default_root_dir cannot be left out: set it with"),
        ("trainer.devices=100000", "trainer.devices=100000: choose at most 1024"),
        ("model.layers=1000000", "model.layers=1000000: choose at most 10000"),
        ("pooling._target_={}", "pooling._target_={} must be the name of a class"),
        ("schedule=[]", "schedule=[]: choose constant, cosine, inverse_sqrt"),
        ("threads=true", "threads=true must be a whole number, or null"),
        ("modle=seq2seq", "there is no option modle; did you mean model?"),
        ("+modle=seq2seq", "there is no option modle; did you mean model?"),
        ("modle.layers=2", "there is no option modle.layers; did you mean model.layers?"),
        ("lr=0.1", "there is no option lr; did you mean optimizer.lr?"),
        ("+lr=0.1", "there is no option lr; did you mean optimizer.lr?"),
        ("epochs=3", "there is no option epochs; did you mean trainer.max_epochs?"),
        ("model=multihead heads=2", "there is no option heads; did you mean model.heads?"),
        ("model=multihead model.num_heads=2", "no option model.num_heads; did you mean model.heads?"),
        ("model=seq2seq model.beam=5", "there is no option model.beam; did you mean task.beam_size?"),
        (
            "model=seq2seq model.num_heads=2",
            "there is no option model.num_heads; model=graph, lm, multihead, transformer have model.heads",
        ),
        (
            "hidden_size=8",
            "there is no option hidden_size; did you mean scoring.hidden_size or model.hidden_size?",
        ),
        ("model.hiden_size=3", "there is no option model.hiden_size; did you mean model.hidden_size?"),
        (
            "~logger",
            "~logger: logger cannot be left out: choose logger=csv, mlflow, none, tensorboard, wandb",
        ),
        ("~schedule=cosine", "~schedule=cosine: schedule cannot be left out: choose schedule=constant, "),
        ("~pictures", "~pictures: pictures cannot be left out: set it with pictures=..."),
        ("~callbacks.progess_bar", "did you mean callbacks.progress_bar?"),
        ("data.min_length=5", "repeat, reverse, sort have it; data has size, stress"),
        ("data.train_size=5", "there is no option data.train_size; did you mean data.size?"),
        ("data=reverse data.size=5", "there is no option data.size; did you mean data.train_size?"),
        ("model.d_model=64", "there is no option model.d_model; did you mean model.hidden_size?"),
        ("model=transformer model.hidden_size=64", "model.hidden_size; did you mean model.d_model?"),
        (
            "data.test_file=a",
            "there is no option data.test_file; data=csv_regression, image_files, ",
        ),
        ("debug=null", "debug=null: leave it out to choose nothing, or choose default, fast_dev_run"),
        (
            "trainer.limit_val_batches=2",
            "there is no option trainer.limit_val_batches: if the class of trainer takes it, add it with "
            "+trainer.limit_val_batches=...; trainer has default_root_dir, accelerator, ",
        ),
        ("theorem.kernels=[1]", "there is no option theorem.kernels: theorem has none"),
        ("+seed=2", "the option seed already exists: leave out the + before it"),
        ("search=seq2seq", "no search to choose here: leave it out, or choose sweep=optuna sweep.space=..."),
        ("sweep/pruner=none", "no sweep/pruner to choose here: leave it out, or choose sweep=optuna"),
        ("encoder=cnn", "no encoder to choose here: leave it out, or choose experiment=crossover"),
        ("foo", "foo is not an option: write name=value, such as seed=2; a value with spaces"),
        ("x" * 300, "is not an option: write name=value"),  # longer than a file's name can be
        ("@pictures=3", "@pictures=3 is not an option: write name=value, such as seed=2"),
        (f"tags={'[' * 500}{']' * 500}", "... cannot be read: it has more than 30 levels of options"),
        ("sweep=optuna sweep/pruner=5", "sweep/pruner=5 is unknown: choose hyperband, median, none"),
        ("multihead", "multihead is not an option: did you mean model=multihead?"),
        ("constant", "constant is not an option: did you mean schedule=constant or scoring=constant?"),
        ("pooling = hard", "pooling is not an option: write pooling=..., without spaces: choose exact, "),
        ("model=nw data.inputs=3 --cfg job", "there is no option data.inputs"),
        ("--cfg job -m", "--cfg and --multirun cannot be combined"),
        ("inputs=[a", "inputs=[a: a ] is missing at the end; a value with spaces needs quotes"),
        ("inputs=[汉字]", """as in 'inputs=["汉字"]'"""),
        ("inputs=a=b", """as in 'inputs="a=b"'"""),
    ],
)
def test_arguments(arguments: str, message: str, command) -> None:
    """Wrong arguments are rejected before anything heavy is imported."""
    _check_line(command(*arguments.split()), message)


@pytest.mark.parametrize(
    ("given", "option"), [([], "hydra.run.dir"), (["-m", "seed=1,2"], "hydra.sweep.dir")]
)
def test_a_folder_that_cannot_be_written(given: list[str], option: str, command) -> None:
    reason = f"cannot write in /proc: No such file or directory; choose another folder with {option}=..."
    _check_line(command(*given, folder=Path("/proc/foo")), reason)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("window.width=3", "window.width; window=band, local_m, local_p have it; window has none"),
        (
            "normalizer.learnable=1",
            "normalizer.learnable; normalizer=sink has it; normalizer has temperature",
        ),
        (
            "normalizer=sparsemax normalizer.learnable=1",
            "normalizer.learnable: if the class of normalizer takes it, add it with "
            "+normalizer.learnable=...; normalizer has temperature",
        ),
        ("sweep.trials=3", "sweep.trials; sweep=optuna has it"),
        ("model=transformer heads=4", "heads; did you mean model.heads?"),
        *(
            (f"model={model} heads=4", "heads; model=graph, lm, multihead, transformer have model.heads")
            for model in ("nw", "seq2seq", "image2seq", "cnn", "rnn")
        ),
        (
            "model=nw num_layers=2",
            "num_layers; model=cnn, graph, image2seq, lm, multihead, rnn, seq2seq, transformer have "
            "model.layers",
        ),
        ("model=lm beam=5", "beam; choose model=seq2seq, transformer or image2seq for task.beam_size"),
        (
            "model=cnn task.beam_size=5",
            "task.beam_size; choose model=seq2seq, transformer or image2seq for it; "
            "task has label_smoothing, n_best",
        ),
        ("trainer.batch_size=2", "trainer.batch_size; did you mean data.batch_size?"),
        ("model.seed=2", "model.seed; did you mean seed?"),
        ("model.window=band", "model.window; did you mean window?"),
        ("monitor.foo=3", "monitor.foo: monitor has metric, mode"),
        ("model.hiden_size=3", "model.hiden_size; did you mean model.hidden_size?"),
        ("modle.foo=3", "modle.foo; did you mean model.foo?"),
    ],
)
def test_the_message_about_an_unknown_option(arguments: str, message: str) -> None:
    with pytest.raises(LabError) as found:
        check_arguments(arguments.split(), CONF)
    assert str(found.value) == f"there is no option {message}"


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    "arguments",
    [
        "optimizer.lr=1 model.residual=0 trainer.check_val_every_n_epoch=null data.size=null",
        "trainer.devices=auto +trainer.limit_val_batches=0.5 trainer.precision=16-mixed",
        "callbacks.resumable.every_seconds=0.5 ~callbacks.progress_bar ++seed=3 ~debug",
        "+size=64 model.hidden_size=${size}",
        "+callbacks.own={_target_:a.B,x:3} callbacks.own.x=4",
        "scoring._target_=own.Score scoring.compiled=3 scoring.activation=null",
        "model._target_=own.Model model.layers=[1,2]",
        "-m model=seq2seq,transformer model.dropout=0.1,0.2 seed=range(3)",
        "sweep=optuna sweep.trials=5 optimizer.lr=tag(log,interval(1e-4,1e-2)) sweep/pruner=none",
        "experiment=crossover model=cnn trainer.val_check_interval=0.5 data.seed=3",
        "experiment=conv_equivalence theorem.kernels=[1] theorem.sharpness=3",
        "pooling=hard pooling.baseline=true",  # as it was written before it had names
        "+mechanism=band window.width=3 hydra.run.dir=logs/x",
        "model=nw data.batch_size=3 --cfg job",
    ],
)
def test_valid_options_pass(arguments: str) -> None:
    check_arguments(read_flags(arguments.split()).overrides, CONF)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("model=seq2seq ~task", "~task: task cannot be left out: choose task=transduction"),
        ("~schedule=constant", "~schedule=constant: schedule cannot be left out: choose schedule=constant, "),
        ("model=lm ~task", "~task: there is no task to choose here: leave it out, or choose model=seq2seq, "),
        ("~encoder", "~encoder: there is no encoder to choose here: leave it out, or choose experiment=cr"),
        ("~sweep/sampler", "~sweep/sampler: there is no sweep/sampler to choose here: leave it out, or cho"),
        (
            "sweep=optuna ~sweep/pruner",
            "~sweep/pruner: sweep/pruner cannot be left out: choose sweep/pruner=",
        ),
        (
            "sweep=optuna ~sweep.pruner",
            "~sweep.pruner: sweep.pruner cannot be left out: choose another with sweep/pruner=...",
        ),
        ("~logger.tensorboard", ""),
        ("~callbacks.checkpoint", ""),
        ("experiment=mine ~size", ""),
        ("experiment=mine ~own", ""),
        ("experiment=mine ~scoring@second", ""),
        ("+size=3 ~size", ""),
    ],
)
def test_what_can_be_left_out(arguments: str, message: str, tmp_path: Path) -> None:
    for name in ("experiment/mine", "own/a"):
        (tmp_path / f"{name}.yaml").parent.mkdir()
    (tmp_path / "own" / "a.yaml").write_text("x: 1\n")
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [/own: a, /scoring@second: dot]\nsize: 3\n"
    )
    with pytest.raises(LabError, match=f"^{message}") if message else nullcontext():
        check_choices(["--config-dir", str(tmp_path), *arguments.split()], CONF)


@pytest.mark.long
def test_a_custom_class(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that it does not take are named; an error raised by its code is shown with a traceback."""
    code = "def Small(query_size, key_size, heads):\n    pass\nclass Broken:\n    def __init__(self, **_):\n"
    (tmp_path / "own_scores.py").write_text(f"{code}        raise ValueError('of its own')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = command(*TOY, "scoring._target_=own_scores.Small")
    _check_line(done, "are not options of Small: leave them out, or remove those in conf/ with ~scoring.")
    done = command(*TOY, "scoring._target_=own_scores.Broken")
    assert "Traceback" in done.err
    assert "ValueError: of its own" in done.err
