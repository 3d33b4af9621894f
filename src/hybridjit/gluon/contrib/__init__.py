"""Layers that MXNet keeps apart as experimental."""

from . import cnn, data, nn, rnn

__all__ = ["cnn", "data", "nn", "rnn"]
