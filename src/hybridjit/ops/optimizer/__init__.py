"""Update rules of optimizers as operators.

Input: a weight, its gradient, the states. Output: the new weight; eager calls write the new states
in place.
"""

from . import adaptive_steps, lamb, several, sgd

__all__ = ["adaptive_steps", "lamb", "several", "sgd"]
