"""A hook of MkDocs: on the site, arXiv numbers and "see `Name`" are links."""

import re

_NUMBER = re.compile(r"(?<![\w./-])\d\d(?:0[1-9]|1[0-2])\.\d{4,5}(?![\w/-]|\.\w)(?![^<>]*(?:>|</a>))")
"""An arXiv number in text: neither part of a longer number or path, nor in a tag, nor in a link."""
_SEE = re.compile(r"(\bsee\s+)<code>(\w+)</code>", re.IGNORECASE)


def on_page_content(html: str, **_: object) -> str:
    """The content of a page, with links to papers and to what is documented on the same page.

    An arXiv number, such as 1706.03762, becomes a link to its paper; `Name` in "see `Name`" becomes one to
    the description of `Name`, if the page has exactly one.
    """
    html = _NUMBER.sub(r'<a href="https://arxiv.org/abs/\g<0>">\g<0></a>', html)
    return _SEE.sub(lambda found: _linked(found, html), html)


def _linked(found: re.Match[str], html: str) -> str:
    see, name = found.groups()
    anchors = set(re.findall(rf'\bid="([\w.]+\.{name})"', html))
    return f'{see}<a href="#{anchors.pop()}"><code>{name}</code></a>' if len(anchors) == 1 else found[0]
