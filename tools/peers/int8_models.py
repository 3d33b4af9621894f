"""Networks for the comparison in 8 bits, with drawn weights: ``int8_models.py STEP DIR NAME ...``

``write``, run by hybridjit, writes NAME.onnx in float32 and NAME-io.npz with inputs ``x0``, ``x1``,
the right first output ``y`` and calibration ``data``. ``quantize``, run by an interpreter with ONNX
Runtime, writes NAME-MODE.onnx: ``static``, with ONNX Runtime's quantized values, ``dynamic``, with
bytes that calls quantize, ``nbits`` and ``int4``, with weights of 4 bits; and NAME-MODE-nncf.xml by
OpenVINO's quantizer if it is installed.
"""

import functools
import importlib.util
import sys
from pathlib import Path

from int8_networks import decoder, efficient, recurrent, vit
from varying.networks import encoder, of_zoo

SAMPLES = 16
TOKENS = 128


def images(generator):
    return [generator.uniform(size=(1, 3, 224, 224))]


def tokens(*shape):
    return lambda generator: [generator.randint(0, 1000, shape)]


def token_and_past(generator):
    return [generator.randint(0, 1000, (1, 1)), generator.normal(size=(12, 12, TOKENS, 64))]


STATIC, DYNAMIC = ("static",), ("dynamic",)
BOTH = STATIC + DYNAMIC
# Of each network its maker, its inputs, and the modes of quantization that are compared.
NETWORKS = {
    "resnet18_v1": (of_zoo("resnet18_v1"), images, STATIC),
    "resnet50_v1": (of_zoo("resnet50_v1"), images, STATIC),
    "mobilenet1_0": (of_zoo("mobilenet1_0"), images, STATIC),
    "mobilenet_v2_1_0": (of_zoo("mobilenet_v2_1_0"), images, STATIC),
    "bert": (functools.partial(encoder, layers=12, units=768, heads=12), tokens(1, TOKENS), BOTH),
    "vit": (vit, images, BOTH),
    "squeezenet1_1": (of_zoo("squeezenet1_1"), images, STATIC),
    "densenet121": (of_zoo("densenet121"), images, STATIC),
    "efficientnet": (efficient, images, STATIC),
    "lstm_1": (recurrent, tokens(32, 1), DYNAMIC),
    "lstm_16": (recurrent, tokens(32, 16), DYNAMIC),
    "decoder": (decoder, token_and_past, ("dynamic", "nbits", "int4")),
}


def write(folder, name):
    import numpy as np

    import hybridjit as mx

    make, draw, modes = NETWORKS[name]
    generator = np.random.RandomState(0)
    x, *data = ([part.astype(np.float32) for part in draw(generator)] for _ in range(1 + SAMPLES))
    mx.random.seed(0)
    net = make(mx)
    net.initialize(mx.init.MSRAPrelu() if modes == STATIC else mx.init.Xavier())
    given = [mx.nd.array(part) for part in x]
    net(*given)
    for key, parameter in net.collect_params().items():
        if key.endswith(("running_var", "gamma")):
            parameter.set_data(mx.nd.random.uniform(0.7, 1.3, shape=parameter.shape))
        elif key.endswith(("running_mean", "beta")):
            parameter.set_data(mx.nd.random.uniform(-0.2, 0.2, shape=parameter.shape))
    net.hybridize()
    made, prefix = net(*given), str(folder / name)
    y = made[0] if isinstance(made, (list, tuple)) else made
    net.export(prefix)
    files = (f"{prefix}-symbol.json", f"{prefix}-0000.params")
    shapes = [part.shape for part in x]
    mx.onnx.export_model(*files, shapes, onnx_file_path=f"{prefix}.onnx")
    calibration = {"data": np.stack([parts[0] for parts in data])} if "static" in modes else {}
    inputs = {f"x{i}": part for i, part in enumerate(x)}
    np.savez(f"{prefix}-io.npz", y=y.asnumpy(), **calibration, **inputs)


def quantize(folder, name):
    """Write the network in each of its modes, by ONNX Runtime and by NNCF."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prefix = str(folder / name)
    quant_pre_process(f"{prefix}.onnx", f"{prefix}-folded.onnx", skip_symbolic_shape=True)
    for mode in NETWORKS[name][2]:
        BY_ONNXRUNTIME[mode](prefix)
        if importlib.util.find_spec("nncf"):
            by_nncf(prefix, name, mode)


def statically(prefix):
    import numpy as np
    from onnxruntime import quantization

    data = np.load(f"{prefix}-io.npz")["data"]

    class Data(quantization.CalibrationDataReader):
        samples = iter(data)

        def get_next(self):
            x = next(self.samples, None)
            return None if x is None else {"data": x}

    quantization.quantize_static(
        f"{prefix}-folded.onnx",
        f"{prefix}-static.onnx",
        Data(),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,  # on x86-64 its kernels of int8 are slower
    )


def dynamically(prefix):
    from onnxruntime import quantization

    quantization.quantize_dynamic(f"{prefix}-folded.onnx", f"{prefix}-dynamic.onnx")


def in_four_bits(prefix, mode):
    """Weights of 4 bits: ``nbits`` as operands of MatMulNBits, ``int4`` of DequantizeLinear."""
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel

    source = ONNXModel(onnx.load(f"{prefix}-folded.onnx"))
    source.replace_gemm_with_matmul()
    kinds = quantization.QuantFormat
    made = MatMulNBitsQuantizer(
        source.model,
        block_size=32,
        is_symmetric=True,
        accuracy_level=4,  # ONNX Runtime multiplies bytes then, in 0.6 of the time
        quant_format=kinds.QDQ if mode == "int4" else kinds.QOperator,
    )
    made.process()
    made.model.save_model_to_file(f"{prefix}-{mode}.onnx")


BY_ONNXRUNTIME = {
    "static": statically,
    "dynamic": dynamically,
    "nbits": functools.partial(in_four_bits, mode="nbits"),
    "int4": functools.partial(in_four_bits, mode="int4"),
}


def by_nncf(prefix, name, mode):
    """The network as OpenVINO's own tool quantizes it: weights alone, unless ``static``."""
    import nncf
    import numpy as np
    import openvino

    model = openvino.Core().read_model(f"{prefix}.onnx")
    if mode == "static":
        kind = nncf.ModelType.TRANSFORMER if "dynamic" in NETWORKS[name][2] else None
        data = nncf.Dataset(list(np.load(f"{prefix}-io.npz")["data"]))
        made = nncf.quantize(model, data, model_type=kind)
    elif mode == "dynamic":
        made = nncf.compress_weights(model)
    else:
        bits = nncf.CompressWeightsMode.INT4_SYM
        made = nncf.compress_weights(model, mode=bits, group_size=32, all_layers=True)
    openvino.save_model(made, f"{prefix}-{mode}-nncf.xml", compress_to_fp16=False)


if __name__ == "__main__":
    step, target, *names = sys.argv[1:]
    for each in names:
        {"write": write, "quantize": quantize}[step](Path(target), each)
