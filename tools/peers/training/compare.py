"""Alternate engines on the same steps of training and print medians and ratios: ``compare.py DIR``.

DIR is the folder that ../setup.sh made: DIR/mx has MXNet 1.9.1, which writes the weights that all
start from, and DIR/ncnn has PyTorch, which is left out where it is not. For each network: the ratio
of hybridjit's loop to the best of the others in the same rounds, the largest relative difference of
the first ten losses from MXNet's on the same weights and batches (not for networks with Dropout,
nor of PyTorch, whose weights are its own), and for each engine milliseconds for one step (median of
round medians), seconds until the first step had ended, and the most memory. ``hybridjit-step`` is
``hybridjit.train_step`` instead of the loop.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from batches import BATCHES
from turns import (
    mean_text,
    parser,
    ratio_text,
    ratio_to_best,
    read_options,
    take_turns,
    write_figures,
)

ENGINES = ["hybridjit", "hybridjit-step", "mxnet", "torch", "torch-compile"]
RANDOM = {"mlp", "transformer"}  # they draw the masks of Dropout


def command(options, name, net, threads, weights):
    """How an engine's process is started, in the environment that has the engine."""
    folder = "ncnn" if name.startswith("torch") else "mx"
    environment = str(options.dir / folder / "bin/python")
    python = options.python if name.startswith("hybridjit") else environment
    return [python, str(HERE / "engine.py"), name, net, str(threads), str(weights)]


def written_weights(options, net):
    """MXNet's file of initial parameters for the Gluon engines; made once."""
    weights = options.dir / "training" / f"{net}.params"
    weights.parent.mkdir(exist_ok=True)
    if not weights.exists():
        subprocess.run(command(options, "write", net, 1, weights), check=True)
    return weights


def measure(options, net, threads):
    """One row: each engine's median of round medians, the ratio, and how far losses differ."""
    weights = written_weights(options, net)
    commands = {
        name: command(options, name, net, threads, weights)
        for name in dict.fromkeys(options.engines)
    }
    medians, said = take_turns(commands, options.rounds, options.seconds)
    others = [name for name in medians if not name.startswith("hybridjit")]
    row = {"net": net, "threads": threads, "engines": said}
    row["ratio"] = ratio_to_best(medians, "hybridjit", others)
    row["loss_difference"] = None if net in RANDOM else loss_difference(said)
    return row


def loss_difference(said):
    """The largest of any hybridjit's from MXNet's; None without both."""
    ours = [found["losses"] for name, found in said.items() if name.startswith("hybridjit")]
    if "mxnet" not in said or not ours:
        return None
    theirs = said["mxnet"]["losses"]
    return max(abs(a - b) / abs(b) for losses in ours for a, b in zip(losses, theirs))


def row_text(row):
    text = "  ".join(
        f"{name} {r['ms']:.2f} ms ({r['compile_s']:.1f} s, {r['rss_mb']:.0f} MB)"
        for name, r in row["engines"].items()
    )
    differ = row["loss_difference"]
    losses = "" if differ is None else f"losses differ by {differ:.1e}  "
    return f"{row['net']} threads {row['threads']}: {ratio_text(row['ratio'])}{losses}{text}"


def report(options, threads):
    """Print a row for each network, and the mean of their ratios; gives the rows."""
    rows = []
    for net in options.nets:
        rows.append(measure(options, net, threads))
        print(row_text(rows[-1]), flush=True)
    mean = mean_text(rows, "ratio")
    if mean:
        print(f"geometric mean of ratios, threads {threads}: {mean}")
    return rows


def main():
    summary = __doc__.partition("\n")[0]
    options = read_options(parser(summary, [*BATCHES], ENGINES, rounds=5, seconds=1.0))
    rows = [row for threads in options.threads for row in report(options, threads)]
    write_figures(options, rows)


if __name__ == "__main__":
    main()
