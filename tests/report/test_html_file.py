"""The report of a run as a file: what is in it, and what its content policy lets it do."""

import base64
import json
import re
import zlib
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from struct import unpack_from
from typing import Any

import numpy as np
import pytest

from attention_lab.report.html_file import (
    STEPS,
    Comparison,
    Heading,
    Result,
    Run,
    Table,
    make_page,
    spread,
)
from attention_lab.tensorboard_plugin import STATIC, AttentionRecord, decode, encode
from attention_lab.tensorboard_plugin.page import bundle

HOSTILE = "</script><script>alert(1)</script><!-- \0 \ud800"
TABLE = Table(HOSTILE, [HOSTILE], [HOSTILE], [[HOSTILE]], 0, [0], HOSTILE)
COMPARED = Comparison([TABLE], [HOSTILE], [HOSTILE])


class Page(HTMLParser):
    """The elements of a page, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self.inside] = self.texts.get(self.inside, "") + data

    @property
    def policy(self) -> str:
        return next(
            str(attributes["content"]) for tag, attributes in self.elements if "http-equiv" in attributes
        )

    @property
    def data(self) -> Any:
        return json.loads(self.texts["data"])

    def record(self, run: str, tag: str, step: int) -> AttentionRecord:
        number = self.data["records"][run][tag][str(step)]
        packed = zlib.decompress(base64.b64decode(self.texts[f"record-{number}"]))
        (length,) = unpack_from("<I", packed)
        return decode(packed[4 : 4 + length], packed[4 + length :])


def _run(name: str = "run", steps: int = 3, size: int = 2) -> Run:
    weights = np.random.default_rng(steps).dirichlet(np.ones(size), (1, size)).astype(np.float32)
    labels = [HOSTILE.replace("\ud800", ""), *map(str, range(size - 1))]
    blobs = encode(AttentionRecord(weights, labels, labels, input=HOSTILE))
    curves = {HOSTILE: [(step, float(step)) for step in range(3000)], "bad": [(0, float("nan")), (1, 2.0)]}
    return Run(
        name,
        {HOSTILE: "1"},
        [Result("test/x", "x", HOSTILE)],
        curves,
        {"t/m": dict.fromkeys(range(steps), blobs)},
    )


def test_what_a_run_brings_along_is_data_and_no_element() -> None:
    page = Page(make_page(Heading(HOSTILE, HOSTILE, HOSTILE), [_run()], COMPARED))
    kinds = [attributes.get("type") for tag, attributes in page.elements if tag == "script"]
    assert kinds == ["application/json", *["text/plain"] * 3, None]
    assert page.data["title"] == page.data["facts"] == page.data["command"] == HOSTILE
    (table,) = page.data["comparison"]["tables"]
    assert table["summaries"] == [HOSTILE] and page.data["comparison"]["links"] == [HOSTILE]
    assert page.data["runs"][0]["config"] == {HOSTILE: "1"}
    (result,) = page.data["runs"][0]["results"]
    assert result == {"metric": "test/x", "name": "x", "value": HOSTILE, "interval": "", "kind": "more"}
    assert [tag for tag, _ in page.elements].count("style") == 1


def test_the_title_of_the_window_has_no_characters_that_hide_or_turn_others() -> None:
    page = Page(make_page(Heading("a\x1b[31m\u202eb"), []))
    assert page.texts["title"] == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"


def test_the_policy_allows_the_script_and_the_style_of_the_page_alone() -> None:
    page = Page(make_page(Heading("title", "facts"), [_run()]))
    allowed = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for element, name in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(sha256(page.texts[element].encode()).digest()).decode()
        assert allowed[name] == f"'sha256-{digest}'"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.texts["script"] + page.texts["style"])


def test_records_come_back_as_they_were_logged() -> None:
    run = _run(steps=2)
    page = Page(make_page(Heading("title"), [run]))
    kept = page.record("run", "t/m", 1)
    assert np.array_equal(kept.weights, decode(*run.records["t/m"][1]).weights)
    series = {"steps": [0, 1], "input": HOSTILE, "shape": [1, 2, 2]}
    assert page.data["tags"] == {"run": {"t/m": series}} and page.data["thinned"] == ""


def test_of_many_steps_some_are_kept_the_first_and_the_last_among_them() -> None:
    page = Page(make_page(Heading("title"), [_run(steps=STEPS * 4)]))
    steps = page.data["tags"]["run"]["t/m"]["steps"]
    assert len(steps) == STEPS and steps[0] == 0 and steps[-1] == STEPS * 4 - 1
    assert f"{STEPS} of the {STEPS * 4}" in page.data["thinned"]
    curve = page.data["runs"][0]["curves"][HOSTILE]
    assert len(curve) == 1000 and curve[0] == [0, 0] and curve[-1] == [2999, 2999]
    assert page.data["runs"][0]["curves"]["bad"] == [[1, 2]]


def test_large_records_leave_room_for_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(steps=20, size=20)
    size = sum(map(len, run.records["t/m"][0]))
    monkeypatch.setattr("attention_lab.report.html_file.ROOM", size * 7)
    steps = Page(make_page(Heading("title"), [run])).data["tags"]["run"]["t/m"]["steps"]
    assert 1 < len(steps) <= 7 and steps[-1] == 19


def test_spread_is_even_with_both_ends() -> None:
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread("ab", 5) == ["a", "b"] and spread("abc", 1) == ["c"]


def test_the_bundle_has_every_module_before_those_that_need_it() -> None:
    script = bundle(STATIC / "report" / "report.js")
    made = re.findall(r"^const (module_\w+) = \(\(\) => \{", script, re.MULTILINE)
    assert len(made) == len(set(made)) >= len(list((STATIC / "viewer").glob("*.js")))
    for number, name in enumerate(made):
        body = script.split(f"const {name} = (() => {{")[1].split("\n})();\n")[0]
        assert set(re.findall(r"= (module_\w+);", body)) <= set(made[:number])


def test_a_bundle_refuses_what_it_does_not_understand(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('export default 1;\nimport "./b.js";\n')
    with pytest.raises(ValueError, match=r"a\.js has an import or export"):
        bundle(tmp_path / "a.js")
