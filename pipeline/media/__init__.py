"""Placeholders to media spans: sizes from headers, counts by family.

`base.py` says what a family is, `families/` holds those that are built in, `expander.py` is the
step; the rest finds the media (`fetch.py`), sizes them (`sizer.py`) and cuts (`cut.py`).
"""

from promptmill.pipeline.media import families as families  # registers them
from promptmill.pipeline.media.base import register_family
from promptmill.pipeline.media.expander import Expander
from promptmill.pipeline.media.load import EngineCodec, load_expander
from promptmill.pipeline.media.splice import Expanded

__all__ = ["EngineCodec", "Expanded", "Expander", "load_expander", "register_family"]
