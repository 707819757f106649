"""Input files to shards, and a shard to raw rows."""
