"""What runs are called in the tab: in the lists to choose from, and in views of two runs."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, SAVED_SVG, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import STATIC, AttentionRecord, encode

pytestmark = NEEDS_CHROMIUM

DAY = "2026-11-28"
SWEEP = [f"sweep_{DAY}_14-41-24/{job}/tensorboard" for job in (
    "0_scoring-additive_seed-1", "1_scoring-additive_seed-2", "4_scoring-scaled_dot_seed-1"
)]  # fmt: skip
ALONE = [f"{name}_scaled_dot_{DAY}_14-35-1{at}" for at, name in enumerate(("multihead/digits", "lm/words"))]
LATER = "lm/words_scaled_dot_2026-11-29_14-35-12"
OPTIONS = [f"g2p/cmudict_scoring=dot,window={one},model.hidden=256,seed=1,x={'y' * 20}" for one in "ab"]


def _module(name: str, **imports: str) -> str:
    """The address of a module of the viewer, with those of the modules that it imports."""
    text = (STATIC / "viewer" / f"{name}.js").read_text(encoding="utf-8")
    for imported, address in imports.items():
        text = text.replace(f"./{imported}.js", address)
    return f"data:text/javascript;base64,{b64encode(text.encode()).decode()}"


def _called(browser: Browser, names: list[str], function: str = "distinct") -> list[str]:
    module = _module("run_names", labels=_module("labels"))
    found = browser.run(f"import('{module}').then((own) => [...own.{function}({names!r})])")
    assert [name for name, _ in found] == names
    return [short for _, short in found]


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (
            [*SWEEP, *ALONE],
            [
                "sweep_14-41-24/0_scoring-additive_seed-1",
                "sweep_14-41-24/1_scoring-additive_seed-2",
                "sweep_14-41-24/4_scoring-scaled_dot_seed-1",
                "multihead/digits_scaled_dot_14-35-10",
                "lm/words_scaled_dot_14-35-11",
            ],
        ),
        (
            [*SWEEP[:2], LATER],  # of two days, so that these stay
            ["sweep_…0_scoring-additive_seed-1", "sweep_…1_scoring-additive_seed-2", LATER],
        ),
        (OPTIONS, ["scoring=dot,window=a", "scoring=dot,window=b"]),
        ([*OPTIONS, "lm"], ["g2p/…scoring=dot,window=a", "g2p/…scoring=dot,window=b", "lm"]),
        ([SWEEP[0]], ["sweep_14-41-24/0_scoring-additive_seed-1"]),
        (["a/b", f"{DAY}/14-41-24"], ["a/b", f"{DAY}/14-41-24"]),  # short as they are
    ],
)
def test_names_keep_their_score_their_time_and_what_tells_them_apart(
    browser: Browser, names: list[str], called: list[str]
) -> None:
    browser.open("about:blank", "true")
    assert _called(browser, names) == called


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (SWEEP[:2], ["0_scoring-additive_seed-1", "1_scoring-additive_seed-2"]),
        (SWEEP[1:], ["1_scoring-additive_seed-2", "4_scoring-scaled_dot_seed-1"]),
        ([SWEEP[2], ALONE[0]], ["4_scoring-scaled_dot_seed-1", "digits_scaled_dot"]),
        (ALONE, ["digits_scaled_dot", "words_scaled_dot"]),
        ([ALONE[0], f"{ALONE[0][:-1]}7"], ["14-35-10", "14-35-17"]),
        (
            [f"g2p/x_scoring=scaled_dot,window.width={one}" for one in "12"],
            ["window.width=1", "window.width=2"],
        ),
    ],
)
def test_titles_of_two_runs_are_short_enough_for_their_maps(
    browser: Browser, names: list[str], called: list[str]
) -> None:
    browser.open("about:blank", "true")
    assert _called(browser, names, "sideBySide") == called


def _resize(browser: Browser, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)


@pytest.fixture
def compared(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Opens a view of two runs in a window of 1280 pixels, and returns it as SVG."""
    runs = []
    for name, output in zip(SWEEP, ("ab", "abc", "axyz"), strict=True):
        weights = np.full((1, len(output), 2), 0.5, np.float32)
        record = AttentionRecord(
            weights, list(output), ["k", "l"], input="kl", output=output, module="decoder"
        )
        runs.append(Run(name, records={"example 1/decoder": {7: encode(record)}}))
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading("title"), runs), encoding="utf-8")
    _resize(browser, 1280)

    def opened(run: str, other: str, **view: str) -> str:
        browser.open(f"{path.as_uri()}#{urlencode({'run': run, 'with': other, **view})}")
        return str(browser.run(SAVED_SVG))

    yield opened
    browser.call("Emulation.clearDeviceMetricsOverride")


def _texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_titles_and_lists_have_room_for_the_names(compared: Callable[..., str], browser: Browser) -> None:
    titles = [text for text in _texts(compared(SWEEP[0], SWEEP[2])) if re.match("(A|B|B − A) · ", text)]
    assert titles == [
        "A · head 1 · 0_scoring-additive",
        "B · head 1 · 4_scoring-scaled_dot",
        "B − A · head 1 · first 1 × 2",
    ]
    cut = """[...document.querySelectorAll('.al-run select')].map((select) => {
      const copy = select.cloneNode(true);
      copy.style.maxWidth = 'none';
      select.parentElement.append(copy);
      const [wanted, shown] = [copy, select].map((one) => one.getBoundingClientRect().width);
      copy.remove();
      return Math.max(0, Math.round(wanted - shown));
    })"""
    assert browser.run(cut) == [0, 0]
    _resize(browser, 700)
    assert browser.run(cut) == [0, 0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("view", "side", "said"),
    [
        (
            "map",
            "all",
            "A is 2 × 2 and B is 4 × 2: B − A covers the first query, which is the same in both",
        ),
        ("lines", "all", ""),
        ("lines", "difference", "B − A can only be shown as a map, so both runs are shown"),
    ],
)
def test_a_view_without_a_difference_does_not_say_what_it_covers(
    compared: Callable[..., str], browser: Browser, view: str, side: str, said: str
) -> None:
    compared(SWEEP[0], SWEEP[2], view=view, side=side)
    assert browser.run("document.querySelector('.al-message').textContent") == said


BOTH = "A 0_scoring-additive · B 4_scoring-scaled_dot"


@pytest.mark.long
@pytest.mark.parametrize(
    ("side", "runs", "text"),
    [
        ("all", BOTH, "kl → A: ab · B: axyz"),
        ("difference", BOTH, "kl → A: ab · B: axyz"),
        ("a", SWEEP[0].removesuffix("/tensorboard"), "kl → ab"),
        ("b", SWEEP[2].removesuffix("/tensorboard"), "kl → axyz"),
    ],
)
def test_a_saved_view_names_its_runs_its_input_and_their_outputs(
    compared: Callable[..., str], browser: Browser, side: str, runs: str, text: str
) -> None:
    title, below, *_ = _texts(compared(SWEEP[0], SWEEP[2], side=side))
    whole = f"{runs} · example 1 · decoder · head 1 · step 7"
    assert whole.startswith(title.rstrip("…")) and len(title) > len(runs)
    assert below == text


@pytest.mark.long
@pytest.mark.parametrize("view", ["map", "lines"])
@pytest.mark.parametrize("side", ["all", "b"])
def test_the_longer_output_of_run_b_is_shown_to_its_end(
    compared: Callable[..., str], view: str, side: str
) -> None:
    assert {"x", "y", "z"} <= set(_texts(compared(SWEEP[0], SWEEP[2], view=view, side=side)))


@pytest.mark.long
def test_the_readout_tells_the_labels_of_two_runs_apart(
    compared: Callable[..., str], browser: Browser
) -> None:
    """Their outputs differ from the second query on, and run B's is longer."""
    facts = """[...document.querySelectorAll('.al-readout .al-fact')].map(
      (fact) => [...fact.children].map((part) => part.textContent))"""
    said = {}
    for query in (0, 1, 3):
        compared(SWEEP[0], SWEEP[2], query=str(query), key="0")
        said[query] = dict(browser.run(facts))
    assert (said[0]["query"], said[0]["key"]) == ("a (1)", "k (1)")
    assert (said[1]["A query"], said[1]["B query"], said[1]["key"]) == ("b (2)", "x (2)", "k (1)")
    assert (said[3]["query"], said[3]["B weight"]) == ("z (4)", "0.5000")
    for key in ("ArrowUp", "ArrowDown"):
        pressed = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})"
        browser.run(f"document.querySelector('.al-over').dispatchEvent({pressed})")
    assert dict(browser.run(facts)) == said[3]
