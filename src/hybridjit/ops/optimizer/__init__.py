"""The update rules of optimizers as operators.

In: a weight, its gradient, the states. Out: the new weight; eager calls write the new states where
the old ones were.
"""

from . import adaptive_steps, lamb, several, sgd, sums

__all__ = ["adaptive_steps", "lamb", "several", "sgd", "sums"]
