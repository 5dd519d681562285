"""Language models from the command line: words, own text, prompts, and the embeddings that are left."""

from pathlib import Path

import pytest
from folders import metrics_of
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import attention_lab
from attention_lab.data.synthetic.sentences import words_of_the_grammar

MODEL = ["model=lm", "model.d_model=8", "model.heads=2", "model.feedforward=8", "trainer.max_epochs=1"]
WORDS = [*MODEL, "data=words", "data.size=64", "data.validation_size=20", "data.test_size=20"]
GROUPS = {"scoring", "normalizer", "window", "pooling"}


def _text(folder: Path) -> list[str]:
    (folder / "my.txt").write_text("to be or not\tto be\n" * 40)
    return [*MODEL, "data=text", f"data.file={folder}/my.txt", "data.block_size=16"]


@pytest.mark.parametrize("data", ["words", pytest.param("text", marks=pytest.mark.slow)])
def test_a_run_leaves_heatmaps_samples_and_embeddings(data: str, command, tmp_path: Path) -> None:
    done = command(*(WORDS if data == "words" else _text(tmp_path)))
    assert done.status == 0, done.err
    # The text repeats itself, which is mentioned.
    assert done.err == "" if data == "words" else done.err.startswith("Warning: 1 of 1 passages")
    assert "perplexity" in done.out
    assert 1 < metrics_of(done.folder)["test/perplexity"] < 60
    events = EventAccumulator(str(done.folder), size_guidance={"images": 0}).Reload()
    tags = events.Tags()
    assert {tag.split("/", 2)[2] for tag in tags["images"]} == {"encoder layer 1", "encoder layer 2"}
    assert "samples/text_summary" in tags["tensors"]
    assert len([tag for tag in tags["scalars"] if tag.startswith("weights/heads/entropy/")]) == 4
    assert 'tensor_name: "embedding:' in (done.folder / "projector_config.pbtxt").read_text()
    (labels,) = done.folder.rglob("metadata.tsv")
    symbols = labels.read_text().splitlines()
    assert symbols == (
        ["<s>", "</s>", "<unk>", "'", *"abcdefghijklmnopqrstuvwxyz"]
        if data == "words"
        else ["<s>", "</s>", "<unk>", "\\t", "\\n", "␣", *"benort"]
    )


@pytest.mark.slow
def test_the_projector_shows_words(command) -> None:
    done = command(
        *MODEL, "data=sentences", "data.train_size=64", "data.validation_size=8", "data.test_size=8"
    )
    assert done.status == 0, done.err
    assert done.err == ""
    (labels,) = done.folder.rglob("metadata.tsv")
    assert labels.read_text().splitlines() == ["<s>", "</s>", "<unk>", *words_of_the_grammar()]
    vectors = (labels.parent / "tensors.tsv").read_text().splitlines()
    assert len(vectors) == 3 + len(words_of_the_grammar())
    checkpoint = f"ckpt_path={done.folder}/checkpoints/best.ckpt"
    predicted = command("stage=predict", checkpoint, "inputs=[the girl walks,'']")
    assert predicted.status == 0, predicted.err
    assert predicted.out.startswith("the girl walks\tthe girl walks")
    refused = command("stage=test", checkpoint, "data=words")
    assert refused.err == "Error: the model needs data=sentences, but this is data=words\n"


@pytest.mark.slow
def test_prompts_are_continued_as_the_command_line_says(command) -> None:
    fitted = command(*WORDS)
    checkpoint = f"ckpt_path={fitted.folder}/checkpoints/best.ckpt"
    predict = ["stage=predict", checkpoint, "inputs=[att,'',phil]"]
    done = command(*predict)
    assert done.status == 0, done.err
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [prompt for prompt, _ in rows] == ["att", "", "phil"]
    assert all(word.startswith(prompt) for prompt, word in rows)
    assert len(list((done.folder / "attention").glob("*.png"))) == 6
    assert command(*predict).out == done.out
    assert command(*predict, "seed=2").out != done.out
    assert attention_lab.load(fitted.folder / "checkpoints/best.ckpt").predict(["att"])[0].startswith("att")
    short = command("model=lm", *predict, "task.max_new_tokens=1", "task.temperature=0", "task.top_k=3")
    assert short.status == 0, short.err
    assert [len(line.split("\t")[1]) <= len(line.split("\t")[0]) + 1 for line in short.out.splitlines()] == [
        True
    ] * 3
    greedy = [command("model=lm", *predict, "task.temperature=0", f"seed={seed}").out for seed in (1, 2)]
    assert greedy[0] == greedy[1]
    refused = command("model=lm", *predict, "task.top_p=0")
    assert refused.err.endswith("best.ckpt: task.top_p must be above 0 and at most 1, got 0.0\n")
    refused = command("model=multihead", *predict)
    assert refused.err == "Error: stage=predict takes model from the checkpoint: leave out model=...\n"


@pytest.mark.slow
def test_a_checkpoint_is_tested_on_other_text(command, tmp_path: Path) -> None:
    fitted = command(*_text(tmp_path))
    checkpoint = f"ckpt_path={fitted.folder}/checkpoints/best.ckpt"
    again = command("stage=test", checkpoint)
    assert metrics_of(again.folder)["test/perplexity"] == metrics_of(fitted.folder)["test/perplexity"]
    (tmp_path / "other.txt").write_text("to be or not to be?\n" * 40)
    other = command("stage=test", checkpoint, "data=text", f"data.file={tmp_path}/other.txt")
    assert other.status == 0, other.err
    assert metrics_of(other.folder)["test/perplexity"] > metrics_of(fitted.folder)["test/perplexity"]
    refused = command("stage=test", checkpoint, "data=words")
    assert refused.err.startswith(
        "Error: the model needs data=text with data.unit=characters, but this is data=w"
    )


@pytest.mark.long
def test_a_line_of_predictions_stays_one(command, tmp_path: Path) -> None:
    fitted = command(*_text(tmp_path), "task.max_new_tokens=40", "task.temperature=3")
    done = command("stage=predict", f"ckpt_path={fitted.folder}/checkpoints/best.ckpt", "inputs=['',to,be]")
    assert [line.count("\t") for line in done.out.splitlines()] == [1, 1, 1]
    assert "\\n" in done.out or "\\t" in done.out
    assert (done.folder / "predictions.tsv").read_text() == done.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["data=text"], "data.train_file, data.validation_file and data.test_file are missing"),
        (["data=text", "data.file=none.txt"], "none.txt: No such file or directory"),
        (
            ["data=cmudict"],
            "model=lm needs language data, but data=cmudict is transduction data: for this data choose ",
        ),
        (["task.top_k=0"], "task.top_k must be at least 1, or null, got 0"),
        (["model.heads=3"], "model.d_model=8 must be a multiple of model.heads=3"),
    ],
)
def test_mistakes_are_one_line(options: list[str], message: str, command) -> None:
    done = command(*MODEL, *options)
    assert done.status == 1
    assert done.err.startswith(f"Error: {message}")
    assert done.err.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ["scoring=additive", "positions=alibi", "window=band"],
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                ["pooling=gumbel"],
                ["scoring=location", "positions=none"],
                ["scoring=linear", "positions=rotary"],
                ["window=local_p", "positions=learned", "tie_embedding=false"],
                ["normalizer=sparsemax", "positions=quadratic", "scale_embedding=false"],
            )
        ),
    ],
    ids=" ".join,
)
def test_any_mechanism_and_positions(options: list[str], command) -> None:
    done = command(*WORDS, *(one if one.split("=")[0] in GROUPS else f"model.{one}" for one in options))
    assert done.status == 0, done.err
    assert done.err == ""
    assert 1 < metrics_of(done.folder)["test/perplexity"] < 60
    predicted = command("stage=predict", f"ckpt_path={done.folder}/checkpoints/best.ckpt", "inputs=[ab,'']")
    assert predicted.status == 0, predicted.err


@pytest.mark.slow
def test_other_models_leave_their_embeddings_too(command, tmp_path: Path) -> None:
    toy = ["data.train_size=16", "data.validation_size=4", "data.test_size=4", "trainer.max_epochs=1"]
    small = ["model.embedding_size=6", "model.hidden_size=8"]
    texts = tmp_path / "texts.tsv"
    texts.write_text("".join(f"{'even' if n % 2 == 0 else 'odd'}\tnumber {n}\n" for n in range(30)))
    labelled = ["model=multihead", "data=labelled", f"data.file={texts}", "trainer.max_epochs=1"]
    for options, tables in (
        (["model=seq2seq", "data=reverse", *small, *toy], {"encoder.embedding", "decoder.embedding"}),
        (labelled, {"embedding"}),
        (["model=multihead", "trainer.max_epochs=1"], set()),  # vectors, not symbols
    ):
        done = command(*options)
        assert done.status == 0, done.err
        assert all(line.startswith("Warning: 3 words in ") for line in done.err.splitlines())
        found = {path.parent.name for path in done.folder.rglob("tensors.tsv")}
        assert found == tables
        assert (done.folder / "projector_config.pbtxt").exists() == bool(tables)
