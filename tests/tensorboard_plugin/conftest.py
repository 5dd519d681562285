"""A separate TensorBoard server on a free port, with logs of every kind."""

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

PLUGIN = "data/plugin/attention_lab"
WITHOUT = (
    "import tensorboard.default as default; default._iter_entry_points = lambda group: ();"
    "from tensorboard.main import run_main; run_main()"
)
"""TensorBoard as it is where no package brings a plugin."""


@dataclass(frozen=True)
class Answer:
    """The output of a server."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A running TensorBoard."""

    port: int
    prefix: str

    def get(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        """Its response to a request; `path` is below its prefix."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=60)
        try:
            connection.request(method, f"{self.prefix}{path}?{urlencode(query)}", headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def ask(self, question: str, **query: Any) -> Answer:
        """The plugin's response."""
        return self.get(f"{PLUGIN}/{question}", **query)

    def record(self, run: str, tag: str, step: int = 0) -> Answer:
        """The plugin's response to the request for a record."""
        return self.ask("record", run=run, tag=tag, step=step)


def _until(found: Callable[[], Any], process: "subprocess.Popen[bytes]", output: Path) -> Any:
    """Wait for a result; a server takes seconds to start and to read."""
    for _ in range(600):
        if value := found():
            return value
        assert process.poll() is None, output.read_text()
        time.sleep(0.02)
    raise AssertionError(output.read_text())


@contextmanager
def _serving(logs: Path, output: Path, *options: str, plugin: bool = True) -> Iterator[Server]:
    start = (
        [str(Path(sys.executable).with_name("tensorboard"))] if plugin else [sys.executable, "-c", WITHOUT]
    )
    with output.open("wb") as log:
        process = subprocess.Popen(
            [*start, "--logdir", str(logs), "--port", "0", *options],
            stdout=log,
            stderr=log,
            cwd=output.parent,
        )
    try:
        address = _until(
            lambda: re.search(r"at http://localhost:(\d+)(/\S*)", output.read_text()), process, output
        )
        server = Server(int(address[1]), address[2])
        runs = {str(path.parent.relative_to(logs)) for path in logs.rglob("*tfevents*")}
        _until(lambda: runs <= set(server.get("data/runs").json), process, output)
        yield server
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def serving() -> Callable[..., Any]:
    """Starts a TensorBoard: `with serving(logs, output, *options, plugin=True) as server`."""
    return _serving
