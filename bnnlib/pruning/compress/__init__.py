"""Networks made physically small: smaller modules, their report, their file, their ONNX export."""
