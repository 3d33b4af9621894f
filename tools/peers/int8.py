"""Networks in 8 bits: hybridjit beside ONNX Runtime and OpenVINO, in turn.

    python tools/peers/int8.py --peers PYTHON --threads 1 2

It makes the networks, quantizes them by ONNX Runtime (static files with quantized values, dynamic
ones, and weights of 4 bits) and, where NNCF is installed beside OpenVINO, by that, and calls each
in one process for each engine. A cell has milliseconds a call, CPU time with one thread, elapsed
time with more, and the error: the root mean square of differences from float32, in deviations of
the output.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from int8_models import NETWORKS
from records import cpu_and_commit, write_record
from turns import mean_text, ratio_to_best, take_turns
from varying.compare import text_of

HERE = Path(__file__).resolve().parent
OURS = ("hybridjit", "hybridjit-calibrated")
OTHERS = ("onnxruntime", "openvino", "openvino-nncf")
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
COLUMNS = ["Network", "quantized file", "ratio", 'precision="int8"', "ratio", "ONNX Runtime",
           "OpenVINO", "OpenVINO, NNCF"]  # fmt: skip
NAMES = {"resnet18_v1": "ResNet-18", "resnet50_v1": "ResNet-50", "mobilenet1_0": "MobileNet 1.0",
         "mobilenet_v2_1_0": "MobileNetV2", "bert": "BERT base, 128 tokens",
         "vit": "ViT small, 6 layers", "squeezenet1_1": "SqueezeNet 1.1",
         "densenet121": "DenseNet-121", "efficientnet": "EfficientNet-B0",
         "lstm_1": "LSTM, 32 steps, 1 sample", "lstm_16": "LSTM, 32 steps, 16 samples",
         "decoder": "decoder of 6 layers, a token"}  # fmt: skip


def made_models(options, folder):
    """Write the networks into a folder, but for those that it has."""
    folder.mkdir(parents=True, exist_ok=True)
    last = {name: f"{name}-{NETWORKS[name][2][-1]}.onnx" for name in options.nets}
    names = [name for name, file in last.items() if not (folder / file).exists()]
    script = str(HERE / "int8_models.py")
    for step, python in (("write", options.python), ("quantize", options.peers)):
        if names:
            subprocess.run([python, script, step, str(folder), *names], check=True)


def measured(options, folder, file, threads):
    """The medians of all engines' rounds, and their errors and versions."""
    script, commands = str(HERE / "int8_engine.py"), {}
    for name in options.engines:
        python = options.python if name in OURS else options.peers
        commands[name] = [python, script, name, str(folder), file, str(threads)]
    return take_turns(commands, options.rounds, options.seconds)


def row_of(file, medians, said):
    """Cells of a network, and the ratios to the fastest other engine."""
    cells = {n: f"{s['ms']:.2f} ({s['error']:.2g})" for n, s in said.items()}
    ratios = {name: ratio_to_best(medians, name, OTHERS) for name in OURS}
    net, mode = file.split("-")
    row = [f"{NAMES.get(net, net)}; {mode}"]
    for name in OURS:
        found = ratios[name]
        row += [cells.get(name, "-"), f"{found['ratio']:.2f}" if found else "-"]
    return [*row, *(cells.get(name, "-") for name in OTHERS)], ratios


def compared(options, folder, threads):
    """A record as ``docs/performance`` has them."""
    rows, ratios, versions = [], [], {}
    for file in (f"{name}-{mode}" for name in options.nets for mode in NETWORKS[name][2]):
        medians, said = measured(options, folder, file, threads)
        row, found = row_of(file, medians, said)
        print("  ".join(row), flush=True)
        rows.append(row)
        ratios.append(found)
        versions.update((name, engine["version"]) for name, engine in said.items())
    means = {name: mean_text(ratios, name) for name in OURS}
    kind = "CPU time" if threads == 1 else "elapsed time"
    known = ", ".join(f"{PEERS[name]} {versions[name]}" for name in PEERS if name in versions)
    title = f"8 bits, batch 1, {threads} thread{'s' * (threads > 1)}"
    return {
        "title": title,
        "unit": f"ms of {kind} a call and error in deviations of the float32 output; {known}",
        **cpu_and_commit(options.note),
        "commands": [f"python tools/peers/int8.py --peers PYTHON --threads {threads}"],
        "columns": COLUMNS,
        "rows": rows,
        "geometric_mean": {
            column: float(mean)
            for column, mean in zip(("quantized file", 'precision="int8"'), means.values())
            if mean
        },
    }


def read_options(arguments):
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    made.add_argument("--peers", default=sys.executable, help="one with the other engines")
    made.add_argument("--nets", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    made.add_argument("--engines", nargs="+", default=[*OURS, *OTHERS])
    made.add_argument("--threads", nargs="+", type=int, default=[1])
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--seconds", type=float, default=0.3, help="per engine and round")
    made.add_argument("--models", type=Path, help="folder that keeps the networks")
    made.add_argument("--note", default="", help="words on the machine, for the record")
    made.add_argument("--json", help="record to write; {} stands for the number of threads")
    return made.parse_args(arguments)


def main(arguments=None):
    options = read_options(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.models or Path(temporary)).resolve()
        made_models(options, folder)
        for threads in options.threads:
            made = compared(options, folder, threads)
            print(text_of(made), made["geometric_mean"], flush=True)
            write_record(options.json, made, threads)


if __name__ == "__main__":
    main()
