"""Which data the plugin requests from TensorBoard's data provider."""

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorboard import errors
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from attention_lab.tensorboard_plugin import AttentionRecord, encode, plugin
from attention_lab.tensorboard_plugin.plugin import AttentionPlugin

GOOD = encode(AttentionRecord(np.ones((1, 1, 1), np.float32), ["x"], ["a"]))
ASKED = {"run": "run", "tag": "tag", "step": 0}


class Provider:
    """A data provider with the events of one series, step by step."""

    def __init__(self, events: dict[int, tuple[Any, ...]], claimed: int = 2) -> None:
        self.events, self.claimed = events, claimed
        self.asked: list[str] = []

    def _series(self, question: str, series: Any) -> Any:
        self.asked.append(question)
        return {"run": {"tag": series}}

    def list_blob_sequences(self, *_: Any, **__: Any) -> Any:
        return self._series("list", SimpleNamespace(plugin_content=b"", max_length=self.claimed))

    def read_blob_sequences(self, *_: Any, **__: Any) -> Any:
        events = [
            SimpleNamespace(
                step=step,
                wall_time=1.0,
                values=[SimpleNamespace(blob_key=f"{step}/{number}") for number in range(len(blobs))],
            )
            for step, blobs in self.events.items()
        ]
        return self._series("read", events)

    def read_blob(self, _: Any, *, blob_key: str) -> Any:
        step, number = map(int, blob_key.split("/"))
        if step not in self.events:
            raise errors.NotFoundError("gone")
        return self.events[step][number]


def _client(plugin: AttentionPlugin, question: str) -> Client:
    return Client(plugin.get_plugin_apps()[f"/{question}"])


def _ask(provider: Any, question: str = "record", **query: Any) -> TestResponse:
    plugin = AttentionPlugin(TBContext(data_provider=provider))
    return _client(plugin, question).get(query_string=query)


def test_a_known_series_is_not_read_again_until_it_has_more() -> None:
    provider = Provider({0: GOOD, 1: GOOD})
    client = _client(AttentionPlugin(TBContext(data_provider=provider)), "record")

    def status(step: int) -> int:
        return client.get(query_string={**ASKED, "step": step}).status_code

    assert [status(step) for step in (0, 1, 0)] == [200] * 3
    assert provider.asked == ["list", "read"]
    assert status(2) == 404
    provider.events[2] = (b"",)
    assert status(2) == 400
    provider.events[2] = GOOD  # the run has begun anew
    assert status(2) == 200
    del provider.events[0]
    assert status(0) == 400


def test_events_that_claim_to_be_huge_are_not_read() -> None:
    provider = Provider({0: GOOD}, claimed=10**12)
    assert _ask(provider, **ASKED).status_code == 404
    assert _ask(provider, "tags").json == {"runs": {}}
    assert provider.asked == ["list", "list"]


@pytest.mark.parametrize(
    "blobs", [(), GOOD[:1], (*GOOD, b""), GOOD[::-1], (GOOD[0], 5), (GOOD[0], np.ones(2)), (None, None)]
)
def test_events_that_are_no_records(blobs: tuple[Any, ...]) -> None:
    answer = _ask(Provider({0: blobs}), **ASKED)
    assert answer.status_code == 400
    assert answer.json is not None and answer.json["error"].startswith("this is not an attention record")


def test_one_record_is_decoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    client, at_once, most = (
        _client(AttentionPlugin(TBContext(data_provider=Provider({0: GOOD}))), "record"),
        [],
        [],
    )

    def slow(*_: bytes) -> None:
        at_once.append(1)
        time.sleep(0.02)
        most.append(len(at_once))
        at_once.pop()

    monkeypatch.setattr(plugin, "decode", slow)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get(query_string=ASKED).status_code, range(8)))
    assert answers == [200] * 8 and most == [1] * 8


def test_without_a_data_provider_there_is_nothing() -> None:
    assert _ask(None, "tags").json == {"runs": {}}
    assert _ask(None, **ASKED).status_code == 404


def test_a_log_that_cannot_be_read_is_told() -> None:
    provider = Provider({0: GOOD})
    provider.list_blob_sequences = lambda *_, **__: 1 / 0  # type: ignore[method-assign]
    answer = _ask(provider, "tags")
    assert (answer.status_code, answer.json) == (400, {"error": "the log cannot be read: division by zero"})


@pytest.mark.long
def test_few_keys_are_kept() -> None:
    provider = Provider({0: GOOD})
    plugin = AttentionPlugin(TBContext(data_provider=provider))
    provider._series = lambda question, series: {  # type: ignore[method-assign]
        "run": {f"tag {number}": series for number in range(600)}
    }
    for number in range(600):
        asked = {**ASKED, "tag": f"tag {number}"}
        assert _client(plugin, "record").get(query_string=asked).status_code == 200
    assert len(plugin._known) <= 256
