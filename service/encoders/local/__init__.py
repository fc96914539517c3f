"""An encoder of texts on this machine: an ONNX model and its tokenizer in a folder, behind the same HTTP as others."""
