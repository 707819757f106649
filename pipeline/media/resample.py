"""How long a sound is at the rate that a model hears."""

from __future__ import annotations

import math

import numpy as np

from promptmill.pipeline.media.base import AudioInfo


def samples_at(info: AudioInfo, rate: int) -> int:
    """Samples per channel once resampled to `rate`.

    Rounded up in float32, as torchaudio does: above 2**24 samples that is not exact.
    """
    if info.rate == rate:
        return info.samples
    common = math.gcd(info.rate, rate)
    return int(np.ceil(np.float32(rate // common * info.samples / (info.rate // common))))
