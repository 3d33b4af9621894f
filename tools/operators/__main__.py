"""Times of single operators beside MXNet's: forward and backward, hybridized and eager.

    python tools/operators --mxnet-python PATH                 all cases
    python tools/operators --mxnet-python PATH --match topk    some operators
    python tools/operators                                     without MXNet
    python tools/operators --mxnet-python PATH --record FILE   what FILE lacks, and then all

Cases are the lines of ``cases.txt``, and every pointwise operator of the registry with one or two
operands and no required attribute. ``untimed.txt`` names the other public operators, with reasons.
Both sides run in separate processes with one thread, and take turns: CPU time of a call, the least
of ``--rounds`` turns, and of twice as many where a case takes longer than ``--hybrid-limit`` or
``--eager-limit`` times MXNet's time. A last table lists the cases that still do.

A record is a file of JSON lines, one for each row, written as soon as the row is measured: a run
that was interrupted continues after it. Remove lines from it to measure their rows again.
"""

from __future__ import annotations

import argparse
import json
import statistics
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


Found = dict[str, Any]  # the least seconds of each side, or the reason why there are none


@dataclass(frozen=True)
class Row:
    """A case in one mode, with what was found for it."""

    case: Case
    mode: str
    is_hybrid: bool
    found: Found

    @property
    def ratio(self) -> float | None:
        return ratio_of(self.found)

    def cells(self) -> list[str]:
        kind = "hybridized" if self.is_hybrid else "eager"
        start = [str(self.case)[:110], MODES[self.mode][1], kind]
        reasons = [f"{k}: {v}" for k, v in self.found.items() if isinstance(v, str)]
        if reasons:
            return [*start, reasons[0][:60], "", ""]
        ours, theirs = self.found["hybridjit"], self.found.get("mxnet")
        ratio = f"{ours / theirs:.2f}" if theirs else ""
        return [*start, milliseconds(theirs) if theirs else "", milliseconds(ours), ratio]


def ratio_of(found: Found) -> float | None:
    """Our seconds to MXNet's; None where a side has none."""
    ours, theirs = found.get("hybridjit"), found.get("mxnet")
    both = isinstance(ours, float) and isinstance(theirs, float)
    return ours / theirs if both else None


class Record:
    """Findings by case and mode in a file of JSON lines; without a path, of this run alone."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.known: dict[str, Found] = {}
        for line in lines:
            if line.endswith("}"):  # the last one of a run that was killed may not
                entry = json.loads(line)
                self.known[entry["row"]] = entry["found"]
        if path:
            path.write_text("".join(self._line(*entry) for entry in self.known.items()))

    def add(self, row: str, found: Found) -> None:
        self.known[row] = found
        if self.path:
            with self.path.open("a") as file:
                file.write(self._line(row, found))

    @staticmethod
    def _line(row: str, found: Found) -> str:
        return json.dumps({"row": row, "found": found}) + "\n"


@dataclass(frozen=True)
class Timer:
    """Times requests on each server in turn."""

    servers: dict[str, Server]
    rounds: int

    def found(self, request: dict[str, Any], limit: float) -> Found:
        """The least of each side; of twice as many turns where the ratio is above the limit."""
        first = self._turns(request)
        if (ratio_of(first) or 0) <= limit:
            return first
        second = self._turns(request)
        if ratio_of(second) is None:
            return second
        return {name: min(first[name], second[name]) for name in first}

    def _turns(self, request: dict[str, Any]) -> Found:
        found: Found = {}
        for _ in range(self.rounds):
            for name, server in self.servers.items():
                answer = server.tell(request)
                if "refused" in answer:
                    return {name: answer["refused"]}
                found[name] = min(answer["seconds"], found.get(name, float("inf")))
        return found


def rows(args: argparse.Namespace, timer: Timer) -> Iterator[Row]:
    """Every row that the options ask for, measured or read from the record."""
    record = Record(args.record)
    cases = [case for case in (*listed(), *pointwise()) if args.match in str(case)]
    for case, mode, is_hybrid in ((c, m, h) for c in cases for m in c.modes for h in (True, False)):
        name = f"{case} {MODES[mode][1]} {'hybridized' if is_hybrid else 'eager'}"
        if name not in record.known:
            limit = args.hybrid_limit if is_hybrid else args.eager_limit
            request = case.request(mode, is_hybrid, args.seconds)
            record.add(name, timer.found(request, limit))
        yield Row(case, mode, is_hybrid, record.known[name])


def summary(done: list[Row], args: argparse.Namespace) -> str:
    """Geometric means of both modes, and the rows above the limits."""
    lines = []
    for is_hybrid, kind in ((True, "hybridized"), (False, "eager")):
        ratios = [row.ratio for row in done if row.is_hybrid is is_hybrid and row.ratio]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            lines.append(f"{len(ratios)} rows {kind}: geometric mean {mean:.2f}")
    slow = [
        row.cells()
        for row in done
        if (row.ratio or 0) > (args.hybrid_limit if row.is_hybrid else args.eager_limit)
    ]
    heading = ["operator", "pass", "mode", "MXNet ms", "hybridjit ms", "ratio"]
    above = table(slow, heading, right={3, 4, 5})
    return "\n".join(["", *lines, "slower than the limits:", above])


def main() -> int:
    args = _parser().parse_args()
    servers = {"hybridjit": Server(sys.executable, "../operators/serve.py", **ONE_THREAD)}
    servers["hybridjit"].command.append("hybridjit")
    if args.mxnet_python:
        servers["mxnet"] = Server(args.mxnet_python, "../operators/serve.py", **ONE_THREAD)
        servers["mxnet"].command.append("mxnet")
    done = []
    for row in rows(args, Timer(servers, args.rounds)):
        print("  ".join(row.cells()), flush=True)
        done.append(row)
    print(summary(done, args))
    for server in servers.values():
        server.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time single operators beside MXNet's.")
    parser.add_argument("--mxnet-python", help="the interpreter that has MXNet 1.9.1")
    parser.add_argument("--record", type=Path, help="file of JSON lines with measured rows")
    parser.add_argument("--match", default="", help="cases with this in their text")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side (2)")
    parser.add_argument("--seconds", type=float, default=0.03, help="of one run (0.03)")
    parser.add_argument("--hybrid-limit", type=float, default=1.2)
    parser.add_argument("--eager-limit", type=float, default=2.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
