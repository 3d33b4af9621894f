"""Compiled graphs as calls on arrays: for inference, for training, with gradients on the tape."""
