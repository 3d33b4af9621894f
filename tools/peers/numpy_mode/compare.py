"""Networks of NumPy mode beside MXNet 1.9.1, one thread: ``compare.py --mxnet PYTHON``.

Each network is hybridized and called, and trained by steps of Adam, in turns with MXNet. Prints CPU
milliseconds (median of round medians) and the ratio of hybridjit's to MXNet's in the same rounds.
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from networks import NETWORKS
from turns import compile_bytes, mean_text, ratio_text, ratio_to_best, take_turns


def measure(options, net, task):
    pythons = {"hybridjit": options.python, "mxnet": options.mxnet}
    commands = {
        name: [python, str(HERE / "engine.py"), name, net, task] for name, python in pythons.items()
    }
    medians, said = take_turns(commands, options.rounds, options.seconds)
    ratio = ratio_to_best(medians, "hybridjit", ["mxnet"])
    return {"net": net, "task": task, "engines": said, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mxnet", required=True, help="interpreter with MXNet 1.9.1")
    parser.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    parser.add_argument("--nets", nargs="+", default=[*NETWORKS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="per engine and round")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    compile_bytes(options.python)
    rows = []
    for net in options.nets:
        for task in ("infer", "train"):
            rows.append(measure(options, net, task))
            times = "  ".join(f"{k} {v['ms']:.3f} ms" for k, v in rows[-1]["engines"].items())
            print(f"{net} {task}: {ratio_text(rows[-1]['ratio'])}{times}", flush=True)
    print(f"geometric mean of ratios: {mean_text(rows, 'ratio')}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
