"""Networks for the comparison in 8 bits, with drawn weights: ``int8_models.py STEP DIR NAME ...``

``write``, run by hybridjit, writes NAME.onnx in float32 and NAME-io.npz with an input ``x``, the
right output ``y`` and calibration ``data``. ``quantize``, run by an interpreter with ONNX Runtime,
writes NAME-static.onnx, with ONNX Runtime's quantized values, NAME-dynamic.onnx, with bytes that
calls quantize, and NAME-nncf.xml by OpenVINO's quantizer if it is installed.
"""

import functools
import sys
from pathlib import Path

from varying.networks import encoder, of_zoo

SAMPLES = 16
TOKENS = 128


def vit(mx, units=384, layers=6, heads=6):
    """A vision transformer: patches of 16x16, an encoder, the mean, a dense layer."""
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2D(units, 16, strides=16)
            self.encoder = encoder(mx, layers, units, heads)[2:]
            self.dense = nn.Dense(1000, in_units=units)

        def hybrid_forward(self, F, x):
            rows = F.transpose(F.reshape(self.patches(x), shape=(0, 0, -1)), axes=(0, 2, 1))
            return self.dense(F.mean(self.encoder(rows), axis=1))

    return Net()


def efficient(mx):
    """Inverted residuals with swish and gates of channels, as EfficientNet-B0 has them."""
    nn = mx.gluon.nn

    class Layer(mx.gluon.HybridBlock):
        def __init__(self, given, made, window, stride, wide):
            super().__init__()
            inner, self.adds = wide * given, given == made and stride == 1
            self.body, self.gate, self.end = (nn.HybridSequential() for _ in range(3))
            if wide > 1:
                self.body.add(nn.Conv2D(inner, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
            depthwise = nn.Conv2D(
                inner, window, stride, window // 2, groups=inner, in_channels=inner, use_bias=False
            )
            self.body.add(depthwise, nn.BatchNorm(), nn.Swish())
            self.gate.add(nn.GlobalAvgPool2D(), nn.Conv2D(max(1, given // 4), 1), nn.Swish())
            self.gate.add(nn.Conv2D(inner, 1), nn.Activation("sigmoid"))
            self.end.add(nn.Conv2D(made, 1, use_bias=False), nn.BatchNorm())

        def hybrid_forward(self, F, x):
            y = self.body(x)
            y = self.end(F.broadcast_mul(y, self.gate(y)))
            return x + y if self.adds else y

    net, given = nn.HybridSequential(), 32
    net.add(nn.Conv2D(32, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
    stages = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
              (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # fmt: skip
    for wide, made, count, stride, window in stages:
        for number in range(count):
            net.add(Layer(given, made, window, stride if number == 0 else 1, wide))
            given = made
    net.add(nn.Conv2D(1280, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
    net.add(nn.GlobalAvgPool2D(), nn.Dense(1000))
    return net


def images(generator):
    return generator.uniform(size=(1, 3, 224, 224))


def tokens(generator):
    return generator.randint(0, 1000, (1, TOKENS))


# Of each network its maker, its inputs, and the modes of quantization that are compared.
NETWORKS = {
    "resnet18_v1": (of_zoo("resnet18_v1"), images, ("static",)),
    "resnet50_v1": (of_zoo("resnet50_v1"), images, ("static",)),
    "mobilenet1_0": (of_zoo("mobilenet1_0"), images, ("static",)),
    "mobilenet_v2_1_0": (of_zoo("mobilenet_v2_1_0"), images, ("static",)),
    "bert": (
        functools.partial(encoder, layers=12, units=768, heads=12),
        tokens,
        ("static", "dynamic"),
    ),
    "vit": (vit, images, ("static", "dynamic")),
    "squeezenet1_1": (of_zoo("squeezenet1_1"), images, ("static",)),
    "densenet121": (of_zoo("densenet121"), images, ("static",)),
    "efficientnet": (efficient, images, ("static",)),
}


def write(folder, name):
    import numpy as np

    import hybridjit as mx

    make, draw, _ = NETWORKS[name]
    generator = np.random.RandomState(0)
    x, *data = (draw(generator).astype(np.float32) for _ in range(1 + SAMPLES))
    mx.random.seed(0)
    net = make(mx)
    net.initialize(mx.init.Xavier() if draw is tokens or name == "vit" else mx.init.MSRAPrelu())
    net(mx.nd.array(x))
    for key, parameter in net.collect_params().items():
        if key.endswith(("running_var", "gamma")):
            parameter.set_data(mx.nd.random.uniform(0.7, 1.3, shape=parameter.shape))
        elif key.endswith(("running_mean", "beta")):
            parameter.set_data(mx.nd.random.uniform(-0.2, 0.2, shape=parameter.shape))
    net.hybridize()
    y, prefix = net(mx.nd.array(x)).asnumpy(), str(folder / name)
    net.export(prefix)
    files = (f"{prefix}-symbol.json", f"{prefix}-0000.params")
    mx.onnx.export_model(*files, [x.shape], onnx_file_path=f"{prefix}.onnx")
    np.savez(f"{prefix}-io.npz", x=x, y=y, data=np.stack(data))


def quantize(folder, name):
    import numpy as np
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prefix, modes = folder / name, NETWORKS[name][2]
    source, folded = f"{prefix}.onnx", f"{prefix}-folded.onnx"
    data = np.load(f"{prefix}-io.npz")["data"]
    quant_pre_process(source, folded, skip_symbolic_shape=True)
    if "dynamic" in modes:
        quantization.quantize_dynamic(folded, f"{prefix}-dynamic.onnx")

    class Data(quantization.CalibrationDataReader):
        samples = iter(data)

        def get_next(self):
            x = next(self.samples, None)
            return None if x is None else {"data": x}

    quantization.quantize_static(
        folded,
        f"{prefix}-static.onnx",
        Data(),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,  # on x86-64 its kernels of int8 are slower
    )
    try:
        import nncf
    except ImportError:
        return
    import openvino

    kind = nncf.ModelType.TRANSFORMER if "dynamic" in modes else None
    model = openvino.Core().read_model(source)
    made = nncf.quantize(model, nncf.Dataset(list(data)), model_type=kind)
    openvino.save_model(made, f"{prefix}-nncf.xml")


if __name__ == "__main__":
    step, target, *names = sys.argv[1:]
    for each in names:
        {"write": write, "quantize": quantize}[step](Path(target), each)
