"""A model folder or hub id to a model bundle, once per run."""
