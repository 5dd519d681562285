"""Rows appended where they are give the values of `torch.cat`, whoever appends to the same tensors."""

import copy
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Attention, Dot
from attention_lab.attention.fast.key_value_cache import append_rows
from attention_lab.attention.memory import Memory

MODES = [torch.no_grad, torch.inference_mode]


def _pair(rows: int, *, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Keys of size 3 and values of size 2."""
    return torch.randn(2, rows, 3, dtype=dtype), torch.randn(2, rows, 2, dtype=dtype)


def _cat(*pairs: tuple[Tensor, Tensor]) -> list[Tensor]:
    return [torch.cat(parts, -2) for parts in zip(*pairs, strict=True)]


def _equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_appended_mostly_where_they_are(mode: Callable) -> None:
    parts = [_pair(rows) for rows in (5, *[1] * 300, 2, 400, 3)]
    with mode():
        grown, places = list(parts[0]), set()
        for number, part in enumerate(parts[1:], 2):
            grown = append_rows(grown, part)
            places.add(grown[0].data_ptr())
            if number % 50 == 0 or number > 300:
                assert _equal(grown, _cat(*parts[:number]))
    assert len(places) < 10


@pytest.mark.parametrize("mode", MODES)
def test_two_continuations_of_the_same_rows_are_independent(mode: Callable) -> None:
    with mode():
        first, *more = (_pair(1) for _ in range(4))
        start = append_rows(first, more[0])
        one, other = append_rows(start, more[1]), append_rows(start, more[2])
        longer = append_rows(one, more[2])
    assert _equal(start, _cat(first, more[0]))
    assert _equal(one, _cat(first, more[0], more[1]))
    assert _equal(other, _cat(first, more[0], more[2]))
    assert _equal(longer, _cat(first, *more))


def test_threads_continue_the_same_rows_independently() -> None:
    def work(number: int) -> bool:
        with torch.no_grad():
            own = [torch.full_like(x, number) for x in more]
            return _equal(append_rows(start, own), _cat((start[0], start[1]), (own[0], own[1])))

    more = _pair(1)
    for _ in range(20):
        with torch.no_grad():
            start = append_rows(_pair(3), _pair(1))
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))


def test_gradients_reach_all_rows() -> None:
    parts = [tuple(x.requires_grad_() for x in _pair(1)) for _ in range(3)]
    grown = append_rows(append_rows(parts[0], parts[1]), parts[2])
    sum(x.sum() for x in grown).backward()
    assert all(torch.equal(x.grad, torch.ones_like(x)) for part in parts for x in part)


def test_what_autograd_has_saved_stays_as_it_was() -> None:
    attention, query = Attention(Dot(query_size=3, key_size=3)), torch.randn(2, 1, 3, requires_grad=True)
    with torch.no_grad():
        memory = attention.remember(*_pair(2)).extend(attention.remember(*_pair(1)))
    (expected,) = torch.autograd.grad(attention(query, memory).sum(), query)
    context = attention(query, memory)
    with torch.no_grad():
        memory.extend(attention.remember(*_pair(1)))
    assert torch.equal(torch.autograd.grad(context.sum(), query)[0], expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_memory_has_rows_of_its_own(copied: Callable) -> None:
    first, more, other = _pair(2), _pair(1), _pair(1)
    with torch.no_grad():
        memory = Memory(*first, None).extend(Memory(*more, None))
        twin = copied(memory)
        one, two = memory.extend(Memory(*other, None)), twin.extend(Memory(*more, None))
    assert _equal([one.keys, one.value], _cat(first, more, other))
    assert _equal([two.keys, two.value], _cat(first, more, more))


def test_saved_keys_are_loaded_without_other_classes() -> None:
    with torch.no_grad():
        keys, _ = append_rows(append_rows(_pair(2), _pair(1)), _pair(1))
    torch.save(keys, file := io.BytesIO())
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), keys)


@pytest.mark.parametrize("mode", MODES)
def test_no_rows_may_be_appended_to_no_rows(mode: Callable) -> None:
    last = _pair(2)
    with mode():
        grown = list(_pair(0))
        for _ in range(3):
            grown = append_rows(grown, _pair(0))
        assert _equal(append_rows(grown, last), list(last))


def test_what_inference_mode_made_is_continued_outside_of_it() -> None:
    first, more, last = _pair(2), _pair(1), _pair(1)
    with torch.inference_mode():
        grown = append_rows(first, more)
    with torch.no_grad():
        assert _equal(append_rows(grown, last), _cat(first, more, last))


def test_rows_that_are_selected_in_each_step_get_no_room() -> None:
    with torch.no_grad():
        grown, index = append_rows(_pair(50), _pair(1)), torch.tensor([1, 1])
        for rows in range(52, 55):
            grown = append_rows([x.index_select(0, index) for x in grown], _pair(1))
            assert grown[0].untyped_storage().nbytes() == 2 * rows * 3 * 4


def test_other_dtypes_are_promoted_as_by_cat() -> None:
    with torch.no_grad():
        grown = append_rows(append_rows(_pair(2), _pair(1)), _pair(1, dtype=torch.float64))
    assert [x.dtype for x in grown] == [torch.float64] * 2


def test_a_part_that_was_replaced_is_copied() -> None:
    first, more, other = _pair(2), _pair(1), _pair(3)
    with torch.no_grad():
        keys, _ = append_rows(first, more)
        found = append_rows((keys, other[1]), more)
    assert torch.equal(found[0], torch.cat([first[0], more[0], more[0]], -2))
    assert torch.equal(found[1], torch.cat([other[1], more[1]], -2))


def test_keys_without_values_are_not_appended() -> None:
    keys, value = _pair(2)
    with torch.no_grad():
        memory = Memory(*_pair(2), None).extend(Memory(*_pair(1), None))
        with pytest.raises(ValueError, match="each key of a memory needs a value"):
            memory.extend(Memory(keys, value[:, :1], None))
