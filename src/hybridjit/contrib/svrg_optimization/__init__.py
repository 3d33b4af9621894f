"""Stochastic variance reduced gradients: full gradients correct the gradients of batches.

Johnson and Zhang, Accelerating Stochastic Gradient Descent using Predictive Variance Reduction,
NIPS 2013.
"""

from . import svrg_module, svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]
