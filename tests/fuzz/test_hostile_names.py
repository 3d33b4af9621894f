"""Names and limits: names in files reach no code, no path and no format string, and the limits of
files are those of SECURITY.md."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from compiling import plan_of, run_reference
from hybridjit import gluon, nd, sym
from hybridjit._core.config import override
from hybridjit._core.types import type_of
from hybridjit.cli import main
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.errors import MXNetError, ShapeError
from hybridjit.formats.mxnet import params, symbol_json
from hybridjit.ir.node import Output
from hybridjit.profiling import profile
from params_written_by_mxnet import MAGIC

ROOT = Path(__file__).parent.parent.parent
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

EVIL = (
    '"\n}\ndefine void @run() {\n  ret void\n}\n;',
    "../../../../tmp/escaped",
    "/etc/passwd",
    "%s%n%1000000d{0}{a.__class__}$HOME`id`",
    "\x1b[2J\x07\r",
    "a\\01\0b",
    "!0 = !{}",
    ".",
)
DATA, WEIGHT = np.ones((2, 4, 6, 6), np.float32), np.ones((8, 4, 3, 3), np.float32)


def graph(names: tuple[str, ...]) -> tuple[Output, ...]:
    """A convolution with its epilogue, a host step and a softmax, called by these names."""
    data, weight, bias, conv, relu, host, total, soft = names[:8]
    nodes = [
        *({"op": "null", "name": n, "inputs": []} for n in (data, weight, bias)),
        {"op": "Convolution", "name": conv, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
         "attrs": {"kernel": "(3, 3)", "num_filter": "8"}},
        {"op": "relu", "name": relu, "inputs": [[3, 0, 0]]},
        {"op": "sort", "name": host, "inputs": [[4, 0, 0]]},
        {"op": "elemwise_add", "name": total, "inputs": [[4, 0, 0], [5, 0, 0]]},
        {"op": "softmax", "name": soft, "inputs": [[6, 0, 0]]},
    ]  # fmt: skip
    top = {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[7, 0, 0]]}
    return symbol_json.loads(json.dumps({**top, "attrs": {"mxnet_version": ["int", 10901]}}))


def arrays(names: tuple[str, ...]) -> dict[str, np.ndarray]:
    return dict(zip(names, (DATA, WEIGHT, np.ones(8, np.float32))))


def compiled(names: tuple[str, ...], wanted: tuple[str, ...], sink=None):
    given = arrays(names)
    types = [(n, type_of(a)) for n, a in given.items()]
    log = new_log(wanted, sink)
    return compile_graph(graph(names), dict(types[:1]), dict(types[1:]), log=log,
                         name=names[3])  # fmt: skip


def code_of(names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    compiled(names, ("llvm", "asm"), lambda number, stage, text: found.update({stage: text}))
    return found


PLAIN = tuple("abcdefgh")


def test_code_is_the_same_whatever_things_are_called():
    plain, evil = code_of(PLAIN), code_of(EVIL)
    assert plain == evil and "define" in plain["llvm"]


def test_a_network_with_such_names_runs():
    executable = compiled(EVIL, ())
    given = arrays(EVIL)
    executable.bind({n: given[n] for n in EVIL[1:3]})
    found = executable([DATA])[0]
    np.testing.assert_allclose(found, run_reference(graph(EVIL), given)[0], rtol=1e-5)


def test_dumps_stay_in_their_folder(tmp_path):
    folder = tmp_path / "inner" / "dumps"
    for name in EVIL:
        with override(dump_dir=str(folder)):
            compiled((*EVIL[:3], name, *(f"n{i}" for i in range(4))), ("plan", "spec"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2 * len(EVIL)
    assert all(path.resolve().is_relative_to(folder) for path in files)
    assert all(path.parent.parent == folder for path in files)


def test_objects_are_called_by_digests(tmp_path):
    with override(cache_dir=str(tmp_path / "cache")):
        compiled(("w", *EVIL[1:]), ())
        compiled(EVIL, ())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert re.fullmatch(r"[\w.-]+", path.name) and not any(n in path.name for n in EVIL[:7])
    assert list(tmp_path.iterdir()) == [tmp_path / "cache"]


@pytest.mark.parametrize("name", EVIL)
def test_messages_have_the_name_as_it_is(name: str):
    """No part of a name is taken for a place to put something."""
    names = (*PLAIN[:3], name, *PLAIN[4:])
    wrong = {**arrays(names), "b": np.ones((8, 5, 3, 3), np.float32)}
    with pytest.raises(ShapeError) as caught:
        plan_of(graph(names), wrong)
    assert f"Convolution '{name}'" in str(caught.value)


def test_traces_and_files_hold_the_names_as_text(tmp_path):
    net = gluon.SymbolBlock(sym.Symbol(graph(EVIL)), [sym.var(EVIL[0])])
    given = {n: nd.array(a) for n, a in arrays(EVIL).items() if n != EVIL[0]}
    net.collect_params().load_dict(given, ignore_extra=True)
    report = profile(net, nd.array(DATA), seconds=0.01)
    report.write_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    texts = [str(v) for e in events for v in (*e.values(), *e.get("args", {}).values())]
    assert any(EVIL[3] in text for text in texts)
    again = symbol_json.loads(symbol_json.dumps(graph(EVIL)))
    assert [i.node.name for i in again[0].node.inputs] == [EVIL[6]]


def test_looking_at_such_a_model(tmp_path, capsys):
    path = tmp_path / "evil-symbol.json"
    path.write_text(symbol_json.dumps(graph(EVIL)))
    assert main(["inspect", str(path)]) == 0
    assert "Convolution" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# --- limits ---


def limit(text: str) -> int:
    """The number in the row of SECURITY.md's table that begins with this text."""
    (found,) = re.findall(rf"^\| {re.escape(text)}[^|]*\| ([\d,]+)", SECURITY, re.M)
    return int(found.replace(",", ""))


def chain(count: int, **changes: object) -> str:
    """A graph of ``count`` nodes: a variable, and one after the other on it."""
    nodes = [{"op": "null", "name": "d", "inputs": []}]
    nodes += [{"op": "relu", "name": "r", "inputs": [[0, 0, 0]]} for _ in range(count - 1)]
    nodes[-1].update(changes)
    heads = [[count - 1, 0, 0]]
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": heads})


def joined(count: int) -> str:
    return chain(2, op="Concat", inputs=[[0, 0, 0]] * count, attrs={"num_args": str(count)})


def written_by(version: int) -> str:
    return json.dumps({**json.loads(chain(2)), "attrs": {"mxnet_version": ["int", version]}})


def record(ndim: int) -> bytes:
    head = struct.pack("<Ii", 0xF993FAC9, 0) + struct.pack(f"<i{ndim}q", ndim, *[1] * ndim)
    data = head + struct.pack("<iii", 1, 0, 0) + bytes(4)
    return bytes.fromhex(MAGIC) + struct.pack("<Q", 1) + data + struct.pack("<Q", 0)


def empty_arrays(count: int) -> bytes:
    return bytes.fromhex(MAGIC) + struct.pack("<Q", count) + bytes(4 * count + 8)


LIMITS = {
    "nodes of a graph": lambda n: symbol_json.loads(chain(n)),
    "inputs of a node": lambda n: symbol_json.loads(joined(n)),
    "characters of a name": lambda n: symbol_json.loads(chain(2, name="n" * n)),
    "characters of an attribute": lambda n: symbol_json.loads(
        chain(2, op="clip", attrs={"a_min": "0", "a_max": "1".zfill(n)})
    ),
    "digits of an integer": lambda n: symbol_json.loads(written_by(int("1" * n))),
    "values in one attribute": lambda n: symbol_json.loads(
        chain(2, op="transpose", attrs={"axes": f"({'0,' * n})"})
    ),
    "arrays in a file": lambda n: params.loads(empty_arrays(n)),
    "dimensions of an array": lambda n: params.loads(record(n)),
}


@pytest.mark.filterwarnings("ignore:loading symbol saved by MXNet version")
@pytest.mark.parametrize("what", LIMITS)
def test_limits_equal_the_documented_ones(what: str):
    LIMITS[what](limit(what))
    with pytest.raises(MXNetError):
        LIMITS[what](limit(what) + 1)
