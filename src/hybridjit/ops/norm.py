"""Normalisation and softmax."""
