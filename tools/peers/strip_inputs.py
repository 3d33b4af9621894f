"""Take the weights out of the inputs of the ONNX graphs, so that the runtimes may fold them."""

import glob

import onnx

for path in glob.glob("models/*.onnx"):
    model = onnx.load(path)
    weights = {w.name for w in model.graph.initializer}
    data = [i for i in model.graph.input if i.name not in weights]
    if len(data) != len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(data)
        onnx.save(model, path)
