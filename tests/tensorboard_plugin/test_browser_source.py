"""The viewer with a source that a test controls: late answers, many requests, runs that come and go."""

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from chromium import NEEDS_CHROMIUM, READY, Browser

from attention_lab.tensorboard_plugin import STATIC

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

START = """(async ({runs, view, held, heads}) => {
  const {createViewer} = await import('/viewer/viewer.js');
  const style = document.createElement('link');
  Object.assign(style, {rel: 'stylesheet', href: '/viewer/viewer.css'});
  await new Promise((done) => { style.onload = done; document.head.append(style); });
  const root = document.createElement('div');
  document.body.replaceChildren(root);
  document.body.style.margin = 0;
  const record = (step) => ({
    header: {kind: 'sequence', shape: [heads, 2, 2], queries: ['a', 'b'], keys: ['c', 'd']},
    weights: Uint16Array.from({length: 4 * heads}, (_, at) => ((at * 7919 + step * 104729) % 65534)),
  });
  const held_tags = [];
  Object.assign(window, {asked: [], waiting: [], runs, held, links: [], held_tags, hold_tags: false});
  const source = {
    tags: () => new Promise((answer) => {
      if (window.hold_tags) held_tags.push(answer); else answer({runs: window.runs});
    }),
    record: (run, tag, step) => new Promise((answer, refuse) => {
      window.asked.push(`${run} ${tag} ${step}`);
      if (tag.includes('damaged')) refuse(new Error('it is damaged'));
      if (window.held) window.waiting.push(() => answer(record(step)));
      else answer(record(step));
    }),
  };
  const link = {read: () => view, write: (now) => window.links.push(now), address: null};
  window.viewer = createViewer(root, source, {theme: {dark: () => false, watch: () => {}}, link});
  if (!held) window.viewer = await window.viewer;
})"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=STATIC)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def start(browser: Browser, address: str) -> Iterator[Callable[..., Browser]]:
    """Start the viewer on `runs`, `{run: {tag: steps}}`; if `held`, its requests wait in `waiting`."""

    def started(runs: dict[str, Any], view: str = "", held: bool = False, heads: int = 1) -> Browser:
        browser.open(address, "document.readyState === 'complete'")
        given = {"runs": _tags(runs), "view": view, "held": held, "heads": heads}
        browser.run(f"{START}({given!r})".replace("True", "true").replace("False", "false"))
        return browser

    yield started
    assert not browser.complaints()


def _tags(runs: dict[str, Any]) -> dict[str, Any]:
    return {run: {tag: {"steps": steps} for tag, steps in tags.items()} for run, tags in runs.items()}


def _modules(count: int, steps: list[int]) -> dict[str, list[int]]:
    return {f"example 1/layer {number}": steps for number in range(1, count + 1)}


def _reload(browser: Browser, runs: dict[str, Any]) -> None:
    browser.run(f"(window.runs = {_tags(runs)!r}, viewer.reload())")


def _press(browser: Browser, key: str) -> None:
    """Press a key, without waiting for its effect."""
    browser.run(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")


RUN = "document.querySelector('[aria-label=\"run A\"]').value"
SAID = "document.querySelector('.al-message').textContent"
ANSWER_ALL = """(async () => {
  for (let quiet = 0; quiet < 3; quiet += 1) {
    if (waiting.length) quiet = 0;
    waiting.splice(0).forEach((answer) => answer());
    await new Promise((done) => setTimeout(done, 5));
  }
})()"""


@pytest.mark.slow
def test_only_what_is_still_wanted_is_fetched(start: Any) -> None:
    steps = list(range(10))
    browser = start({"a": _modules(20, steps)}, held=True)
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    browser.run("asked.length = 0")
    slide = (
        "const s = document.querySelector('.al-slider'); s.value = %d; s.dispatchEvent(new Event('input'))"
    )
    for step in reversed(steps[:9]):
        browser.run(f"(() => {{ {slide % step} }})()")
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    asked = browser.run("asked")
    assert {one.split()[-1] for one in asked} == {"8", "0"} and len(asked) <= 26  # 6 were already under way
    assert browser.run("document.querySelector('.al-step').textContent") == "step 0 · 1 of 10"
    _press(browser, "ArrowRight")  # what was given up is fetched when it is wanted again
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    assert browser.run("document.querySelector('.al-message').hidden")


def test_a_late_list_of_runs_does_not_replace_a_newer_one(start: Any) -> None:
    browser = start({"a": _modules(1, [0])})
    browser.run("(window.hold_tags = true, viewer.reload(), viewer.reload(), 0)")
    old, new = _tags({"a": _modules(1, [0])}), _tags({"a": _modules(1, [0, 5])})
    browser.run(f"held_tags[1]({{runs: {new!r}}})")
    browser.wait("document.querySelector('.al-step').textContent === 'step 5 · 2 of 2'")
    browser.run(f"held_tags[0]({{runs: {old!r}}})")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert browser.run("document.querySelector('.al-step').textContent") == "step 5 · 2 of 2"


def test_a_linked_run_is_shown_once_the_log_has_been_read_so_far(start: Any) -> None:
    browser = start({"a": _modules(1, [0])}, view="run=z&head=0&query=1")
    assert browser.run(RUN) == "a" and browser.run(SAID) == "there is no run z in the log"
    browser.run("new Promise((done) => setTimeout(done, 200))")
    assert "run=z" in browser.run("links.at(-1)")
    _reload(browser, {"a": _modules(1, [0]), "z": _modules(1, [0])})
    assert browser.run(RUN) == "z" and browser.run("document.querySelector('.al-message').hidden")
    browser.run(f"(() => {{ const s = {RUN[:-6]}; s.value = 'a'; s.dispatchEvent(new Event('change')); }})()")
    browser.wait(READY)
    _reload(browser, {"a": _modules(1, [0]), "z": _modules(1, [0, 1])})
    assert browser.run(RUN) == "a"  # what was chosen since then stays


def test_nothing_is_shown_when_the_last_run_is_deleted(start: Any) -> None:
    browser = start({"a": _modules(1, [0])})
    _reload(browser, {})
    assert browser.run(SAID).startswith("No attention has been logged here yet")
    assert browser.run(
        "['figure', 'overview', 'readout'].every((one) => document.querySelector(`.al-${one}`).hidden)"
    )
    _reload(browser, {"b": _modules(1, [0])})
    assert not browser.run(
        "['figure', 'overview', 'readout'].some((one) => document.querySelector(`.al-${one}`).hidden)"
    )


FOCUS = "document.activeElement?.closest('.al-tile')?.title.split(':')[0]"


@pytest.mark.slow
@pytest.mark.parametrize("order", ["layer", "entropy"])
def test_the_list_of_heads_keeps_focus_and_place_from_step_to_step(start: Any, order: str) -> None:
    browser = start({"a": _modules(30, [0, 1])}, view=f"order={order}", held=True, heads=4)
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    browser.run("document.querySelectorAll('.al-tile')[9].focus({preventScroll: true})")
    browser.run("document.querySelector('.al-overview').scrollTop = 200")
    focused = browser.run(FOCUS)
    browser.run("document.activeElement.click()")
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    place = browser.run("document.querySelector('.al-overview').scrollTop")
    _press(browser, "ArrowLeft")
    browser.run("waiting.shift()()")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    tiles = "document.querySelectorAll('.al-tile').length"
    assert browser.run(tiles) == 120  # those that are being fetched stay as they were
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    assert browser.run(FOCUS) == focused and browser.run(tiles) == 120
    assert browser.run("document.querySelector('.al-overview').scrollTop") == place


@pytest.mark.slow
def test_the_chosen_head_is_brought_into_view_and_is_the_one_that_tab_leads_to(start: Any) -> None:
    browser = start({"a": _modules(40, [0])}, heads=8)
    parts = "['.al-overview', '.al-tile[aria-pressed=true]'].map((one) => document.querySelector(one))"
    inside = "([frame, box]) => box.top >= frame.top && box.bottom <= frame.bottom"
    seen = f"({inside})({parts}.map((one) => one.getBoundingClientRect()))"
    stops = "[...document.querySelectorAll('.al-tile[tabindex=\"0\"]')].map((one) => one.ariaPressed)"
    browser.run("document.querySelector('.al-tile').focus()")
    for key in "}}}}}}}}}}}}[":
        browser.press(key)
        assert browser.run(seen), key
        assert browser.run(stops) == ["true"]
    assert browser.run(FOCUS) == "layer 13, head 8"
    browser.run("document.querySelector('.al-overview').scrollTop = 0")
    browser.press("s")
    assert not browser.run(seen)  # the reader has moved away


def test_every_token_can_be_seen(browser: Browser, address: str) -> None:
    browser.open(address, "document.readyState === 'complete'")
    shown = {
        "": "∅",
        " \t": "␣␣",
        "\n": "↵",
        "\u200b": "U+200B",
        "\u200d\u00ad": "U+200D U+00AD",
        "\u0301": "◌\u0301",
        "e\u0301": "e\u0301",
        "👩\u200d🔬": "👩\u200d🔬",
    }
    found = f"import('/viewer/labels.js').then(({{token}}) => {list(shown)!r}.map(token))"
    assert browser.run(found) == list(shown.values())


def test_signs_have_names_and_the_focus_is_seen(start: Any) -> None:
    browser = start({"a": _modules(1, [0, 5, 9])})
    unnamed = "[...document.querySelectorAll('button:not([aria-label])')].filter((one) => !/[a-z]/i.test("
    assert browser.run(f"{unnamed}one.textContent)).map((one) => one.className)") == []
    slider = "document.querySelector('.al-slider').getAttribute('aria-valuetext')"
    assert browser.run(slider) == "step 9 · 3 of 3"
    live = "document.querySelector('.al-readout').getAttribute('aria-live')"
    assert browser.run(live) == "polite"
    over = "const over = document.querySelector('.al-over'), {x, y} = over.getBoundingClientRect();"
    move = "over.dispatchEvent(new PointerEvent('pointermove', {clientX: x + 90, clientY: y + 70}))"
    browser.run(f"(() => {{ {over} {move} }})()")
    assert browser.run(live) == "off"  # it would say every cell on the way
    browser.run("[...document.querySelectorAll('.al-tools button')].at(-1).focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9)
    assert browser.run("document.activeElement.className") == "al-over"
    assert browser.run("getComputedStyle(document.querySelector('.al-figure')).outlineStyle") == "solid"


@pytest.mark.slow
def test_a_map_fades_while_what_was_chosen_is_fetched(start: Any) -> None:
    browser = start({"a": _modules(2, [0, 1])}, held=True)
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    opacity = "Number(getComputedStyle(document.querySelector('.al-figure')).opacity)"
    _press(browser, "ArrowLeft")
    assert browser.run(opacity) == 1  # not at once, since most records arrive soon
    browser.wait(f"{opacity} < 0.5")
    browser.run("waiting.shift()()")
    browser.wait(f"{opacity} === 1")  # though the other module is not there yet
    browser.run(ANSWER_ALL)


@pytest.mark.slow
def test_playing_stopped_and_started_again_keeps_its_pace(start: Any) -> None:
    browser = start({"a": _modules(1, [0, 1, 2, 3, 4])}, held=True)
    browser.run(ANSWER_ALL)
    browser.wait(READY)
    browser.run("""(() => {
      const wait = setTimeout;
      window.frames_to_come = 0;
      window.setTimeout = (what, delay) => {
        window.frames_to_come += delay > 500;
        return wait(what, delay);
      };
    })()""")
    for _ in range(3):  # play, stop, play, while the first step is still being fetched
        _press(browser, " ")
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    browser.run(ANSWER_ALL)
    assert browser.run("frames_to_come") == 1
    _press(browser, " ")


def test_a_module_that_only_one_run_has_is_named(start: Any) -> None:
    browser = start({"a": _modules(2, [0]), "b": _modules(1, [0])}, view="run=a&with=b&module=layer 2")
    assert browser.run(SAID) == "run B: no attention named layer 2 on example 1"
    browser = start({"a": {"example 1": [0]}, "b": {"example 2": [0]}}, view="run=a&with=b")  # no names
    assert browser.run(SAID) == "run B: no attention on example 1"


def test_a_damaged_record_hides_no_other(start: Any) -> None:
    runs = {"a": {"example 1/damaged": [0], "example 1/whole": [0], "example 2/damaged": [0]}}
    browser = start(runs, view="example=example 1")
    maps = "document.querySelectorAll('.al-tile').length"
    for _ in range(2):
        assert browser.run(SAID) == "This record cannot be shown: it is damaged" and browser.run(maps) == 1
        browser.press("e")
        assert browser.run(SAID) == "This record cannot be shown: it is damaged" and browser.run(maps) == 0
        browser.press("e")
    browser.press("}")
    assert browser.run("document.querySelectorAll('.al-message:not([hidden])').length") == 0


def test_run_b_alone_may_lack_what_run_a_has(start: Any) -> None:
    browser = start({"a": _modules(2, [0]), "b": _modules(1, [0])}, view="run=a&with=b&side=b&module=layer 2")
    assert browser.run(SAID) == "run B: no attention named layer 2 on example 1"
    browser.press("c")
    assert browser.run("document.querySelector('.al-figure').hidden") is False
