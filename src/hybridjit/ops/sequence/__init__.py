"""Operators on steps of a sequence: recurrent layers, attention, padded lengths, alignments."""
