"""gluon-cv's model zoo: one network of each family, with an input that it takes.

The sizes are the smallest that the networks are made for, so that a whole family takes seconds.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hybridjit as mx
from hybridjit import nd

# Patterns of names, the shape of a picture or a film, and other arguments of the constructor.
_RULES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    (r"cifar_", (32, 32), {}),
    (r"ssd_300", (300, 300), {}),
    (r"ssd_512", (512, 512), {}),
    (r"yolo3", (128, 128), {}),
    (r".*rcnn_fpn", (64, 64), {}),
    # Of the scores of 1,000 detections many are as far apart as rounding.
    (r"mask_rcnn", (128, 160), {"rcnn_max_dets": 10, "rpn_test_post_nms": 10}),
    (r".*(faster|mask|doublehead)_rcnn", (128, 160), {}),
    (r"(fcn|psp|deeplab|danet)_", (96, 96), {"crop_size": 96}),
    (r"icnet", (96, 96), {"crop_size": 96}),
    (r"fastscnn", (192, 192), {"crop_size": 192}),
    (r"(simple|mobile)_pose", (64, 64), {}),
    (r"alpha_pose", (64, 64), {}),
    (r"center_net", (128, 128), {}),
    (r"hrnet.*_s$", (128, 128), {}),
    (r"monodepth2", (192, 640), {}),
    (r"c3d", (16, 112, 112), {}),
    (r"(p3d|r2plus1d)", (16, 112, 112), {}),
    (r"i3d_slow", (4, 64, 64), {}),
    (r"i3d", (16, 64, 64), {}),
    (r"slowfast", (36, 64, 64), {}),
    (r"inceptionv3", (299, 299), {}),
    (r"(vgg|alexnet|densenet|squeezenet|residualattention|inceptionv1|googlenet)", (224, 224), {}),
    (r"", (64, 64), {}),
]

# Residual blocks, many of them in a chain.
_SUMS = re.compile(
    r"resnet|resnext|resnest|darknet|senet|basicblock|bottleneck|hrnet|highres|seq-\d+-linear"
)

# The last layers of detectors, and scales that bring exponents and logits near 1: scores that all
# are
# alike or saturated are sorted by their rounding. Regions that leave the picture are empty once
# they are cut to it: none suppresses another, and their features are alike.
_HEAD = re.compile(r"predictor|yolooutput|rpnhead\d+_conv2_")
_CENTER_HEAD = re.compile(r"centernet\d+_conv[135]$")
_GAINS = [
    ("ssd|yolo3_mobile", 0.1),
    (".*rcnn_fpn", 0.05),
]

# CenterNet sorts scores of all cells. They have to be further apart than rounding moves them.
_APART = 1e-5
_PICTURES = 20

# Samples of deformable convolutions are within a tenth of a cell or so. Trained maps are smooth;
# drawn ones are noise, in which neighbours have nothing in common: with samples a cell away each
# of these layers doubles the rounding before it, because it moves the layer's operand. Of the 16 in
# a row of dla34_dcnv2, float32 is 1e-3 of the deviation from float64 then, and 1e-5 with these.
_OFFSETS = 0.001

_EACH = """
    resnet18_v1 resnet50_v1 resnet18_v2 resnet50_v2 resnest14 resnest50 se_resnet18_v1
    se_resnet50_v1 se_resnet18_v2 vgg11 vgg11_bn alexnet densenet121 shufflenet_v1 shufflenet_v2
    squeezenet1.0 squeezenet1.1 googlenet inceptionv3 xception xception71 mobilenet0.25
    mobilenetv2_0.25 mobilenetv3_large mobilenetv3_small cifar_resnet20_v1 cifar_resnet20_v2
    cifar_wideresnet16_10 cifar_resnext29_32x4d cifar_residualattentionnet56
    residualattentionnet56 resnet18_v1b resnet50_v1b resnet50_v1b_gn resnet50_v1c resnet50_v1d
    resnet50_v1e resnet50_v1s resnet18_v1b_0.89 resnet50_v1d_0.11 resnext50_32x4d
    se_resnext50_32x4d resnext101e_64x4d senet_154 darknet53 nasnet_4_1056 dla34
    hrnet_w18_small_v1_c hrnet_w18_small_v2_c hrnet_w18_c hrnet_w18_small_v1_s
    ssd_300_vgg16_atrous_voc ssd_512_resnet18_v1_voc ssd_512_mobilenet1.0_voc
    ssd_300_mobilenet0.25_voc ssd_300_mobilenet1.0_lite_coco ssd_300_resnet34_v1b_voc
    yolo3_darknet53_voc yolo3_mobilenet1.0_voc yolo3_mobilenet0.25_voc center_net_resnet18_v1b_voc
    center_net_resnet18_v1b_dcnv2_voc center_net_dla34_voc center_net_dla34_dcnv2_voc
    center_net_mobilenetv3_small_duc_voc
    faster_rcnn_resnet50_v1b_voc faster_rcnn_fpn_resnet50_v1b_coco
    doublehead_rcnn_resnet50_v1b_voc mask_rcnn_resnet18_v1b_coco mask_rcnn_fpn_resnet18_v1b_coco
    fcn_resnet50_voc psp_resnet50_ade deeplab_resnet50_ade deeplab_v3b_plus_wideresnet_citys
    icnet_resnet50_citys fastscnn_citys danet_resnet50_citys deeplab_resnest50_ade
    simple_pose_resnet18_v1b simple_pose_resnet50_v1d mobile_pose_resnet18_v1b
    mobile_pose_mobilenet1.0 mobile_pose_mobilenetv3_small alpha_pose_resnet101_v1b_coco
    vgg16_ucf101 inceptionv1_ucf101 inceptionv3_ucf101 resnet18_v1b_kinetics400 c3d_kinetics400
    p3d_resnet50_kinetics400 r2plus1d_resnet18_kinetics400 i3d_resnet50_v1_ucf101
    i3d_inceptionv1_kinetics400 i3d_nl5_resnet50_v1_kinetics400 slowfast_4x16_resnet50_kinetics400
    i3d_slow_resnet101_f16s4_kinetics700 siamrpn_alexnet_v2_otb15
    monodepth2_resnet18_kitti_stereo_640x192
"""
FAMILIES = _EACH.split()


# Exceptions of gluon-cv's constructors: for weights that cannot be fetched or are not there, and
# for
# code that symbols do not run.
ERRORS = (OSError, AttributeError, ValueError)


class Network(NamedTuple):
    """A network of gluon-cv with drawn weights and statistics, and inputs for it."""

    block: Any
    inputs: list[nd.NDArray]


def import_zoo(checkout: Path) -> Any:
    """gluon-cv's zoo in a checkout, on hybridjit."""
    mx.install_as_mxnet()
    for old in (int, float):  # NumPy 1.24 took these names away, which gluon-cv reads
        setattr(np, old.__name__, old)
    sys.path.insert(0, str(checkout))
    from gluoncv import model_zoo  # noqa: PLC0415  (it imports mxnet)

    return model_zoo


def names(zoo: Any, words: list[str]) -> Iterator[str]:
    """A network of each family; or all of the zoo with one of these words in their name."""
    if words:
        floats = (n for n in zoo.get_model_list() if not n.endswith("_int8"))
        yield from (n for n in floats if any(word in n for word in words))
    else:
        yield from FAMILIES


def make(zoo: Any, name: str) -> Network:
    """A network by its name."""
    mx.random.seed(1)
    size, told = next((s, t) for pattern, s, t in _RULES if re.match(pattern, name))
    shapes = [(1, 3, *size)]
    if name.startswith("siamrpn"):
        shapes = [(1, 3, 127, 127), (1, 3, 287, 287)]  # name and folder
    block = zoo.get_model(name, pretrained=False, **_without_download(zoo, name), **told)
    block.initialize()
    inputs = [nd.random.normal(shape=shape) for shape in shapes]
    block(*inputs)  # so that all shapes are known
    _draw(block, name)
    if name.startswith("center_net"):
        _level_heads(block, inputs[0])
        inputs = [_picture(block, shapes[0])]
    return Network(block, inputs)


def _level_heads(block: Any, x: nd.NDArray) -> None:
    """Give the last layers weights with which their results have a deviation of 1."""
    hooks = []
    block.apply(lambda b: hooks.append(b.register_forward_hook(_level)) if _is_head(b) else None)
    block(x)
    for hook in hooks:
        hook.detach()


def _is_head(block: Any) -> bool:
    return bool(_CENTER_HEAD.search(block.name))


def _level(block: Any, _: Any, y: nd.NDArray) -> None:
    """Called with a layer and its result."""
    weight = block.params.get("weight")
    weight.set_data(weight.data() / float(y.asnumpy().std()))


def _picture(block: Any, shape: tuple[int, ...]) -> nd.NDArray:
    """A picture whose scores are apart. Raises ValueError where none is found."""
    for _ in range(_PICTURES):
        x = nd.random.normal(shape=shape)
        scores = np.sort(block(x)[1].asnumpy(), axis=None)
        if np.diff(scores).min() > _APART:
            return x
    raise ValueError(f"none of {_PICTURES} pictures has scores further apart than {_APART}")


def _without_download(zoo: Any, name: str) -> dict[str, bool]:
    """Prevents a constructor from loading the weights of an inner network."""
    told = inspect.signature(zoo.model_zoo._models[name]).parameters
    is_handed_on = re.match(r"(ssd|.*rcnn|psp|deeplab|fcn|icnet|danet|.*pose)_", name)
    return {"pretrained_base": False} if is_handed_on or "pretrained_base" in told else {}


def _draw(block: Any, name: str) -> None:
    """Weights that keep the size of activations, statistics as after training."""
    gain = next((g for pattern, g in _GAINS if re.match(pattern, name)), 1.0)
    for key, param in block.collect_params().items():
        if key.endswith("init_scale"):  # of pixels up to 255
            param.set_data(nd.ones(param.shape))
        elif key.endswith("gamma"):
            reaches = (0.4, 0.8) if _SUMS.search(key) else (0.8, 1.4)
            param.set_data(nd.random.uniform(*reaches, shape=param.shape))
        elif key.endswith(("running_var", "moving_var")):
            param.set_data(nd.random.uniform(0.8, 1.4, shape=param.shape))
        elif key.endswith("weight") and len(param.shape) > 1:
            reach = (2.0 / np.prod(param.shape[1:])) ** 0.5
            reach *= gain if _HEAD.search(key) else 1.0
            reach *= _OFFSETS if key.endswith("offset_weight") else 1.0
            param.set_data(nd.random.normal(0, reach, shape=param.shape))
