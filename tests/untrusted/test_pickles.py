"""A checkpoint's pickle may only build plain values and tensors that lie within their storages."""

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attention_lab.errors import LabError
from attention_lab.untrusted.pickles import MOST_INSTRUCTIONS, check_pickle


class _Calls:
    """An object whose pickle calls a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def _equal_hashes(count: int) -> dict[Any, int]:
    """Keys whose hashes all collide: hash(-1) == hash(-2)."""
    keys: list[Any] = [-1, -2]
    while len(keys) < count:
        keys = [(one, two) for one in (-1, -2) for two in keys]
    return dict.fromkeys(keys, 0)


@pytest.mark.parametrize(
    "value",
    [
        [_Calls(bytearray, 2**30)] * 5,
        _Calls(bytearray, 2**30),
        b"bytes" * 10,
        {1, 2},
        _Calls(torch._utils._rebuild_tensor_v2, 1, 0, (2**40,), (1,), False, OrderedDict()),
        _Calls(OrderedDict, [("x", 1)] * 3),
        2**100,
        {2**40: 1},
        {1.5: 1},
        _equal_hashes(64),
        torch.device("cpu"),
        torch.float32,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_no_checkpoint_needs_are_refused(value: Any) -> None:
    with pytest.raises((pickle.UnpicklingError, ValueError, TypeError)):
        check_pickle(pickle.dumps({"x": value}, protocol=2), {})


@pytest.mark.parametrize("owner", [b"}", b"]", b"K\x01", b"K\x01\x85"], ids=["dict", "list", "int", "tuple"])
def test_only_ordered_dictionaries_get_attributes(owner: bytes) -> None:
    ordered = b"ccollections\nOrderedDict\n)R"
    check_pickle(b"\x80\x02" + ordered + b"}b.", {})
    with pytest.raises(pickle.UnpicklingError):
        check_pickle(b"\x80\x02" + owner + b"}b.", {})


@pytest.mark.long
def test_many_values() -> None:
    with pytest.raises(pickle.UnpicklingError, match="more than"):
        check_pickle(b"\x80\x02" + b"]" * (MOST_INSTRUCTIONS + 1) + b".", {})


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02", b"\x80\x02u.", b"\x80\x02}(u", b"\x80\x02R.", b"\x80\x02h\x07."]
)
def test_a_damaged_pickle(content: bytes) -> None:
    with pytest.raises((pickle.UnpicklingError, ValueError, LookupError)):
        check_pickle(content, {})


@pytest.mark.parametrize(
    ("size", "stride"), [((10**12,), (0,)), ((10**9,), (1,)), ((2, 2), (1, 3)), ((2, 2), (4, 1))]
)
def test_a_tensor_lies_within_its_storage(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    content = io.BytesIO()
    torch.save(torch.ones(4), content)
    with zipfile.ZipFile(content) as archive:
        pickled = archive.read(f"{archive.namelist()[0].partition('/')[0]}/data.pkl")
    check_pickle(pickled, {"0": 16})
    with pytest.raises(ValueError, match="bytes"):
        check_pickle(pickled, {"0": 12})
    small = b"K\x04\x85q" in pickled
    assert small
    parts = (pickle.dumps(one, protocol=2)[2:-1] for one in (size, stride))
    with pytest.raises(LabError, match="complete tensors"):
        check_pickle(_with(pickled, *parts), {"0": 16})


def test_nested_names_of_storages_are_not_hashed() -> None:
    nested = b"K\x01\x85" + b"q\x00h\x00\x86" * 60  # 2^60 numbers, if each is counted
    content = b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + nested + b"NK\x01tQ."
    with pytest.raises(pickle.UnpicklingError, match="other than a storage"):
        check_pickle(content, {"0": 4})


def test_a_storage_has_one_type() -> None:
    """By the type that PyTorch read first, a view of all 16 bytes of a second type would have 256."""

    def storage(kind: str, elements: int) -> bytes:
        named = f"(X\x07\0\0\0storagectorch\n{kind}Storage\nX\x01\0\0\x000NK"
        return named.encode() + bytes([elements]) + b"tQ"

    check_pickle(b"\x80\x02" + storage("Byte", 16) * 2 + b".", {"0": 16})
    with pytest.raises(ValueError, match="two types"):
        check_pickle(b"\x80\x02" + storage("ComplexDouble", 1) + storage("Byte", 16) + b".", {"0": 16})


def test_sizes_with_many_dimensions_are_not_multiplied() -> None:
    size = b"(\x8a\x08" + b"\xff" * 7 + b"\x7fq\x00" + b"h\x00" * 200_000 + b"tq\x01h\x01"
    with pytest.raises(pickle.UnpicklingError, match="a size"):
        check_pickle(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00" + size + b"\x89tR.", {})


def _with(pickled: bytes, size: bytes, stride: bytes) -> bytes:
    """The pickle of a tensor of four elements, with its size and stride replaced."""
    start = pickled.index(b"K\x04\x85q")
    end = pickled.index(b"K\x01\x85q", start)
    return pickled[:start] + size + stride + pickled[end + 5 :]
