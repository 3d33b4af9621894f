"""Existing MXNet programs: ``import mxnet`` answered by hybridjit, and what is not here said so."""

from .alias import install_as_mxnet

__all__ = ["install_as_mxnet"]
