"""The functions of ``mx.np`` and ``mx.sym.np``, written once over a front end.

A front end makes uses of operators from tensors of its kind: arrays compute, symbols make nodes.
"""
