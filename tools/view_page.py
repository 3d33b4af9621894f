"""The page of ``hybridjit view`` in a real browser: its picture for the README, and its speed.

    python tools/view_page.py --picture docs/images/view.png    SqueezeNet, with a step selected
    python tools/view_page.py --measure                      ResNet-50: seconds, bytes, frames

Needs Chromium. Seconds are those of the wall, and behind them those that the processes computed:
on a busy machine only these say something.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import hybridjit  # noqa: E402
from browser import Browser, browsing  # noqa: E402
from hybridjit import nd  # noqa: E402
from hybridjit.gluon.model_zoo import vision  # noqa: E402
from hybridjit.profiling import traced  # noqa: E402
from hybridjit.viewing import Document, Subject, inference_document, write_page  # noqa: E402

_MOVES = 120
_TRIES = 6
_TICKS = 100  # of the clock in /proc, in a second


def main(arguments: Sequence[str] | None = None) -> None:
    assert __doc__
    first, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--picture", metavar="FILE", type=Path, help="write the picture there")
    parser.add_argument("--measure", action="store_true", help="measure")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, browsing(Path(folder) / "browser") as browser:
        page = Path(folder) / "page.html"
        if args.measure:
            measure(browser, network("resnet50_v1"), page)
        if args.picture:
            take_picture(browser, network("squeezenet1.1"), page, args.picture)


def network(name: str) -> Subject:
    """A network of the model zoo, with random weights."""
    net = vision.get_model(name, prefix="net_")
    net.initialize()
    found = traced(net, nd.random.uniform(shape=(1, 3, 224, 224)))
    return Subject(name, found.outputs, found.inputs, found.params)


def take_picture(browser: Browser, subject: Subject, page: Path, path: Path) -> None:
    with hybridjit.threads(1):  # other programs disturb one thread least
        tries = [inference_document(subject, seconds=1.5) for _ in range(_TRIES)]
    write_page(min(tries, key=seconds_of), page)
    browser.open(page, 1360, 800)
    browser.run("app.open('memory')")
    browser.run("app.listing = 'assembly'; app.select({type: 'step', id: 4})")
    browser.run("document.querySelector('#inspector h3').scrollIntoView()")
    browser.settle()
    browser.picture(path)
    print(f"{path}: {path.stat().st_size} bytes")


def seconds_of(document: Document) -> float:
    """The total time of the steps of a profiled document."""
    profile = document["parts"][0]["profile"]
    assert profile is not None
    return profile["total"]


def measure(browser: Browser, subject: Subject, page: Path) -> None:
    inference_document(subject)  # compiled now: later figures exclude the compilation
    print("made", timed(lambda: write_page(inference_document(subject), page)))
    print("size", page.stat().st_size, "bytes")
    for _ in range(3):
        print("opened", opened(browser, page))
    for stage in ("plan", "fold-bn"):
        browser.run(f"app.goTo(app.track.stops.find((stop) => stop.title === '{stage}'))")
        browser.run("app.graph.fit(false)")
        browser.settle()
        print("dragged at", stage, frames(browser))


def timed(work: Callable[[], object]) -> str:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return f"{time.perf_counter() - wall:.2f} s, computing {time.process_time() - cpu:.2f} s"


def opened(browser: Browser, page: Path) -> str:
    wall, cpu = time.perf_counter(), cpu_seconds(browser.process.pid)
    browser.open(page)
    took = time.perf_counter() - wall
    return f"{took:.2f} s, computing {cpu_seconds(browser.process.pid) - cpu:.2f} s"


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all its children, in seconds (Linux)."""
    text = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(text[11]) + int(text[12])) / _TICKS
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_seconds(int(child)) for child in children)


def frames(browser: Browser) -> str:
    """Frames that the browser's own trace counts while the graph is dragged."""

    def drag() -> None:
        browser.mouse("mousePressed", 300, 700, button="left")
        for number in range(_MOVES):
            browser.mouse("mouseMoved", 300 + number % 9, 700 - 5 * number, buttons=1)
        browser.mouse("mouseReleased", 300, 100, button="left")

    cpu = cpu_seconds(browser.process.pid)
    events = browser.trace(drag, "disabled-by-default-devtools.timeline.frame,devtools.timeline")
    drawn = sorted(event["ts"] for event in events if event["name"] == "DrawFrame")
    if len(drawn) < 2:
        return f"{len(drawn)} frames"
    took = (drawn[-1] - drawn[0]) * 1e-6
    each = 1e3 * (cpu_seconds(browser.process.pid) - cpu) / len(drawn)
    return (
        f"{(len(drawn) - 1) / took:.0f} frames a second in {took:.2f} s for {_MOVES} moves, "
        f"computing {each:.1f} ms for each frame"
    )


if __name__ == "__main__":
    print(f"hybridjit {hybridjit.__version__}")
    main()
