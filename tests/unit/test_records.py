"""The project's frozen dataclasses are as the standard ones."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from functools import cached_property
from types import SimpleNamespace

import pytest

from hybridjit._core import frozen as records


def classes(dataclass) -> SimpleNamespace:
    """The same classes, made by one decorator or the other."""

    @dataclass(frozen=True)
    class Base:
        first: int
        second: tuple[int, ...] = (1,)
        kind = "base"

        @cached_property
        def double(self) -> int:
            return 2 * self.first

    @dataclass(frozen=True)
    class Derived(Base):
        third: str = dataclasses.field(default="c", repr=False)
        kind = "derived"

        def __post_init__(self) -> None:
            assert self.first >= 0

    @dataclass(frozen=True)
    class Empty: ...

    @dataclass(frozen=True)
    class One:
        only: float

        def __str__(self) -> str:
            return "one"

    @dataclass(frozen=True, eq=False)
    class Itself:
        items: list[int]

    return SimpleNamespace(**{k: v for k, v in locals().items() if isinstance(v, type)})


OURS, STANDARD = classes(records.dataclass), classes(dataclasses.dataclass)
NAN = float("nan")
CASES = {
    "positions": lambda c: repr(c.Derived(1, (2,), "x")),
    "names": lambda c: repr(c.Base(second=(3,), first=4)),
    "str": lambda c: (str(c.One(1.5)), c.Derived.kind),
    "empty": lambda c: (repr(c.Empty()), c.Empty() == c.Empty(), hash(c.Empty())),
    "signature": lambda c: [(p.name, p.default) for p in signature(c.Derived)],
    "equal": lambda c: (c.Base(1) == c.Base(1), c.Base(1) == c.Base(2), c.Base(1) == c.Derived(1)),
    "other types": lambda c: (c.Base(1) == (1, (1,)), c.Base(1) != 1),
    "hash": lambda c: hash(c.Derived(1)) == hash((1, (1,), "c")),
    "itself": lambda c: (c.Itself([1]) == c.Itself([1]), len({c.Itself([]), c.Itself([])})),
    "replace": lambda c: repr(dataclasses.replace(c.Derived(1), first=2)),
    "fields": lambda c: [(f.name, f.default) for f in dataclasses.fields(c.Derived)][1:],
    "asdict": lambda c: dataclasses.asdict(c.Derived(3)),
    "match": lambda c: c.Derived.__match_args__,
    "cached": lambda c: c.Base(4).double,
    "copies": lambda c: repr(copy.deepcopy(c.Base(1, (2, 3)))),
}
REFUSALS = {
    "assigned": lambda c: setattr(c.Base(1), "first", 2),
    "added": lambda c: setattr(c.Base(1), "more", 2),
    "deleted": lambda c: delattr(c.Derived(1), "second"),
    "too few": lambda c: c.Base(),
    "unknown": lambda c: c.Base(1, other=2),
    "unhashable": lambda c: hash(c.One([])),
    "checked": lambda c: c.Derived(-1),
}


def signature(cls: type) -> list[inspect.Parameter]:
    return list(inspect.signature(cls).parameters.values())


@pytest.mark.parametrize("case", CASES)
def test_frozen_records_behave_like_dataclasses(case):
    assert CASES[case](OURS) == CASES[case](STANDARD)


@pytest.mark.parametrize("changes", [{}, {"first": 2}, {"third": "x", "second": ()}], ids=str)
def test_replaced_is_as_the_standard_library_has_it(changes):
    record = OURS.Derived(1, (2,), "y")
    assert record.double == 2
    found, expected = records.replace(record, **changes), dataclasses.replace(record, **changes)
    assert found == expected
    assert found is not record
    assert vars(found) == vars(expected)


def test_replace_raises_for_unknown_fields():
    with pytest.raises(TypeError, match="other"):
        records.replace(OURS.Base(1), other=2)


def test_records_with_nan_equal_themselves():
    """As the standard library's records up to Python 3.12: keys of caches have such fields."""
    assert OURS.One(NAN) == OURS.One(NAN)


@pytest.mark.parametrize("case", REFUSALS)
def test_same_refusal(case):
    with pytest.raises(Exception) as expected:  # noqa: B017, PT011 (whatever it is)
        REFUSALS[case](STANDARD)
    with pytest.raises(expected.type) as found:
        REFUSALS[case](OURS)
    assert str(found.value).rpartition(".")[2] == str(expected.value).rpartition(".")[2]


@records.dataclass(frozen=True)
class Pickled:
    """At the top of a module, where pickle finds it."""

    value: int
    text: str = ""


def test_records_can_be_pickled():
    assert pickle.loads(pickle.dumps(Pickled(3, "x"))) == Pickled(3, "x")
