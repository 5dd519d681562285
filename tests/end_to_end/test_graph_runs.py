"""Complete runs on graphs from the command line."""

import json

import pytest


@pytest.mark.slow
def test_graph_attention_learns_the_karate_club(command) -> None:
    done = command("model=graph", "data=karate", "callbacks=none", "logger=none")
    assert done.status == 0, done.err
    metrics = json.loads((done.folder / "metrics.json").read_text())
    assert metrics["test/accuracy"] >= 0.9
    assert metrics["fit/steps"] == 100  # the graph is one batch
    pictures = sorted(path.name for path in (done.folder / "attention").iterdir())
    assert [name.split("_")[-1] for name in pictures] == [
        "layer-1.png",
        "layer-2.png",
    ]  # the graph is one example


@pytest.mark.slow
def test_a_trained_graph_labels_its_nodes(command) -> None:
    fitted = command("model=graph", "data=graph8")
    assert fitted.status == 0, fitted.err
    checkpoint = f"ckpt_path={fitted.folder}/checkpoints/best.ckpt"
    named = command("stage=predict", checkpoint, "inputs=[1,7,3]")
    assert named.status == 0, named.err
    assert named.out == "1\tleft\n7\tleft\n3\tright\n"
    assert len(list((named.folder / "attention").iterdir())) == 2  # one picture for each layer
    tested = command("stage=test", checkpoint)
    assert tested.status == 0, tested.err
    unknown = command("stage=predict", checkpoint, "inputs=[x]")
    assert "input 1: 'x' is not a node of the graph; its nodes are 1, 2, 3, 4, 5, 6, 7, 8" in unknown.err
    other = command("stage=test", checkpoint, "data=karate")
    assert "the model was trained on another graph" in other.err
    mixed = command("model=graph", "data=digits")
    assert "choose data=graph8, graph_files, karate" in mixed.err


def test_own_files_of_a_graph(command, tmp_path) -> None:
    (tmp_path / "nodes.tsv").write_text("".join(f"n{i}\t{'ab'[i % 2]}\n" for i in range(10)))
    (tmp_path / "edges.tsv").write_text("".join(f"n{i}\tn{i + 2}\n" for i in range(8)))
    done = command(
        "model=graph",
        "data=graph_files",
        "data.nodes=nodes.tsv",
        "data.edges=edges.tsv",
        "trainer.max_epochs=10",
    )
    assert done.status == 0, done.err
    assert "test/accuracy" in json.loads((done.folder / "metrics.json").read_text())
