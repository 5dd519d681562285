"""A hook of MkDocs: on the site, every arXiv number is a link to its paper."""

import re

_NUMBER = re.compile(r"(?<![\w./-])\d\d(?:0[1-9]|1[0-2])\.\d{4,5}(?![\w/-]|\.\w)(?![^<>]*(?:>|</a>))")
"""An arXiv number in text: neither part of a longer number or path, nor in a tag, nor in a link."""


def on_page_content(html: str, **_: object) -> str:
    """The content of a page, with a link from each arXiv number, such as 1706.03762."""
    return _NUMBER.sub(r'<a href="https://arxiv.org/abs/\g<0>">\g<0></a>', html)
