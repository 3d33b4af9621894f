"""A tour of the compiler: one small network, looked at after every stage.

    python examples/tour.py
    python examples/tour.py --after fuse,plan       these stages only
    python examples/tour.py --out pages             where its last stop is written: pages/tour.html

Each stop says what is coming, shows it, and says what to notice; a claim about the text is checked,
so this tour cannot go out of date quietly. The stages are those of ``hybridjit dump``.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hybridjit
from hybridjit import gluon, nd
from hybridjit.gluon import nn


class Small(gluon.HybridBlock):
    """Convolution, BatchNorm, relu, dropout, a dense layer, and a number to multiply by."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(16, kernel_size=3, padding=1, use_bias=False)
            self.norm = nn.BatchNorm()
            self.drop = nn.Dropout(0.5)
            self.out = nn.Dense(10)

    def hybrid_forward(self, F, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.out(self.drop(x)) * 0.5


@dataclass(frozen=True)
class Stop:
    """One stage: what is coming, what to notice, and whether that is so.

    shown  the part of the stage's text that is printed; all of it by default
    """

    stage: str
    coming: str
    notice: str
    holds: Callable[[str], bool]
    shown: Callable[[str], str] = str


def multiplications(code: str) -> int:
    """How many lines of assembly multiply vectors, on x86 or Arm."""
    return len(re.findall(r"^\s+(vfn?madd\w+|v?mulps|fmla)\b", code, re.M))


def busiest_block(assembly: str) -> str:
    """The run of instructions without a label or a jump inside that multiplies most."""
    runs = re.split(r"^[.\w$]+:.*\n|(?<=\n)(?=\s+cmp)", assembly, flags=re.M)
    return max(runs, key=multiplications).rstrip()


def first_lines(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:24], f"... and {len(lines) - 24} lines more"])


STOPS = (
    Stop(
        "trace",
        "hybrid_forward has run once with F = sym. What it called is a graph of operators with "
        "MXNet's names and attributes. Nothing has a shape yet.",
        "Every line ends with the line of your program that made it. Error messages name that "
        "line.",
        lambda text: "Dropout(" in text and "tour.py:" in text,
    ),
    Stop(
        "infer",
        "The shape and dtype of the input are known now, so every value gets a type.",
        "f32[1,8,8,8] became f32[1,16,8,8] by the convolution. Shapes of parameters that were "
        "left open (in_channels of the convolution, in_units of the dense layer) are known too.",
        lambda text: "f32[16,8,3,3]" in text and "f32[10,1024]" in text,
    ),
    Stop(
        "expand",
        "Operators are taken apart into those that have kernels: each idea gets one spelling, and "
        "what does nothing goes.",
        "Dropout is the identity at inference: it is gone. The lines at the end starting with # "
        "are the rules that fired, written as algebra.",
        lambda text: "Dropout(%" not in text and "Dropout(x)  =>  x" in text,
    ),
    Stop(
        "fold-bn",
        "At inference BatchNorm multiplies each channel by one number and adds another. The "
        "convolution before it can do both, with other weights and a bias.",
        "BatchNorm is gone. The new weights are values of the graph like any others: they are "
        "computed from gamma, beta, mean and variance.",
        lambda text: "BatchNorm(data" not in text and "_bn_scale(" in text,
    ),
    Stop(
        "layout",
        "Vectors want the channels side by side, so convolutions work on NHWC inside.",
        "There is one transpose where data enters, and none after the convolution: the columns of "
        "the dense layer's weights are reordered instead.",
        lambda text: "layout=NHWC" in text and "transpose(data) axes=(0,2,3,1)" in text,
    ),
    Stop(
        "hoist",
        "All that depends on parameters alone moves to a graph of its own, the bind graph. It "
        "runs once by NumPy, and again when a parameter changes. Code never contains weights.",
        "The first graph is what runs in each call: no _bn_scale, no reordering of weights.",
        lambda text: "_bn_scale(" not in text.partition("graph.bind")[0] and "graph.bind" in text,
    ),
    Stop(
        "fuse",
        "Values that become one kernel form a group.",
        "relu goes into the convolution, the multiplication by 0.5 into the dense layer: they are "
        "applied while the result is still in registers. A group of kind view moves nothing.",
        lambda text: "epilogue relu" in text and "epilogue _mul_scalar" in text,
    ),
    Stop(
        "plan",
        "Groups become steps in order, and every value gets a place: in the input, in the "
        "output, in the weights, or in the arena, one piece of memory that all steps share.",
        "The transpose became strides: step 0 reads the input in another order. Each row of the "
        "little chart at the end is a buffer with the steps during which it is alive.",
        lambda text: "2 steps" in text and "strides (512,8,1,64)" in text,
    ),
    Stop(
        "spec",
        "For each step, and for this CPU, choose a kernel with its tile sizes. All decisions are "
        "made here; a spec is one line of text and says all that its code depends on.",
        "Two steps with equal specs share one kernel, within a network and between networks.",
        lambda text: "step 0" in text and "step 1" in text,
    ),
    Stop(
        "llvm",
        "Each distinct spec becomes one LLVM function: the names in it are those of the kernel's "
        "source in codegen/kernels. Only its beginning is shown.",
        "The arguments are addresses: input, weights, bias, output. share and shares say which "
        "part of the work is meant, tid which thread does it.",
        lambda text: "define void @" in text and "%tid, i64 %share, i64 %shares" in text,
        first_lines,
    ),
    Stop(
        "asm",
        "The machine code. Shown is only the block with the most multiplications.",
        "The sums stay in registers while this runs. They are stored after the loop, when the "
        "epilogue was applied to them.",
        lambda text: multiplications(busiest_block(text)) > 1,
        busiest_block,
    ),
)


def dump_stages(net: gluon.HybridBlock, x: nd.NDArray) -> dict[str, str]:
    """The text of every stage of compiling ``net`` for ``x``.

    HYBRIDJIT_DUMP=all and HYBRIDJIT_DUMP_DIR do the same from outside of a program.
    """
    with tempfile.TemporaryDirectory() as folder:
        with hybridjit.override(dump=("all",), dump_dir=folder):
            net(x)
        files = sorted(Path(folder).glob("*/*.txt"))  # one folder for each compilation
        return {file.stem.partition("-")[2]: file.read_text().rstrip() for file in files}


def visit(stop: Stop, text: str) -> None:
    """Print one stop. Raises AssertionError when what it says does not hold."""
    print(f"\n==== {stop.stage}\n")
    print(textwrap.fill(stop.coming, 88), end="\n\n")
    print(textwrap.indent(stop.shown(text), "  "), end="\n\n")
    print(textwrap.fill("Notice: " + stop.notice, 88, subsequent_indent="        "))
    assert stop.holds(text), f"not so at stage {stop.stage}: {stop.notice}"


def main(arguments: list[str] | None = None) -> int:
    names = [stop.stage for stop in STOPS]
    parser = argparse.ArgumentParser(description="The compiler, stage by stage.")
    parser.add_argument("--after", default=",".join(names), help="stages to show")
    parser.add_argument("--out", default=".", type=Path, help="the page's folder (this one)")
    args = parser.parse_args(arguments)
    wanted = args.after.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(names)}")

    net = Small(prefix="net_")
    net.initialize()
    net.hybridize()
    x = nd.random.uniform(shape=(1, 8, 8, 8))
    texts = dump_stages(net, x)
    for stop in STOPS:
        if stop.stage in wanted:
            visit(stop, texts[stop.stage])
    write_page(net, x, args.out / "tour.html")
    return 0


def write_page(net: gluon.HybridBlock, x: nd.NDArray, path: Path) -> None:
    """The last stop: all of this, and the time of every step, as a page to click through."""
    print("\n==== page\n")
    print(textwrap.fill("All stages, the plan, the code and the time of every step, linked.", 88))
    print(f"\n  {hybridjit.view(net, x, path=path, profile=True, seconds=0.2)}\n")
    notice = (
        "select the convolution and walk through the stages with [ and ]: its line in this file, "
        "the BatchNorm that goes into it, its place in memory, its kernel's hot loop."
    )
    print(textwrap.fill("Notice: " + notice, 88, subsequent_indent="        "))


if __name__ == "__main__":
    sys.exit(main())
