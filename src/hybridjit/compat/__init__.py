"""Support for MXNet programs: ``import mxnet`` imports hybridjit; missing names are explained."""

from .alias import install_as_mxnet

__all__ = ["install_as_mxnet"]
