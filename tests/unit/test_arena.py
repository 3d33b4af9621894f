"""Aligned memory, separate and in adjacent arrays."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from hybridjit.errors import InternalError
from hybridjit.runtime.arena import (
    ALIGNMENT,
    Arena,
    aligned_bytes,
    aligned_together,
    allow_huge_pages,
)

HUGE_PAGE = 2 << 20


@pytest.mark.parametrize("nbytes", [0, 1, 1000, 1 << 20, (5 << 20) + 3])
def test_bytes_begin_on_a_boundary(nbytes):
    found = aligned_bytes(nbytes)
    found[:10] = found[-10:] = 7
    boundary = ALIGNMENT if nbytes < 1 << 20 else HUGE_PAGE
    assert found.nbytes == nbytes and (nbytes == 0 or found.ctypes.data % boundary == 0)


def test_adjacent_arrays_do_not_overlap():
    sizes = [100, 3 << 20, 0, 7, 64 << 20, 70 << 20, 1]
    rooms = aligned_together(sizes)
    assert [room.nbytes for room in rooms] == sizes
    spans = sorted((room.ctypes.data, room.nbytes) for room in rooms if room.size)
    assert all(start % ALIGNMENT == 0 for start, _ in spans)
    assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:]))


def test_small_arrays_share_one_aligned_block():
    first, second = aligned_together([3 << 20, 3 << 20])
    assert second.ctypes.data - first.ctypes.data == 3 << 20
    assert first.ctypes.data % HUGE_PAGE == 0


def test_a_block_of_adjacent_arrays_has_at_most_64_megabytes():
    """The memory that is freed together is bounded."""
    rooms = aligned_together([40 << 20, 24 << 20, 1, 80 << 20])
    blocks = [room if room.base is None else room.base for room in rooms]
    assert blocks[0] is blocks[1]
    assert len({id(block) for block in blocks}) == 3


def test_no_array_asks_for_nothing():
    assert aligned_together([]) == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="pages are not listed here")
@pytest.mark.parametrize("in_small_pages", [False, True])
def test_arrays_in_small_pages_do_not_request_huge_ones(in_small_pages):
    rooms = aligned_together([9 << 20, 3 << 20, 100], in_small_pages)
    assert all(room.ctypes.data % ALIGNMENT == 0 for room in rooms)
    assert ("hg" in _flags_at(rooms[0].ctypes.data + (4 << 20))) is not in_small_pages


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="pages are not listed here")
def test_an_array_in_small_pages_may_move_to_huge_ones_after_it_is_written():
    first, second = aligned_together([9 << 20, 3 << 20], in_small_pages=True)
    first[:] = second[:] = 3
    allow_huge_pages(first)
    assert "hg" in _flags_at(first.ctypes.data + (4 << 20))
    assert "hg" not in _flags_at(second.ctypes.data + (2 << 20))
    assert (first == 3).all() and (second == 3).all()


def _flags_at(address):
    """The flags of the mapping that contains an address, from the system's list."""
    is_found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            low, high = (int(part, 16) for part in first.split("-"))
            is_found = low <= address < high
        elif is_found and first == "VmFlags:":
            return rest
    raise AssertionError("no mapping contains the address")


@pytest.mark.parametrize("nbytes", [0, 100, 3 << 20])
@pytest.mark.parametrize("at", [-1, 0])
def test_canaries_lie_on_both_sides(nbytes, at):
    arena = Arena(nbytes)
    arena.poison()
    arena.check_canaries("nothing")
    assert arena.address % ALIGNMENT == 0 and arena.bytes.nbytes == nbytes
    assert arena.bytes.ctypes.data == arena.address or nbytes == 0
    beyond = arena.address + (nbytes if at == 0 else -1)
    ctypes.memset(beyond, 0, 1)
    with pytest.raises(InternalError, match="a kernel wrote outside the arena"):
        arena.check_canaries("a kernel")
