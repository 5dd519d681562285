"""The tab's server in a TensorBoard of its own, with either of the data loaders."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_BLOB_SEQUENCE, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_INT32, DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard import SummaryWriter

from attention_lab.loggers.tensorboard import add_picture
from attention_lab.tensorboard_plugin import AttentionRecord, add_attention, decode, encode

STEPS = 25
"""More than the ten that TensorBoard would keep of a tag."""
DAMAGED = 200
WEIGHTS = torch.softmax(torch.arange(24.0).reshape(2, 3, 4) / 5, -1)
QUERIES, KEYS = ["x", "</script>", "日本語"], ["a", "", "שלום", "\x00"]
SPECIAL = "example 2/<b>&step=1 %2f 日本語"
QUOTED = 'say "yes"/decoder'

Blobs = tuple[bytes, ...]


def _event(
    tag: str, blobs: Blobs, step: int = 0, dims: tuple[int, ...] | None = None, **tensor: Any
) -> Event:
    """An event of the plugin with any content."""
    shape = TensorShapeProto(
        dim=[TensorShapeProto.Dim(size=size) for size in ((len(blobs),) if dims is None else dims)]
    )
    data = {"dtype": DT_STRING, "string_val": blobs, **tensor}
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name="attention_lab"),
        data_class=DATA_CLASS_BLOB_SEQUENCE,
    )
    value = Summary.Value(tag=tag, metadata=metadata, tensor=TensorProto(tensor_shape=shape, **data))
    return Event(step=step, wall_time=1.0 + step, summary=Summary(value=[value]))


def _good() -> Blobs:
    return encode(AttentionRecord(WEIGHTS.numpy(), QUERIES, KEYS, gold=np.array([0, 1, -1])))


def _damaged(tag: str, chance: random.Random) -> Event:
    """A damaged record."""
    header, body = _good()
    some = chance.randbytes(chance.randrange(1, 40))
    at = chance.randrange(len(header))
    values = [
        None,
        True,
        -1,
        10**30,
        0.5,
        "",
        [],
        {},
        [[]],
        "x" * 50,
        [1] * 3,
        [0, 3, 4],
        [2**31, 2**31, 2],
        [["x"]],
    ]
    fields = {**json.loads(header), chance.choice(list(json.loads(header))): chance.choice(values)}
    changes: list[Callable[[], Event]] = [
        lambda: _event(tag, (header[:at] + some + header[at + len(some) :], body)),
        lambda: _event(tag, (header[:at], body)),
        lambda: _event(tag, (json.dumps(fields).encode(), body)),
        lambda: _event(tag, (header, body[: chance.randrange(len(body))])),
        lambda: _event(tag, (header, body + some)),
        lambda: _event(tag, (body, header)),
        lambda: _event(tag, (some,) * chance.choice([0, 1, 2, 3, 5])),
        lambda: _event(tag, (b"[" * 50_000, body)),
        lambda: _event(
            tag, (header, body), dims=chance.choice([(), (0,), (1,), (3,), (2, 1), (1, 2), (-1, -2)])
        ),
        lambda: _event(
            tag, (header, body), dims=chance.choice([(10**12,), (2, 10**9), (-(10**12),), (2**62, 4)])
        ),
        lambda: _event(tag, (header,), dims=(2,)),
        lambda: _event(tag, (), dims=(2,), dtype=DT_FLOAT, float_val=[0.5, 1.0]),
        lambda: _event(tag, (header, body), dtype=chance.choice([DT_INT32, 0, 20, 120])),
        lambda: _event(tag, (), dims=(2,), tensor_content=some),
    ]
    return chance.choice(changes)()


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as training leaves it, and one with damaged records among good ones."""
    folder = tmp_path_factory.mktemp("logs")
    with SummaryWriter(folder / "good") as writer:
        for step in range(STEPS):
            add_attention(writer, "example 1/decoder", WEIGHTS ** (1 + step), QUERIES, KEYS, step, input="ab")
        add_attention(writer, SPECIAL, WEIGHTS, QUERIES, KEYS, -3)
        writer.add_scalar("loss", 0.5, 1)
        add_picture(writer, "attention/example 1/decoder", Image.new("RGB", (4, 4)), 0)
    quoted = EventFileWriter(str(folder / "quoted"))
    quoted.add_event(_event(QUOTED, _good()))
    quoted.close()
    chance = random.Random(0)
    bad = EventFileWriter(str(folder / "damaged"))
    for number in range(DAMAGED):
        bad.add_event(_damaged(f"damaged {number}", chance))
        if number % 20 == 0:
            bad.add_event(_event(f"good {number}", _good()))
    for step, blobs in enumerate([_good(), (b"{}", b""), _good()]):
        bad.add_event(_event("good and damaged", blobs, step))
    bad.close()
    return folder


@pytest.fixture(scope="session", params=["true", "false"], ids=["fast", "slow"])
def server(request: pytest.FixtureRequest, logs: Path, serving: Any, tmp_path_factory: Any) -> Iterator[Any]:
    """A TensorBoard with one of the data loaders; the fast one also has a prefix, and a hard one."""
    if request.param == "true":
        pytest.importorskip("tensorboard_data_server", reason="this platform has no fast data loader")
    output = tmp_path_factory.mktemp("server") / "output.txt"
    prefix = ["--path_prefix=/static/attention_lab/static"] if request.param == "true" else []
    with serving(logs, output, f"--load_fast={request.param}", *prefix) as one:
        yield one


def _decoded(body: bytes) -> AttentionRecord:
    (length,) = unpack_from("<I", body)
    return decode(body[4 : 4 + length], body[4 + length :])


def test_tensorboard_has_the_tab(server: Any) -> None:
    tab = server.get("data/plugins_listing").json["attention_lab"]
    assert tab["enabled"] is True
    assert tab["tab_name"] == "Attention"
    path = tab["loading_mechanism"]["module_path"].removeprefix(server.prefix)
    page = server.get(path)
    assert page.status == 200
    assert page.headers["Content-Type"].startswith("text/javascript")
    script = page.body.decode()  # of all modules: a page of thirty requests takes a second longer
    assert re.search(r"^export const { render }", script, re.M) and not re.search(r"^import ", script, re.M)
    entry = server.get("data/plugin_entry.html", name="attention_lab")
    assert entry.status == 200 and b"index.js" in entry.body


def test_every_step_is_there_and_step_0_too(server: Any) -> None:
    runs = server.ask("tags").json["runs"]
    series = runs["good"]["example 1/decoder"]
    assert series["steps"] == list(range(STEPS))
    assert series["wall_times"] == sorted(series["wall_times"]) and len(series["wall_times"]) == STEPS
    assert runs["good"].keys() == {"example 1/decoder", SPECIAL}
    for step in (0, 1, STEPS - 1):
        record = _decoded(server.record("good", "example 1/decoder", step).body)
        assert np.allclose(record.weights, WEIGHTS ** (1 + step), atol=1e-5)
        assert (record.queries, record.keys, record.input) == (QUERIES, KEYS, "ab")
    assert _decoded(server.record("good", SPECIAL, -3).body).queries == QUERIES


def test_a_record_that_the_browser_has_is_not_sent_again(server: Any) -> None:
    first = server.record("good", "example 1/decoder")
    assert first.headers["Content-Type"] == "application/octet-stream"
    again = server.ask(
        "record",
        run="good",
        tag="example 1/decoder",
        step=0,
        headers={"If-None-Match": first.headers["ETag"]},
    )
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("question", "query", "status", "message"),
    [
        ("record", {}, 400, "the request needs run="),
        ("record", {"run": "good", "step": 0}, 400, "the request needs tag="),
        ("record", {"run": "good", "tag": SPECIAL}, 400, "the request needs step="),
        ("record", {"run": "good", "tag": SPECIAL, "step": "0.5"}, 400, "step='0.5' is not a whole number"),
        ("record", {"run": "good", "tag": SPECIAL, "step": "9" * 5000}, 400, "is not a whole number"),
        ("record", {"run": "good", "tag": SPECIAL, "step": 10**30}, 404, "has no step 1000"),
        ("record", {"run": "good", "tag": SPECIAL, "step": 0}, 404, "has no step 0"),
        ("record", {"run": "good", "tag": "loss", "step": 1}, 404, "no attention under the tag 'loss'"),
        ("record", {"run": "bad\x00\ufffd", "tag": SPECIAL, "step": 0}, 404, "has no attention under"),
        ("record", {"run": "", "tag": "", "step": 0}, 404, "has no attention under"),
        ("tags", {"method": "POST"}, 405, "POST is not supported"),
        ("static/none.js", {}, 404, "no file 'none.js'"),
        ("static/../plugin.py", {}, 404, "no file"),
        ("static/..%2f..%2f__init__.py", {}, 404, "no file"),
        ("static/%2fetc%2fpasswd", {}, 404, "no file"),
        ("static/%00.js", {}, 404, "no file"),
        ("static/" + "x" * 5000, {}, 404, "no file"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered(
    server: Any, question: str, query: dict[str, Any], status: int, message: str
) -> None:
    answer = server.ask(question, **query)
    assert answer.status == status
    assert message in answer.json["error"]


def test_a_quotation_mark_in_a_tag_needs_the_slow_loader(server: Any) -> None:
    answer = server.record("quoted", QUOTED)
    if server.prefix == "/":
        assert _decoded(answer.body).keys == KEYS
    else:
        assert answer.status == 400 and "start TensorBoard with --load_fast=false" in answer.json["error"]


@pytest.mark.long
def test_damaged_records_are_refused_and_the_rest_is_readable(server: Any) -> None:
    refused = 0
    for number in range(DAMAGED):
        answer = server.record("damaged", f"damaged {number}")
        assert answer.status in (200, 400, 404), (number, answer.status, answer.body)
        if answer.status == 200:
            _decoded(answer.body)
        else:
            refused += 1
            assert answer.json["error"]
    assert refused > 0.7 * DAMAGED
    runs = server.ask("tags").json["runs"]
    assert {f"good {number}" for number in range(0, DAMAGED, 20)} <= runs["damaged"].keys()
    for number in range(0, DAMAGED, 20):
        assert _decoded(server.record("damaged", f"good {number}").body).keys == KEYS
    statuses = [server.record("damaged", "good and damaged", step).status for step in range(3)]
    assert statuses == [200, 400, 200]


@pytest.mark.long
def test_a_tensorboard_without_the_plugin_opens_the_same_logs(
    logs: Path, serving: Any, tmp_path: Path
) -> None:
    with serving(logs, tmp_path / "output.txt", "--load_fast=false", plugin=False) as server:
        assert "attention_lab" not in server.get("data/plugins_listing").json
        assert server.get("data/plugin/scalars/tags").json["good"].keys() == {"loss"}
        assert server.get("data/plugin/images/tags").json["good"].keys() == {"attention/example 1/decoder"}
        assert server.ask("tags").status == 404
