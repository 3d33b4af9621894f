"""Handwritten digits: a network that MXNet trained, run from MXNet's own files without MXNet.

    python examples/digits.py                 all 360 images
    python examples/digits.py --count 20      the first 20

Loads ``digits/digits-symbol.json`` and ``digits/digits-0000.params``, labels the images with every
operator run by NumPy and then compiled, and compares both with the labels and with the numbers that
MXNet 1.9.1 gave for the same images. The exit code is 1 if anything is off.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hybridjit import gluon, nd

FOLDER = Path(__file__).parent / "digits"
SHADES = " ░▒▓█"
ASCII_SHADES = " .:+#"
DRAWN = 4
ALLOWED_DIFFERENCE = 1e-4


def prepare(images: np.ndarray) -> np.ndarray:
    """uint8 [n,8,8] of 0..16 to the network's float32 [n,1,28,28] of 0..1.

    Every pixel becomes 3x3, with a border of two around the image.
    """
    enlarged = np.kron(images.astype("float32") / 16, np.ones((1, 3, 3), "float32"))
    return np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[:, np.newaxis]


def load_network() -> gluon.SymbolBlock:
    """The network, from the two files that MXNet's ``net.export`` wrote."""
    return gluon.SymbolBlock.imports(
        str(FOLDER / "digits-symbol.json"), ["data"], str(FOLDER / "digits-0000.params")
    )


def timed(work: Callable[[], object], repeats: int = 1) -> float:
    """Milliseconds for one call of ``work``."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return 1e3 * (time.perf_counter() - start) / repeats


def draw(images: np.ndarray, captions: list[str]) -> str:
    """8x8 images side by side, two characters for a pixel, with a caption below each."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    shades = SHADES if encoding.startswith("utf") else ASCII_SHADES
    rows = []
    for y in range(8):
        pictures = ("".join(2 * shades[(value + 3) // 4] for value in im[y]) for im in images)
        rows.append("   ".join(pictures).rstrip())
    rows.append("   ".join(f"{caption:<16}" for caption in captions).rstrip())
    return "\n".join("    " + row for row in rows)


def draw_some(images: np.ndarray, found: np.ndarray, labels: np.ndarray) -> str:
    """The first images with what the network takes them for; the last one a mistake, if any."""
    shown = list(range(len(images)))[:DRAWN]
    mistakes = np.flatnonzero(found != labels)
    if len(mistakes):
        shown[-1] = int(mistakes[0])
    captions = []
    for i in shown:
        mark = "" if found[i] == labels[i] else f", is a {labels[i]}"
        captions.append(f"it says {found[i]}{mark}")
    return draw(images[shown], captions)


def compare(name: str, logits: np.ndarray, labels: np.ndarray, mxnet: np.ndarray) -> bool:
    """Print accuracy and distance to MXNet's numbers; whether both are what they should be."""
    found = logits.argmax(axis=1)
    right, wanted = int((found == labels).sum()), int((mxnet.argmax(axis=1) == labels).sum())
    gap = float(np.abs(logits - mxnet).max())
    print(
        f"  {name:<10} {right} of {len(labels)} right ({100 * right / len(labels):.2f} %), "
        f"largest difference to MXNet's numbers {gap:.1e}"
    )
    return right == wanted and gap < ALLOWED_DIFFERENCE


def dump_command() -> str:
    """The command that shows the generated code, for the shell that runs this program."""
    program = Path(sys.executable).with_name("hybridjit")
    name = short(program) if program.exists() else f"{short(Path(sys.executable))} -m hybridjit"
    symbol = short(FOLDER / "digits-symbol.json")
    return f"{name} dump {symbol} --shape data=1,1,28,28 --after plan,spec,asm"


def short(path: Path) -> str:
    """A path relative to the current folder if it lies below it, else in full."""
    relative = os.path.relpath(path)
    return str(path.absolute()) if relative.startswith("..") else relative


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Label handwritten digits.")
    parser.add_argument("--count", type=int, default=360, help="how many images (1 to 360)")
    count = parser.parse_args(arguments).count
    if not 1 <= count <= 360:
        parser.error(f"--count is 1 to 360, got {count}")

    data = np.load(FOLDER / "digits-test.npz")
    images, labels, mxnet = (data[name][:count] for name in ("images", "labels", "logits"))
    batch = nd.array(prepare(images))
    one = batch[0:1]
    net = load_network()

    net.hybridize(active=False)
    eager = net(batch).asnumpy()
    eager_time = timed(lambda: net(one).asnumpy(), 20)

    net.hybridize()
    first_time = timed(lambda: net(one).asnumpy())
    one_time = timed(lambda: net(one).asnumpy(), 500)
    compiled = np.concatenate([net(batch[i : i + 1]).asnumpy() for i in range(count)])

    print(draw_some(images, compiled.argmax(axis=1), labels))
    print(f"\n{count} images, labelled one operator after the other (eager) and compiled:")
    good = compare("eager", eager, labels, mxnet)
    good &= compare("compiled", compiled, labels, mxnet)
    print(f"\nOne image: eager {eager_time:.3f} ms, compiled {one_time:.3f} ms")
    print(
        f"(the first compiled call took {first_time:.0f} ms: it compiles the network, or finds the "
        "code that an earlier run left on disk)."
    )
    print(f"\nTo see the generated code:\n    {dump_command()}")
    if not good:
        print("\nNot as MXNet 1.9.1 has it: see the differences above.", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
