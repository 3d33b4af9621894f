"""Layers that MXNet keeps apart as experimental."""

from . import cnn, nn, rnn

__all__ = ["cnn", "nn", "rnn"]
