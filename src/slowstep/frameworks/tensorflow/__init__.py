"""TensorFlow: loops of its own, its tf.data pipelines, and what traces show of it."""
