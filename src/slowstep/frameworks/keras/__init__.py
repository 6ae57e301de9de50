"""Keras 3: models that train by `fit`, on TensorFlow, JAX or PyTorch."""
