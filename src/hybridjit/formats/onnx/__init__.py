"""ONNX's file format: models as records, reading and writing, without operator semantics."""
