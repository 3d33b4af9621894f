"""Networks as C libraries: ``hybridjit compile --library`` writes them, ``load`` opens them."""

from .load import Library as Library
from .load import TrainingLibrary as TrainingLibrary
from .load import load as load
