"""Functions of ``mx.np`` and ``mx.sym.np``, defined once on a frontend.

A frontend applies operators to tensors of its kind: arrays compute, symbols create nodes.
"""
