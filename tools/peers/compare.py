"""Alternate engines on the same networks and print medians and ratios. See README.md here."""

from pathlib import Path

from turns import (
    mean_text,
    parser,
    ratio_text,
    ratio_to_best,
    read_options,
    take_turns,
    write_figures,
)

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
RATIOS = {"ratio": "ratio", "bf16_ratio": "bfloat16 ratio"}
HERE = Path(__file__).resolve().parent


def command(options, name, net, batch, threads):
    """How an engine's process is started, in the environment that has the engine."""
    if name.startswith("hybridjit"):
        python = options.python
    else:
        folder = name if name == "ncnn" else "mx" if name == "mxnet" else "peers"
        python = str(options.dir / folder / "bin/python")
    models = str(options.dir / "models")
    return [python, str(HERE / "engine.py"), name, models, net, str(batch), str(threads)]


def measure(options, net, batch, threads):
    """One row: each engine's median of round medians, and the ratios."""
    commands = {
        name: command(options, name, net, batch, threads) for name in dict.fromkeys(options.engines)
    }
    medians, said = take_turns(commands, options.rounds, options.seconds)
    row = {"net": net, "batch": batch, "threads": threads, "engines": said}
    return {**row, **ratios(medians)}


def ratios(medians):
    """Ours to the best of the others in float32, and to OpenVINO in bfloat16."""
    narrow = [name for name in medians if "bf16" in name]
    others = [name for name in medians if name != "hybridjit" and name not in narrow]
    return {
        "ratio": ratio_to_best(medians, "hybridjit", others),
        "bf16_ratio": ratio_to_best(medians, "hybridjit-bf16", ["openvino-bf16"]),
    }


def row_text(row):
    text = "  ".join(
        f"{name} {r['ms']:.3f} ms (err {r['error']:.1e}, {r['compile_s']:.2f} s, "
        f"{r['rss_mb']:.0f} MB)"
        for name, r in row["engines"].items()
    )
    found = "".join(ratio_text(row[key], what) for key, what in RATIOS.items())
    return f"{row['net']} batch {row['batch']} threads {row['threads']}: {found}{text}"


def report(options, batch, threads):
    """Print a row for each network, and the means of their ratios; gives the rows."""
    rows = []
    for net in options.nets:
        rows.append(measure(options, net, batch, threads))
        print(row_text(rows[-1]), flush=True)
    for key, what in RATIOS.items():
        mean = mean_text(rows, key)
        if mean:
            print(f"geometric mean of {what}s, batch {batch}, threads {threads}: {mean}")
    return rows


def main():
    asked = parser(__doc__, NETS, ENGINES, rounds=7, seconds=0.4)
    asked.add_argument("--batch", nargs="+", type=int, default=[1])
    options = read_options(asked)
    rows = []
    for threads in options.threads:
        for batch in options.batch:
            rows += report(options, batch, threads)
    write_figures(options, rows)


if __name__ == "__main__":
    main()
