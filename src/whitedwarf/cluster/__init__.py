"""Several machines as one: dask.distributed finds and watches them, stages of a model pass activations on."""
