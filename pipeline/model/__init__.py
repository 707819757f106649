"""The model folder, read once where the run starts, and the bundle it becomes."""

import os

# On import transformers says that it found no PyTorch, which nobody here needs to know.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
