"""Functions without NumPy's reports: the modes inside, and those of the caller after them."""

import numpy as np
import pytest

from hybridjit._core import errstate


def _state():
    return np.geterr(), np.geterrcall(), np.getbufsize()


def _made(function, how):
    if how == "thread":
        return errstate._in_thread(function)
    assert errstate._HELD is not None or np.__version__.startswith("1.")
    return errstate.quiet(function)


@pytest.fixture(params=["context", "thread"])
def how(request):
    return request.param


@pytest.fixture
def user_state():
    """State of a program that reports everything, in its own way."""
    before, call, size = _state()
    np.seterr(all="raise")
    np.seterrcall(lambda kind, flag: None)
    np.setbufsize(16 * 1024)
    yield _state()
    np.setbufsize(size)
    np.seterrcall(call)
    np.seterr(**before)


def test_reports_are_ignored_inside_and_modes_stay_outside(how, user_state):
    assert np.isinf(_made(lambda: np.float32(1) / np.float32(0), how)())
    assert _state() == user_state
    with pytest.raises(FloatingPointError):
        np.float32(1) / np.float32(0)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_modes_are_restored_after_an_exception(how, user_state, kind):
    def fail():
        raise kind

    with pytest.raises(kind):
        _made(fail, how)()
    assert _state() == user_state


def test_the_search_for_the_modes_leaves_them(user_state):
    errstate._held_in_context()
    assert _state() == user_state


def test_calls_nest(how, user_state):
    inner = _made(lambda: np.geterr()["over"], how)
    assert _made(lambda: (inner(), np.geterr()["over"]), how)() == ("ignore", "ignore")
    assert _state() == user_state


def test_modes_that_were_never_set_are_restored(how):
    before = _state()
    with pytest.raises(ValueError):
        _made(lambda: int("x"), how)()
    assert _state() == before
