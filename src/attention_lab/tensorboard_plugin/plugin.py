"""The server side of the Attention tab: it serves the series, the records and the tab's own page."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from struct import pack
from threading import Lock
from typing import Any

from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from tensorboard.data import provider
from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from attention_lab.tensorboard_plugin import PLUGIN, STATIC
from attention_lab.tensorboard_plugin.codec import decode
from attention_lab.tensorboard_plugin.description import read_description
from attention_lab.tensorboard_plugin.page import bundle

TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}
"""Content types of the page's files, by suffix; no other files are served."""

_ALL = 2**31 - 1  # all steps
_AT_ONCE = 8  # runs that are read in parallel: the fast data loader takes 40 ms for each, whatever its size
_BLOBS = 2  # parts of a record: header and body
_DECODING = Lock()  # a hostile header takes 40 times its size while it is decoded: at most one at a time does
_PLACES = 256  # most tags whose keys are kept
# Errors that TensorBoard raises for an invalid series or event.
_UNREADABLE = (errors.PublicError, ValueError, TypeError, LookupError, ArithmeticError)

_FAST = (
    "TensorBoard's fast loader reads no run or tag whose name has a quotation mark, a backslash or a control "
    "character: start TensorBoard with --load_fast=false"
)


class RequestError(Exception):
    """A request that cannot be answered; the message says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class AttentionPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Serves the tab's page and the records that `add_attention` wrote.

    TensorBoard's data provider holds the records; the plugin keeps only their keys.

    Args:
        context: the context that TensorBoard passes to its plugins.
    """

    plugin_name = PLUGIN

    def __init__(self, context: base_plugin.TBContext) -> None:
        super().__init__(context)
        self._provider: Any = context.data_provider
        self._known: dict[tuple[str, str, str], dict[int, tuple[str, ...]]] = {}

    def get_plugin_apps(self) -> dict[str, Any]:
        """The URLs below `data/plugin/attention_lab` and their handlers."""
        return {
            "/index.js": _app(_script),
            "/static/*": _app(
                lambda request: _file(request, request.path.partition(f"/{PLUGIN}/static/")[2])
            ),
            "/tags": _app(self._tags),
            "/record": _app(self._record),
        }

    def is_active(self) -> bool:
        """Return False: the tab is active only if TensorBoard itself finds data of the plugin."""
        return False

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """The tab's page is a JavaScript module, and its name is Attention."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Attention")

    def _tags(self, request: Request) -> Response:
        """The series of each run: `{"runs": {run: {tag: {"steps", "wall_times", "input", "shape"}}}}`.

        Input and shape are missing if the log does not contain them.
        """
        runs: dict[str, dict[str, dict[str, Any]]] = {}
        listed = self._listed(request)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda run: self._read(request, run, list(listed[run])), listed)
            for (run, tags), found in zip(listed.items(), read, strict=True):
                for tag, data in found.items():
                    steps, times = [one.step for one in data], [one.wall_time for one in data]
                    series = {"steps": steps, "wall_times": times, **tags.get(tag, {})}
                    runs.setdefault(run, {})[tag] = series
        return _respond(request, {"runs": runs}, "application/json")

    def _record(self, request: Request) -> Response:
        """A record: the length of the header in four bytes (little endian), the header and the body."""
        header, body = self._blobs(request, self._keys(request))
        return _respond(request, pack("<I", len(header)) + header + body, "application/octet-stream")

    def _keys(self, request: Request) -> tuple[str, ...]:
        """The data provider's keys for the blobs of the requested record."""
        run, tag, step = _argument(request, "run"), _argument(request, "tag"), _step(request)
        place = plugin_util.experiment_id(request.environ), run, tag
        known = self._known.get(place, {})
        if len(known.get(step, ())) != _BLOBS:  # the step is new, or was unreadable before
            if tag not in self._listed(request, run, tag).get(run, ()):
                raise RequestError(404, f"run {run!r} has no attention under the tag {tag!r}")
            events = self._read(request, run, [tag]).get(tag, ())
            known = {one.step: tuple(blob.blob_key for blob in one.values) for one in events}
            if len(self._known) >= _PLACES:
                self._known.clear()
            self._known[place] = known
        if step not in known:
            raise RequestError(404, f"the tag {tag!r} of the run {run!r} has no step {step}")
        return known[step]

    def _listed(self, request: Request, *only: str) -> dict[str, dict[str, dict[str, Any]]]:
        """The tags of each run, or of a given one, and their descriptions.

        Tags whose events claim more blobs than a record has are left out: for reading such an event,
        TensorBoard would make a key for each blob that it claims.
        """
        listed = self._ask(request, "list_blob_sequences", *only)
        found = {
            run: {
                tag: read_description(series.plugin_content or b"")
                for tag, series in tags.items()
                if (series.max_length or 0) <= _BLOBS
            }
            for run, tags in listed.items()
        }
        return {run: tags for run, tags in found.items() if tags}

    def _read(self, request: Request, run: str, tags: list[str]) -> dict[str, Any]:
        return dict(self._ask(request, "read_blob_sequences", run, *tags, downsample=_ALL).get(run, {}))

    def _ask(self, request: Request, question: str, *only: str, **options: Any) -> dict[str, Any]:
        """Query the data provider for everything, or for one run and some of its tags."""
        if self._provider is None:
            return {}
        run_and_tags = provider.RunTagFilter(runs=only[:1], tags=only[1:]) if only else None
        try:
            answer: dict[str, Any] = getattr(self._provider, question)(
                plugin_util.context(request.environ),
                experiment_id=plugin_util.experiment_id(request.environ),
                plugin_name=PLUGIN,
                run_tag_filter=run_and_tags,
                **options,
            )
        except _UNREADABLE as error:
            raise RequestError(400, f"the log cannot be read: {error}") from None
        return answer

    def _blobs(self, request: Request, keys: tuple[str, ...]) -> tuple[bytes, bytes]:
        """The header and the body of an event, if they are a record."""
        context = plugin_util.context(request.environ)
        try:
            if len(keys) != _BLOBS:
                raise ValueError("it does not consist of a header and weights")
            # The fast data loader takes 40 ms to answer, whatever the size.
            with ThreadPoolExecutor(_BLOBS) as pool:
                header, body = pool.map(lambda key: self._provider.read_blob(context, blob_key=key), keys)
            if not isinstance(header, bytes) or not isinstance(body, bytes):
                raise ValueError("its parts are not bytes")
            with _DECODING:
                decode(header, body)
        except _UNREADABLE as error:
            known = "failed to parse blob key" in str(error)
            raise RequestError(400, _FAST if known else f"this is not an attention record: {error}") from None
        return header, body


def _app(answer: Callable[[Request], Response]) -> Any:
    """A WSGI application that reports errors in a request as JSON with a 4xx status."""

    @Request.application
    def app(request: Request) -> Response:
        try:
            if request.method not in ("GET", "HEAD"):
                raise RequestError(405, f"{request.method} is not supported, use GET")
            return answer(request)
        except RequestError as refused:
            return _respond(request, {"error": str(refused)}, "application/json", code=refused.code)

    return app


def _respond(request: Request, content: Any, content_type: str, code: int = 200) -> Response:
    """A response; bytes get an ETag, so that a browser that already has them does not load them again."""
    response: Response = http_util.Respond(request, content, content_type, code=code)
    if isinstance(content, bytes):
        response.set_etag(sha256(content).hexdigest())
        response.make_conditional(request)
    return response


def _argument(request: Request, name: str) -> str:
    value = request.args.get(name)
    if value is None:
        raise RequestError(400, f"the request needs {name}=")
    return value


def _step(request: Request) -> int:
    text = _argument(request, "step")
    try:
        return int(text)
    except ValueError:
        raise RequestError(400, f"step={text[:40]!r} is not a whole number") from None


def _script(request: Request) -> Response:
    """The page's script in one file: requesting its thirty modules would take longer than the record."""
    return _respond(request, bundle(STATIC / "index.js", "render").encode(), TYPES[".js"])


def _files() -> Iterator[tuple[str, Path]]:
    """The names and paths of the files of the page."""
    for path in STATIC.rglob("*"):
        if path.suffix in TYPES and path.is_file():
            yield path.relative_to(STATIC).as_posix(), path


def _file(request: Request, name: str) -> Response:
    """A file of the page; names are looked up in a list of these files, so that none leads anywhere else."""
    path = dict(_files()).get(name)
    if path is None:
        raise RequestError(404, f"there is no file {name[:100]!r}")
    return _respond(request, path.read_bytes(), TYPES[path.suffix])
