"""ONNX's file format: models as records, both ways. Knows no operator's meaning."""
