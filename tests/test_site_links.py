"""On the site of the documentation, arXiv numbers and names of classes are links."""

import runpy
from pathlib import Path

import pytest

HOOK = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "site_links.py"))
LINK = '<a href="https://arxiv.org/abs/1706.03762">1706.03762</a>'


@pytest.mark.parametrize(
    ("html", "linked"),
    [
        ("<p>1706.03762, section 3.5.</p>", f"<p>{LINK}, section 3.5.</p>"),
        ("<td>1706.03762</td>", f"<td>{LINK}</td>"),
        ("(1706.03762; 1409.0473)", f'({LINK}; <a href="https://arxiv.org/abs/1409.0473">1409.0473</a>)'),
        ("See 1706.03762.", f"See {LINK}."),
    ],
)
def test_arxiv_numbers_become_links(html: str, linked: str) -> None:
    assert HOOK["on_page_content"](html) == linked


@pytest.mark.parametrize(
    "html",
    [
        LINK,
        '<a href="x">paper <b>and</b> 1706.03762</a>',
        '<h3 id="section-1706.03762">',
        '<img alt="of 1706.03762" src="a.png">',
        "1713.03762",  # there is no thirteenth month
        "31706.03762 1706.037621 0.1706.03762 v1706.03762-2",
    ],
)
def test_other_text_stays_as_it_is(html: str) -> None:
    assert HOOK["on_page_content"](html) == html


def test_a_name_becomes_a_link_to_its_description_on_the_page() -> None:
    headings = '<h3 id="a.specs.ToySpec">ToySpec</h3><h3 id="a.One">One</h3><h3 id="b.One">One</h3>'
    links = '<a href="#a.specs.ToySpec"><code>ToySpec</code></a>'
    other = "see <code>One</code>, see <code>Absent</code>, <code>ToySpec</code>"
    for see in ("see ", "See ", "see\n"):
        html = f"{headings}{see}<code>ToySpec</code>, {other}"
        assert HOOK["on_page_content"](html) == f"{headings}{see}{links}, {other}"
