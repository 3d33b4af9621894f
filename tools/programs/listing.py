"""The programs that are run, the data that each reads and arguments that make it short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import data


@dataclass
class Program:
    """A program at ``path`` of MXNet's or gluon-cv's checkout.

    ``data`` makes its files: a path below the folder that it runs in (its own, or ``folder``), and
    function that writes there. ``limit`` is in seconds. ``says`` matches the lines that tell how it
    went; they are in the file ``log`` when they are not printed.
    """

    path: str
    what: str
    arguments: str = ""
    data: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    folder: str | None = None
    limit: int = 300
    says: str = ""
    log: str = ""


DIGITS = {"data": data.mnist}
FEW_DIGITS = {"data": partial(data.mnist, train=256, test=64)}
HOLMES = {"data": data.sherlock}
SMALL_TEXT = "--num-hidden 50 --num-embed 50"
RECORDS = {"data/cifar10_train.rec": data.few_records, "data/cifar10_val.rec": data.few_records}
BOXES = {"data/train.rec": data.boxes, "data/val.rec": data.boxes}
CIFAR = (
    "--data-train data/cifar10_train.rec --data-val data/cifar10_val.rec --image-shape 3,28,28 "
    "--num-classes 5 --num-examples 160 --batch-size 16 --pad-size 0 --lr 0.02"
)
PLAIN = "--max-random-h 0 --max-random-s 0 --max-random-l 0"
SSD = (
    "--train-path data/train.rec --val-path data/val.rec --network resnet50 --data-shape 64 "
    "--batch-size 4 --num-class 3 --class-names a,b,c --label-width 17 --num-example 24 "
    "--frequent 2 --gpus="
)

GLUON = [
    Program(
        "example/gluon/mnist/mnist.py", "image classification with Gluon", "--epochs 2", DIGITS
    ),
    Program(
        "example/gluon/image_classification.py",
        "MobileNet, hybridized, on records",
        "--dataset cifar10 --model mobilenet0.25 --epochs 4 --lr 0.02 --mode hybrid",
        {"data": data.cifar_records},
        says="validation",
    ),
    Program(
        "example/gluon/dc_gan/dcgan.py",
        "GAN with two trainers",
        "--dataset mnist --nepoch 1 --ngf 8 --ndf 8 --inception_score=",
        FEW_DIGITS,
        says="generator loss",
    ),
    Program(
        "example/gluon/sn_gan/train.py",
        "GAN with spectral normalization, clipped gradients",
        "--epochs 1 --batch-size 16",
        {"../../../home/datasets/cifar10": partial(data.cifar10, count=8)},
    ),
    Program(
        "example/gluon/word_language_model/train.py",
        "word language model, gradients clipped by their norm",
        "--epochs 3 --emsize 64 --nhid 64",
        {"data": data.wikitext2},
    ),
    Program(
        "example/gluon/lstm_crf/lstm_crf.py",
        "LSTM with a conditional random field",
        limit=900,
    ),
    Program(
        "example/gluon/super_resolution/super_resolution.py",
        "super resolution, pairs of pictures",
        "--epochs 1 --test_batch_size 4",
        {"../../../home/.mxnet/datasets/BSDS500": data.bsds500},
    ),
    Program(
        "example/multi-task/multi-task-learning.py",
        "multi-task learning",
        data={"../../home/datasets/mnist": data.mnist},
        says="Epoch",
    ),
    Program(
        "example/autoencoder/convolutional_autoencoder.py",
        "convolutional autoencoder",
        data={"../../home/datasets/fashion-mnist": partial(data.mnist, train=512, test=64)},
    ),
    Program(
        "tests/nightly/estimator/test_sentiment_rnn.py",
        "Estimator: a convolutional and a recurrent network for texts",
        says="Train finished",
        limit=600,
    ),
    Program("example/adversary/adversary_generation.py", "adversarial examples", data=DIGITS),
    Program(
        "example/recommenders/demo1-MF.py",
        "recommender, hybridized",
        data={"ml-100k": data.movielens},
        says="RMSE",
    ),
]

MODULE = [
    Program(
        "example/module/mnist_mlp.py",
        "image classification with Module",
        data={"data": partial(data.mnist, train=12000)},
    ),
    Program(
        "example/image-classification/train_mnist.py",
        "LeNet, Module.fit",
        "--network lenet --num-epochs 2 --num-examples 2400",
        DIGITS,
    ),
    Program(
        "example/image-classification/train_cifar10.py",
        "ResNet on records, checkpoints",
        f"{CIFAR} {PLAIN} --network resnet --num-layers 8 --num-epochs 4 --model-prefix net",
        RECORDS,
        says="Validation|Train-",
    ),
    Program(
        "example/image-classification/fine-tune.py",
        "fine-tuning of a checkpoint",
        f"{CIFAR} --pretrained-model net --load-epoch 4 --num-epochs 6",
        RECORDS,
        says="Validation|Train-",
    ),
    Program(
        "example/ssd/train.py",
        "SSD training",
        f"{SSD} --pretrained= --end-epoch 2",
        BOXES,
        says="Train-CrossEntropy",
        limit=900,
    ),
    Program(
        "example/ssd/train.py",
        "transfer learning with frozen layers (SSD)",
        f"{SSD} --pretrained model/ssd_resnet50_64 --epoch 1 --freeze ^(conv0|stage1).* "
        "--end-epoch 2 --prefix model/again",
        BOXES,
        says="Train-CrossEntropy",
        limit=900,
    ),
    Program(
        "example/vae-gan/vaegan_mxnet.py",
        "variational autoencoder with a GAN's loss",
        "--train --use_cpu --training_data_path pictures --num_epoch 1 --batch_size 16 --nef 8 "
        "--ndf 8 --ngf 8 --show_after_every 2",
        {"pictures": data.grey_pictures},
        says="kldivergence",
    ),
    Program(
        "example/rnn/bucketing/lstm_bucketing.py",
        "bucketing LSTM",
        f"{SMALL_TEXT} --num-epochs 3 --lr 0.1",
        HOLMES,
    ),
    Program(
        "example/rnn/bucketing/cudnn_rnn_bucketing.py",
        "bucketing with the fused LSTM",
        f"{SMALL_TEXT} --num-epochs 6 --optimizer adam",
        HOLMES,
    ),
    Program("example/numpy-ops/custom_softmax.py", "custom operator, its own loss", data=DIGITS),
    Program(
        "example/numpy-ops/weighted_logistic_regression.py",
        "custom operator, bound by hand",
        says=r"\[",
    ),
    Program(
        "example/stochastic-depth/sd_mnist.py",
        "stochastic depth: a module of its own in a chain",
        data=DIGITS,
    ),
    Program(
        "example/model-parallel/matrix_factorization/train.py",
        "matrix factorization in two groups of contexts",
        "--num-epoch 1",
        {"ml-10M100K": data.movielens_10m},
    ),
    Program(
        "example/svrg_module/api_usage_example/example_api_train.py",
        "SVRG, step by step and by fit",
        "-e 10",
        says="Train-|Train cost",
    ),
    Program(
        "example/svrg_module/linear_regression/train.py",
        "SVRG, linear regression",
        "-e 4",
        {"data": data.years},
        says="Train-",
        log="experiments.log",
    ),
    Program(
        "example/named_entity_recognition/src/preprocess.py",
        "(data of the next one)",
        data={"../data": data.named_entities},
    ),
    Program(
        "example/named_entity_recognition/src/ner.py",
        "named entities, buckets of two inputs",
        "--num-epochs 2 --lstm-state-size 20 --word-embed 30 --batch-size 16",
    ),
]

GLUONCV = [
    Program(
        "scripts/classification/cifar/train_cifar10.py",
        "CIFAR ResNet, hybridized",
        "--num-epochs 1 --batch-size 32 --mode hybrid --model cifar_resnet20_v1 -j 0",
        {"../../../home/datasets/cifar10": partial(data.cifar10, count=40)},
    ),
    Program(
        "scripts/classification/cifar/train_mixup_cifar10.py",
        "CIFAR ResNet with mixed pictures",
        "--num-epochs 1 --batch-size 32 --mode hybrid --model cifar_resnet20_v1 -j 0",
        {"../../../home/datasets/cifar10": partial(data.cifar10, count=40)},
    ),
    Program(
        "scripts/segmentation/train.py",
        "semantic segmentation, Fast-SCNN",
        "--model fastscnn --dataset citys --no-cuda --epochs 6 --lr 0.02 --batch-size 4 "
        "--test-batch-size 4 --base-size 128 --crop-size 128 --workers 0",
        {"../../home/.mxnet/datasets/citys": data.cityscapes},
        limit=600,
    ),
]

PROGRAMS = [*GLUON, *MODULE, *GLUONCV]
