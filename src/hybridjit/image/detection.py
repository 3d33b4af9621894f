"""``mx.image.detection``: in MXNet pictures and boxes augmented for training; nothing of it here.

Its names are placeholders: see ``compat/placeholders.py``.
"""
