"""The command `g2p`: words to phones, from the command line or standard input."""

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from attention_lab.console_text import console_message, counted, printable
from attention_lab.errors import LabError, is_out_of_memory
from attention_lab.machine import check_system

if TYPE_CHECKING:
    from attention_lab.inference.pronunciation import Pronouncer

_CHUNK = 1 << 14  # bytes; about 2,000 words are answered at a time
_LONGEST_LINE = 1 << 20
_REPORTED = 10  # the largest number of unreadable words that are named
_SHOWN = 40


class _Word(NamedTuple):
    text: str
    parts: Sequence[str]
    place: str
    trouble: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status, which is 1 if any word could not be read."""
    options = _parser().parse_args(arguments)
    try:
        return _g2p(options)
    except LabError as error:
        print(console_message("Error", error), file=sys.stderr)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        lower = "give shorter words, a smaller --n-best, or a model with a smaller beam_size"
        print(console_message("Error", f"the machine is out of memory: {lower}"), file=sys.stderr)
    except OSError as error:  # from the output, for example because the disk is full
        print(console_message("Error", f"standard output: {error.strerror}"), file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attention_lab",
        description="Use the model that comes with the package.",
        epilog="python train.py trains and tests models; see python train.py --help.",
    )
    commands = parser.add_subparsers(title="commands", required=True)
    g2p = commands.add_parser(
        "g2p",
        help="convert words to phones (grapheme to phoneme)",
        description="Print `word<TAB>phones` for each word of the text, or of standard input. A line of "
        "standard input without words gives an empty line. Words that cannot be read, such as numbers, are "
        "reported on standard error, and the exit status is then 1.",
    )
    g2p.add_argument(
        "text", nargs="*", help="words; if none are given, lines of UTF-8 are read from standard input"
    )
    g2p.add_argument("--lexicon", action="store_true", help="use the CMU dictionary for words in it")
    g2p.add_argument(
        "--n-best",
        type=_count,
        default=1,
        metavar="N",
        help="print the N best pronunciations of each word: `word<TAB>rank<TAB>log-probability<TAB>phones`",
    )
    g2p.add_argument(
        "--model",
        default="g2p-english",
        metavar="NAME",
        help="a model that comes with the package, or a folder with one (default: %(default)s)",
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > _SHOWN or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN]} is not a number from 1 to 100")
    return int(text)


def _g2p(options: argparse.Namespace) -> int:
    check_system()
    if sys.stdout is None or (sys.stdin is None and not options.text):
        raise LabError("standard input or output is closed")
    given = " ".join(options.text).encode(errors="surrogateescape")
    pronouncer = _pronouncer(options)
    troubles = 0
    for lines, first in [([given], 0)] if options.text else _read(sys.stdin.buffer):
        found, undecodable = _words(lines, first, pronouncer.letters)
        sys.stdout.buffer.write(_answers(found, pronouncer, options.n_best).encode())
        sys.stdout.buffer.flush()
        for word in (one for words in found for one in words if one.trouble):
            troubles += 1
            if troubles <= _REPORTED:
                message = f"{word.place}{printable(word.text, _SHOWN)}: {word.trouble}"
                print(console_message("Error", message), file=sys.stderr)
        if undecodable is not None:
            raise LabError(f"{_place(undecodable)}not UTF-8; convert the text to UTF-8 first")
    if troubles > _REPORTED:
        message = f"{counted(troubles - _REPORTED, 'more word')} could not be read"
        print(console_message("Error", message), file=sys.stderr)
    return 1 if troubles else 0


def _pronouncer(options: argparse.Namespace) -> "Pronouncer":
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # see experiment._run
    gc.disable()  # a third of the time of importing torch would be spent on garbage collection
    from attention_lab.data.dictionary import dictionary_file, read_dictionary
    from attention_lab.inference.pretrained import pretrained
    from attention_lab.inference.pronunciation import Pronouncer

    dictionary = read_dictionary(dictionary_file()) if options.lexicon else {}
    pronouncer = Pronouncer(pretrained(options.model), dictionary, options.n_best)
    gc.freeze()
    gc.enable()
    return pronouncer


def _read(stream: BinaryIO) -> Iterator[tuple[list[bytes], int]]:
    """Yield lines as they arrive, several at once if available, with the number of the first."""
    if stream.isatty():
        print("Reading words from the terminal; end with Ctrl-D.", file=sys.stderr)
    number, rest = 1, b""
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]  # of a buffered stream
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise LabError(f"line {number + len(lines)} is longer than {_LONGEST_LINE >> 20} MiB")
        if lines:
            yield lines, number
        number += len(lines)
    if rest:
        yield [rest], number


def _words(
    lines: Sequence[bytes], first: int, letters: frozenset[str]
) -> tuple[list[list[_Word]], int | None]:
    """The words of each line before the first that is not UTF-8, and the number of that line."""
    found: list[list[_Word]] = []
    for number, line in enumerate(lines, start=first):
        try:
            tokens = line.decode("utf-8-sig" if number == 1 else "utf-8").split()
        except UnicodeDecodeError:
            return found, number
        place = _place(number)
        found.append([word for token in tokens if (word := _word(token, place, letters))])
    return found, None


def _place(line: int) -> str:
    """The place of a word in messages; text from the command line has the line number 0 and needs none."""
    return f"line {line}: " if line else ""


def _word(token: str, place: str, letters: frozenset[str]) -> _Word | None:
    """Read one word; None for punctuation."""
    from attention_lab.inference.words import word_parts

    try:
        parts = word_parts(token, letters)
    except LabError as error:
        return _Word(token, (), place, str(error))
    return _Word(token, parts, place) if parts else None


def _answers(found: Sequence[Sequence[_Word]], pronouncer: "Pronouncer", n: int) -> str:
    """The output for the words of several lines."""
    answers = iter(pronouncer([word.parts for words in found for word in words if word.parts]))
    rows = []
    for words in found:
        for word in words:
            shown = printable(word.text, len(word.text))
            outputs = (
                [(printable(phones, 10_000), score) for phones, score in next(answers)] if word.parts else []
            )
            if n == 1:
                rows.append(f"{shown}\t{outputs[0][0] if outputs else ''}")
            else:
                rows += [
                    f"{shown}\t{rank}\t{score:.4f}\t{phones}"
                    for rank, (phones, score) in enumerate(outputs, start=1)
                ]
        if not words:
            rows.append("")
    return "".join(f"{row}\n" for row in rows)
