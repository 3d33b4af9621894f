"""Alternate engines on the same networks and print medians and ratios. See README.md here."""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

NETS = [
    "lenet",
    "resnet18_v1",
    "resnet50_v1",
    "mobilenet1_0",
    "mobilenet_v2_1_0",
    "squeezenet1_1",
    "vgg16",
    "densenet121",
    "inception_v3",
]
ENGINES = ["hybridjit", "onnxruntime", "openvino-f32", "ncnn", "mxnet"]
HERE = Path(__file__).resolve().parent


class Engine:
    """One engine's process; ``count`` runs take about as long as was asked for."""

    def __init__(self, options, name, net, batch, threads):
        python = {
            "hybridjit": options.python,
            "mxnet": str(options.dir / "mx/bin/python"),
            "ncnn": str(options.dir / "ncnn/bin/python"),
        }.get(name, str(options.dir / "peers/bin/python"))
        arguments = [name, str(options.dir / "models"), net, str(batch), str(threads)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [python, str(HERE / "engine.py"), *arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            said = self.process.stderr.read()[-600:]
            raise RuntimeError(f"{name} on {net}: {line}{said}")
        self.info = json.loads(line)
        once = statistics.median(self.run(3))
        self.count = max(1, min(20000, int(options.seconds / once)))

    def run(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def started(options, net, batch, threads):
    engines = {}
    for name in options.engines:
        try:
            engines[name] = Engine(options, name, net, batch, threads)
        except RuntimeError as error:
            print(f"  left out: {error}", file=sys.stderr)
    return engines


def measure(options, net, batch, threads):
    """One row: each engine's median of round medians, and our ratio to the best of the others."""
    engines = started(options, net, batch, threads)
    rounds = {name: [] for name in engines}
    for _ in range(options.rounds):
        for name, engine in engines.items():
            rounds[name].append(statistics.median(engine.run(engine.count)))
    row = {"net": net, "batch": batch, "threads": threads}
    for name, engine in engines.items():
        row[name] = dict(ms=1e3 * statistics.median(rounds[name]), **engine.info)
        engine.close()
    others = [name for name in engines if name != "hybridjit" and "bf16" not in name]
    if "hybridjit" in row and others:
        best = min(others, key=lambda name: row[name]["ms"])
        pairs = sorted(a / b for a, b in zip(rounds["hybridjit"], rounds[best]))
        row.update(best=best, ratio=statistics.median(pairs), low=pairs[0], high=pairs[-1])
    return row


def row_text(row):
    text = "  ".join(
        f"{name} {r['ms']:.3f} ms (err {r['error']:.0e}, {r['compile_s']:.2f} s, "
        f"{r['rss_mb']:.0f} MB)"
        for name, r in row.items()
        if isinstance(r, dict)
    )
    if "ratio" in row:
        spread = f"[{row['low']:.2f}-{row['high']:.2f}]"
        text = f"ratio {row['ratio']:.2f} {spread} to {row['best']}  {text}"
    return f"{row['net']} batch {row['batch']} threads {row['threads']}: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path, help="the folder that setup.sh made")
    parser.add_argument("--nets", nargs="+", default=NETS)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="per engine and round")
    parser.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    options.dir = options.dir.resolve()
    results = []
    for threads in options.threads:
        for batch in options.batch:
            rows = [report(measure(options, net, batch, threads)) for net in options.nets]
            ratios = [row["ratio"] for row in rows if "ratio" in row]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                print(f"geometric mean of ratios, batch {batch}, threads {threads}: {mean:.3f}")
            results += rows
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def report(row):
    print(row_text(row), flush=True)
    return row


if __name__ == "__main__":
    main()
