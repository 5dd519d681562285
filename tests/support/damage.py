"""Reproducible damage to files, for fuzz tests."""

import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attention_lab.errors import LabError

SECONDS = 20
"""Of the processor, after which a reader hangs."""
MEGABYTES = 500
"""What no reader of a tiny file may take."""
HOSTILE = [
    *(
        b"",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\t",
        b"\t\t",
        b'"',
        b"'",
        b",",
        b"|",
    ),
    *(b"9" * 400, b"-1", b"1e999", b"nan", b"-inf", b"0x" + b"f" * 6000, b"1" + b":1" * 60_000, b"9" * 5000),
    *(
        b"[" * 20_000,
        b"- " * 20_000,
        b"{a: " * 20_000,
        b"[[]]" * 50,
        b"*x",
        b"&x [*x]",
        b"<<: *x",
        b"? [a]\n: b",
    ),
    *(b"!!python/object/apply:os.mkdir [trace]", b"${oc.env:HOME}", b"${hydra:runtime.cwd}", b"${a", b"???"),
    *(b"</script><script>alert(1)</script>", "\u2028\u202e\ud7ff\U0010ffff".encode(), b"\x1b[2J", b"%s{}"),
    *(
        b"_target_: os.mkdir",
        b"2020-13-45",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"a: b: c",
        b"@",
        b"=",
        b"__proto__",
    ),
]
VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 2**31, 0.5, float("nan"), float("inf"), "", "x", "\x00", "${oc.env:HOME}"),
    *([], {}, [[]], [None], ["x"] * 3, [1, 2], {"a": 1}, {"_target_": "os.mkdir"}, "x" * 5000, b"x", ("a",)),
    *(
        "attention_lab.attention.Dot",
        "attention_lab.data.Text",
        "attention_lab.models.Ensemble",
        "???",
        "a\nb",
    ),
]
"""Of the wrong type, or out of range."""


def damaged(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` damaged copies of the content of a file."""
    chance = random.Random(seed)
    yield b""
    changes: list[Callable[[], bytes]] = [
        lambda: content[: chance.randrange(len(content))],
        lambda: content[chance.randrange(len(content)) :],
        lambda: _flipped(content, chance),
        lambda: _put(content, bytes(chance.randrange(1, 64)), chance),
        lambda: _put(content, chance.randbytes(chance.randrange(1, 64)), chance),
        lambda: _swapped(content, chance),
        lambda: chance.randbytes(chance.randrange(1, 500)),
        lambda: content.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b"\n\x00"])),
        lambda: chance.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\x00"]) + content,
        lambda: content.decode("utf-8", "replace").encode("utf-16"),
        lambda: chance.choice(HOSTILE),
        lambda: _inserted(content, chance.choice(HOSTILE), chance),
        lambda: _inserted(content, chance.choice(HOSTILE), chance),
        lambda: _field(content, chance.choice(HOSTILE), chance),
        lambda: _field(content, chance.choice(HOSTILE), chance),
    ]
    for number in range(count - 1):
        yield changes[number % len(changes)]()


def _flipped(content: bytes, chance: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 8, 64])):
        result[chance.randrange(len(result))] ^= 1 << chance.randrange(8)
    return bytes(result)


def _put(content: bytes, some: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + some + content[at + len(some) :]


def _inserted(content: bytes, some: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + some + content[at:]


def _swapped(content: bytes, chance: random.Random) -> bytes:
    a, b, c = sorted(chance.randrange(len(content) + 1) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def _field(content: bytes, some: bytes, chance: random.Random) -> bytes:
    """A word, or what stands between two separators, in place of another one."""
    separator = chance.choice([b"\n", b" ", b"\t", b",", b":"])
    fields = content.split(separator)
    fields[chance.randrange(len(fields))] = some
    return separator.join(fields)


def tampered(content: Any, chance: random.Random) -> Any:
    """Plain values with one of them, somewhere, replaced or left out; the rest is the same object."""
    if isinstance(content, dict) and content and chance.random() < 0.95:
        key = chance.choice(list(content))
        rest = {name: value for name, value in content.items() if name != key}
        act = chance.random()
        if act < 0.07:
            return rest
        if act < 0.12:
            return {**content, chance.choice(["_target_", "_args_", "_call_", "x", 1]): chance.choice(VALUES)}
        return {name: tampered(value, chance) if name == key else value for name, value in content.items()}
    if isinstance(content, list | tuple) and content and chance.random() < 0.7:
        place = chance.randrange(len(content))
        return [*content[:place], tampered(content[place], chance), *content[place + 1 :]]
    if type(content) is int and chance.random() < 0.6:
        return chance.choice([-content, content + 1, content * 1000, 2**31 - 1, 10**12, 0])
    return chance.choice(VALUES)


@contextmanager
def harmless(name: str) -> Iterator[list[str]]:
    """Lets a reader succeed, or say in one line with `name` in it what is wrong; gathers what it says.

    It must neither hang nor take much memory.
    """

    def late(*_: object) -> None:
        raise AssertionError(f"hangs for {SECONDS} s")

    said: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield said
    except LabError as error:
        said.append(str(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    assert all(name in text for text in said), f"names no file: {said[0][:300]}"
    assert all(len(text.splitlines()) == 1 for text in said), f"several lines: {said[0][:300]!r}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024
