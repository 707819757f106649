import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.write.parts import PartWriter
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import RawRow

ROWS = 20


def test_from_text_to_file_there_is_no_object_per_token(
    tiny_encoder: Callable[..., Encoder], tmp_path: Path
) -> None:
    encoder = tiny_encoder("chatml", engine=EngineName.FASTOKENS, max_model_len=1 << 20)
    assert encoder.tokenizer.engine.fallback_reason is None
    text = "some words of a longer row, ünïcode included " * 400
    rows = [
        RawRow("rows", n, json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
        for n in range(ROWS)
    ]
    for attempt in ("warm", "measured"):
        encoder.start_shard()
        with PartWriter(tmp_path / attempt, options=encoder.options, metadata={}) as part:
            gc.collect()
            tracemalloc.start()
            before = sys.getallocatedblocks()
            encoded = encoder.encode(rows)
            kept = sys.getallocatedblocks() - before
            part.write(encoded.rows)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    tokens = sum(len(row.ids) for row in encoded.rows)
    assert tokens > 50_000
    assert kept < 200 * ROWS
    # Ids and offsets take 12 bytes a token, once as rows and once as columns; a list of Python
    # numbers alone would take 36 more.
    assert peak < 60 * tokens
    assert not encoded.rejects
