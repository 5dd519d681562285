"""What Hydra rejects is reported in one line, too."""

import pytest
from hydra.errors import HydraException


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("hydra.mode=test", "merging override hydra.mode=test: Invalid value 'test', expected one of [RUN, "),
        ("--help hydra.mode=test", "merging override hydra.mode=test: Invalid value 'test', expected"),
        ("--cfg job notes='${'", "merging override notes='${': "),
        ("--cfg job --resolve seed=${nosuch}", "Interpolation key 'nosuch' not found"),
        ("--info config ~hydra.run.dir", "merging override ~hydra.run.dir: "),
        ("~task.beam_size=3", "Could not delete from config. The value of 'task.beam_size' is 1 and not 3."),
        ("hydra/sweeper=nosuch", "In 'hydra/config': Could not find 'hydra/sweeper/nosuch' Available"),
        ("-m model=multihead,nw task.n_best=2", "there is no option task.n_best with some of the choices of"),
        ("sweep=optuna sweep.sampler.seed=x", "in call to target 'optuna.samplers._tpe.sampler.TPESampler'"),
        ("sweep=optuna hydra.sweep.dir=${oc.decode:null}", "hydra.sweep.dir: While dereferencing "),
        ("-m hydra.sweeper.max_batch_size=${run_name:}", "hydra.sweeper.max_batch_size: While deref"),
    ],
)
def test_an_error_of_hydra(arguments: str, message: str, command) -> None:
    done = command(*arguments.split())
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert line.startswith(f"Error: {message}")


def test_a_complete_stack_trace_can_be_asked_for(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(HydraException, match="merging override"):
        command("hydra.mode=test")


def test_the_message_about_a_file_goes_on_after_a_line_feed_in_its_name(command) -> None:
    done = command("stage=test", "ckpt_path='no\nsuch.ckpt'")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("Error: ckpt_path=no such.ckpt: no such file")
