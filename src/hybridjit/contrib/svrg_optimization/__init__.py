"""Stochastic variance reduced gradients: a module that corrects each batch's by those of all data.

Johnson and Zhang, Accelerating Stochastic Gradient Descent using Predictive Variance Reduction,
NIPS 2013.
"""

from . import svrg_module, svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]
