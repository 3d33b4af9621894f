"""Times of single operators beside MXNet's: forward and backward, hybridized and eager.

    python tools/operators --mxnet-python PATH                 all cases
    python tools/operators --mxnet-python PATH --match topk    some operators
    python tools/operators                                     without MXNet

Cases are the lines of ``cases.txt``, and every pointwise operator of the registry with one or two
operands and no required attribute. ``untimed.txt`` names the other public operators, with reasons.
Both sides run in separate processes with one thread, and take turns: CPU time of a call, the least
of ``--rounds`` turns. A last table lists the cases that take longer than ``--hybrid-limit`` or
``--eager-limit`` times MXNet's time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridjit._core.text_table import milliseconds, table
from hybridjit.ops import OpDef, all_ops

sys.path.insert(0, str(Path(__file__).parent.parent))
from mxnet_side.sides import Server

FOLDER = Path(__file__).parent
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HYBRIDJIT_NUM_THREADS": "1"}
MODES = {"f": (False, "forward"), "b": (True, "backward")}


@dataclass(frozen=True)
class Case:
    """One operator on operands of given kinds and shapes; ``modes`` are letters of MODES."""

    op: str
    operands: tuple[str, ...]
    attrs: tuple[tuple[str, str], ...] = ()
    modes: str = "fb"

    def __str__(self) -> str:
        attrs = " ".join(f"{key}={value}" for key, value in self.attrs)
        return f"{self.op}({', '.join(self.operands)}) {attrs}".strip()

    def request(self, mode: str, is_hybrid: bool, least: float) -> dict[str, Any]:
        return {
            "op": self.op, "operands": self.operands, "attrs": dict(self.attrs),
            "backward": MODES[mode][0], "hybrid": is_hybrid, "least": least,
        }  # fmt: skip


def listed() -> Iterator[Case]:
    """The cases of ``cases.txt``."""
    for line in (FOLDER / "cases.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            op, operands, attrs, modes = (part.strip() for part in line.split("|"))
            pairs = [pair.partition("=") for pair in attrs.split()]
            texts = tuple((key, value) for key, _, value in pairs)
            yield Case(op, tuple(operands.split(", ")), texts, modes)


def pointwise() -> Iterator[Case]:
    """Every pointwise operator that a user can call on arrays alone."""
    for op in all_ops():
        count = len(op.inputs) if isinstance(op.inputs, tuple) else 0
        if op.is_pointwise and is_public(op) and count in (1, 2):
            yield Case(op.name, ("p 256x1000",) * count)


def public_names(op: OpDef) -> set[str]:
    """Names by which programs call an operator, as ``contrib.box_iou``; none for NumPy mode's."""
    if op.internal or op.name.startswith("_np"):
        return set()
    names = {name for name in (op.name, *op.aliases) if not name.startswith("_")}
    for name in (op.name, *op.aliases):
        for space in ("contrib", "linalg", "image", "random"):
            if name.startswith(f"_{space}_"):
                names.add(f"{space}.{name.removeprefix(f'_{space}_')}")
    return names


def uncovered() -> list[str]:
    """Public operators that no case times and ``untimed.txt`` does not name."""
    lines = (FOLDER / "untimed.txt").read_text().splitlines()
    known = {line.partition(" | ")[0] for line in lines if not line.startswith("#")}
    known |= {case.op for case in (*listed(), *pointwise())}
    named = {op.name: public_names(op) for op in all_ops()}
    return [name for name, names in named.items() if names and not names & known]


def is_public(op: OpDef) -> bool:
    is_named = not op.internal and not op.name.startswith("_")
    return is_named and all(attr.default is not None for attr in op.attrs)


def measured(servers: dict[str, Server], request: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The least seconds of each side, or the reason why there are none."""
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for name, server in servers.items():
            answer = server.tell(request)
            if "refused" in answer:
                return {name: answer["refused"]}
            found[name] = min(answer["seconds"], found.get(name, float("inf")))
    return found


def row_of(case: Case, mode: str, is_hybrid: bool, found: dict[str, Any]) -> list[str]:
    kind = "hybridized" if is_hybrid else "eager"
    reasons = [f"{k}: {v}" for k, v in found.items() if isinstance(v, str)]
    ours, theirs = found.get("hybridjit"), found.get("mxnet")
    start = [str(case)[:110], MODES[mode][1], kind]
    if reasons:
        return [*start, reasons[0][:60], "", ""]
    ratio = f"{ours / theirs:.2f}" if theirs else ""
    return [*start, milliseconds(theirs) if theirs else "", milliseconds(ours), ratio]


def main() -> int:
    args = _parser().parse_args()
    servers = {"hybridjit": Server(sys.executable, "../operators/serve.py", **ONE_THREAD)}
    servers["hybridjit"].command.append("hybridjit")
    if args.mxnet_python:
        servers["mxnet"] = Server(args.mxnet_python, "../operators/serve.py", **ONE_THREAD)
        servers["mxnet"].command.append("mxnet")
    heading = ["operator", "pass", "mode", "MXNet ms", "hybridjit ms", "ratio"]
    slow = []
    for case in [*listed(), *pointwise()]:
        if args.match not in str(case):
            continue
        for mode in case.modes:
            for is_hybrid in (True, False):
                request = case.request(mode, is_hybrid, args.seconds)
                row = row_of(case, mode, is_hybrid, measured(servers, request, args.rounds))
                print("  ".join(row), flush=True)
                limit = args.hybrid_limit if is_hybrid else args.eager_limit
                if row[-1] and float(row[-1]) > limit:
                    slow.append(row)
    print("\nslower than the limits:\n" + table(slow, heading, right={3, 4, 5}))
    for server in servers.values():
        server.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time single operators beside MXNet's.")
    parser.add_argument("--mxnet-python", help="the interpreter that has MXNet 1.9.1")
    parser.add_argument("--match", default="", help="cases with this in their text")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side (2)")
    parser.add_argument("--seconds", type=float, default=0.03, help="of one run (0.03)")
    parser.add_argument("--hybrid-limit", type=float, default=1.2)
    parser.add_argument("--eager-limit", type=float, default=2.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
