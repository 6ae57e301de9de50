"""What gives a training other batches of tf.data than those of its own pipeline, without a function being traced anew."""
