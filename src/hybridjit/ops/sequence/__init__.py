"""Operators on sequences: recurrent layers, attention, padded lengths, alignments."""
