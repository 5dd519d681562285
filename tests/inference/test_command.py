"""`python -m attention_lab g2p`: what it prints, for words and for anything else."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_models import transduction

import attention_lab
from attention_lab.inference import command
from attention_lab.inference.command import main
from attention_lab.inference.trained_model import TrainedModel

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    TrainedModel(transduction()).export(folder / "model.safetensors")
    return folder


@pytest.fixture
def g2p(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs the command with a small model; returns status, standard output and standard error."""
    monkeypatch.setattr(command.gc, "freeze", lambda: None)  # objects of the test process
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000")

    def run(*arguments: str, stdin: bytes | io.RawIOBase = b"") -> tuple[int, str, str]:
        raw = io.BytesIO(stdin) if isinstance(stdin, bytes) else io.BufferedReader(stdin)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        try:
            status = main(["g2p", "--model", str(folder), *arguments])
        except SystemExit as error:
            status = int(error.code or 0)
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return run


def test_words_are_printed_with_their_phones(g2p: Run, folder: Path) -> None:
    hello, attention = attention_lab.pretrained(folder).predict(["hello", "attention"])
    shown = f"Hello,\t{hello}\nattention\t{attention}\n"
    assert g2p("Hello, attention") == g2p("Hello,", "attention") == (0, shown, "")
    assert g2p(stdin=b"Hello, - attention") == (0, shown, "")


def test_lines_are_answered_line_by_line(g2p: Run) -> None:
    status, out, _ = g2p(stdin=b"a\n\n-- \r\nb c\r\n")
    assert status == 0
    assert [line.partition("\t")[0] for line in out.split("\n")] == ["a", "", "", "b", "c", ""]


def test_a_byte_order_mark_is_not_part_of_the_first_word(g2p: Run) -> None:
    assert g2p(stdin=b"\xef\xbb\xbfa\r\nb\r\n") == g2p(stdin=b"a\nb\n")


def test_lines_are_answered_as_they_come(g2p: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Slow(io.RawIOBase):
        """Gives one line, looks whether it was answered, and gives another."""

        def __init__(self) -> None:
            self.lines = [b"a\nb", b"c\n", b""]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            seen.append(asked)
            line, *self.lines = self.lines
            buffer[: len(line)] = line
            return len(line)

    asked = 0
    answers = command._answers

    def counted(found: Any, *more: Any) -> str:
        nonlocal asked
        asked += 1
        return answers(found, *more)

    monkeypatch.setattr(command, "_answers", counted)
    _, out, _ = g2p(stdin=Slow())
    assert [line.partition("\t")[0] for line in out.split("\n")] == ["a", "bc", ""]
    assert seen[:2] == [0, 1]


def test_the_dictionary_and_the_n_best(g2p: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dict").write_text("hello HH AH0 L OW1\nhello(2) HH EH0 L OW1\n")
    monkeypatch.setattr("attention_lab.data.dictionary.dictionary_file", lambda: str(tmp_path / "dict"))
    assert g2p("--lexicon", "hello") == (0, "hello\tHH AH L OW\n", "")
    _, out, _ = g2p("--lexicon", "--n-best", "2", "hello")
    assert out == "hello\t1\t0.0000\tHH AH L OW\nhello\t2\t0.0000\tHH EH L OW\n"
    _, out, _ = g2p("--n-best", "3", "hello")
    rows = [row.split("\t") for row in out.splitlines()]
    assert [row[:2] for row in rows] == [["hello", "1"], ["hello", "2"], ["hello", "3"]]
    assert 0 > float(rows[0][2]) >= float(rows[1][2]) >= float(rows[2][2])


def test_what_cannot_be_read_is_named_and_the_rest_answered(g2p: Run) -> None:
    status, out, err = g2p(stdin="a 42\n\nb hello😀 c".encode())
    assert status == 1
    assert [row.split("\t")[0] for row in out.split("\n")] == ["a", "42", "", "b", "hello😀", "c", ""]
    assert "\n42\t\n" in out
    assert err.splitlines() == [
        "Error: line 1: 42: digits cannot be read; write numbers as words",
        "Error: line 3: hello😀: 😀 (U+1F600) cannot be read; the model knows a-z '",
    ]
    status, _, err = g2p(" ".join(map(str, range(30))))
    assert status == 1
    assert len(err.splitlines()) == 11
    assert err.endswith("Error: 20 more words could not be read\n")
    assert g2p(" ".join(map(str, range(11))))[2].endswith("Error: 1 more word could not be read\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "out", "err"),
    [
        ((), b"a\nb\xff\nc\n", "a", "Error: line 2: not UTF-8; convert the text to UTF-8 first\n"),
        ((), b"\x7fELF\x00\xff", "", "Error: line 1: not UTF-8; convert the text to UTF-8 first\n"),
        ((), b"a\n" + b"b" * (1 << 21), "a", "Error: line 2 is longer than 1 MiB\n"),
        (("caf\udce9",), b"", "", "Error: not UTF-8; convert the text to UTF-8 first\n"),
    ],
)
def test_odd_input_is_one_line(
    arguments: tuple[str, ...], stdin: bytes, out: str, err: str, g2p: Run
) -> None:
    status, printed, error = g2p(*arguments, stdin=stdin)
    assert (status, printed.partition("\t")[0], error) == (1, out, err)


def test_wrong_options_and_closed_streams_are_one_line(g2p: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = g2p("--n-best", "0", "a")
    assert status == 2
    assert err.endswith("argument --n-best: 0 is not a number from 1 to 100\n")
    assert g2p("--n-best", "9" * 5000, "a")[2].endswith(
        f"argument --n-best: {'9' * 40} is not a number from 1 to 100\n"
    )
    status, _, err = g2p("--model", "nothing", "a")
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("Error: nothing is neither a model of the package")
    monkeypatch.setattr(sys, "stdout", None)
    status, _, err = g2p("a")
    assert (status, err) == (1, "Error: standard input or output is closed\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to."),
    ],
)
def test_running_out_of_memory_is_one_line(
    error: Exception, g2p: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> str:
        raise error

    monkeypatch.setattr(command, "_answers", fail)
    status, _, err = g2p("a")
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("Error: the machine is out of memory: ") and "beam_size" in err
    monkeypatch.setattr(command, "_answers", lambda *_: [].pop())
    with pytest.raises(IndexError):
        g2p("a")


@pytest.mark.long
def test_it_needs_neither_lightning_nor_hydra_nor_a_compiler(folder: Path) -> None:
    heavy = [
        "pytorch_lightning",
        "hydra",
        "omegaconf",
        "torchmetrics",
        "torch._dynamo",
        "matplotlib",
        "scipy",
    ]
    script = (
        "import sys; from attention_lab.inference.command import main\n"
        f"status = main(['g2p', 'hello', '--lexicon', '--model', {str(folder)!r}])\n"
        f"sys.exit(str(status or [name for name in {heavy} if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout[:6], done.stderr.strip()) == ("hello\t", "")


def test_without_a_command_the_known_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "required: {g2p}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python train.py --help" in capsys.readouterr().out


def test_windows_is_told_of_wsl(g2p: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    status, out, err = g2p("hello")
    assert (status, out) == (1, "") and err.startswith("Error: Windows is not supported: run ")
