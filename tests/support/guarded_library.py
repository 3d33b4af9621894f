"""Call a library at sizes, with the workspace adjacent to inaccessible memory (Linux).

    python tests/support/guarded_library.py LIBRARY end|start SIZE,SIZE ...

All inputs are zeros. A kernel that leaves the workspace ends the process, so this is a program.
"""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np

from guarded import Guarded

_PAIR = ctypes.c_uint64 * 2


def call(library: ctypes.CDLL, name: str, sizes: list[int], at_end: bool) -> int:
    """The code of a call."""
    getattr(library, f"{name}_description").restype = ctypes.c_char_p
    facts = json.loads(getattr(library, f"{name}_description")())
    context, room = ctypes.c_void_p(), ctypes.c_size_t()
    given = (ctypes.c_int64 * len(sizes))(*sizes)
    shapes = (ctypes.c_int64 * sum(len(fact["shape"]) for fact in facts["outputs"]))()
    assert not getattr(library, f"{name}_init")(ctypes.byref(context), None, 1)
    assert not getattr(library, f"{name}_shapes")(context, given, shapes, ctypes.byref(room))
    named = dict(zip((fact["name"] for fact in facts["sizes"]), sizes))
    left = iter(shapes)
    inputs = [np.zeros([named.get(n, n) for n in f["shape"]], f["dtype"]) for f in facts["inputs"]]
    outputs = [np.zeros([next(left) for _ in f["shape"]], f["dtype"]) for f in facts["outputs"]]
    workspace = Guarded(room.value, at_end)
    code = getattr(library, f"{name}_run")(
        context, _rows(inputs), _rows(outputs), given, ctypes.c_void_p(workspace.address), room
    )
    getattr(library, f"{name}_free")(context)
    assert all(np.isfinite(output).all() for output in outputs)
    return int(code)


def _rows(arrays: list[np.ndarray]) -> ctypes.Array[ctypes.Array[ctypes.c_uint64]]:
    return (_PAIR * len(arrays))(*[_PAIR(a.ctypes.data, a.nbytes) for a in arrays])


if __name__ == "__main__":
    loaded = ctypes.CDLL(sys.argv[1])
    for text in sys.argv[3:]:
        assert call(loaded, "net", [*map(int, text.split(","))], sys.argv[2] == "end") == 0, text
        print(text, flush=True)
