"""Blocks of a prefix cache: counted as a cache would give them, in bounded memory."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.pipeline.lengths import bounds, bucket, buckets
from promptmill.pipeline.reuse import BLOCK, BlockCounter, Reuse, block_hashes, hashes_kept
from promptmill.workers.report.gather import HASHES

IDS = st.integers(0, 2)
STEMS = [np.arange(n * BLOCK, dtype=np.int32) for n in (0, 1, 3)]
PROMPTS = st.lists(
    st.tuples(st.sampled_from(STEMS), st.lists(IDS, max_size=3), st.integers(0, 40)).map(
        lambda made: np.concatenate([made[0], np.repeat(np.array(made[1], np.int32), made[2])])
    ),
    max_size=20,
)


def merged(counters: list[BlockCounter]) -> Reuse:
    """What a report makes of the receipts of several shards."""
    whole = BlockCounter(HASHES)
    for counter in counters:
        if (blocks := counter.blocks()) is not None:
            whole.merge(blocks)
    return whole.reuse()


def given_by_a_cache(prompts: list[np.ndarray]) -> int:
    """Blocks that a cache without end gives, prompt after prompt."""
    cache: set[bytes] = set()
    given_blocks = 0
    for ids in prompts:
        keys = [ids[: (n + 1) * BLOCK].tobytes() for n in range(max(0, len(ids) - 1) // BLOCK)]
        given_blocks += sum(key in cache for key in keys)
        cache.update(keys)
    return given_blocks


@settings(deadline=None)
@given(prompts=PROMPTS, split=st.integers(0, 20))
def test_as_a_cache_would_give_them(prompts: list[np.ndarray], split: int) -> None:
    parts = [BlockCounter(), BlockCounter()]
    parts[0].add(prompts[:split])
    parts[1].add(prompts[split:])
    reuse = merged(parts)
    assert reuse.error == 0
    assert reuse.blocks - reuse.different == given_by_a_cache(prompts)
    assert reuse.tokens == sum(map(len, prompts))
    assert 0 <= reuse.share < 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shards=st.integers(1, 6))
def test_many_blocks_are_estimated_within_the_error_that_is_said(seed: int, shards: int) -> None:
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, 50, 16 * int(n) + 1, np.int32) for n in rng.integers(1, 60, 600)]
    prompts += [prompts[n] for n in rng.integers(0, 600, 300)]
    counters = [BlockCounter(512) for _ in range(shards)]
    for n, prompt in enumerate(prompts):
        counters[n % shards].add([prompt])
    reuse = merged(counters)
    true = len(np.unique(block_hashes(prompts)))
    assert 0 < reuse.error < 0.05 * true
    assert abs(reuse.different - true) < 5 * reuse.error


def test_what_is_kept_is_bounded() -> None:
    counter = BlockCounter(64)
    rng = np.random.default_rng(1)
    for _ in range(50):
        counter.add([rng.integers(0, 9999, 1000, np.int32)])
    blocks = counter.blocks()
    assert blocks is not None
    assert len(blocks.hashes) == 64 * 8
    assert blocks.blocks == 50 * 62
    assert hashes_kept(1) == 4096
    assert hashes_kept(10**6) == 128


def test_media_and_salts_make_a_block_and_all_after_it_differ() -> None:
    ids = np.arange(50, dtype=np.int32)
    plain, marked = block_hashes([ids, ids], {1: [(1, 7)]}).reshape(2, 3)
    assert (plain == marked).tolist() == [True, False, False]
    assert (marked == block_hashes([ids], {0: [(1, 7), (9, 1)]})).all()


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33, 1000, 4096, 131071, 2**31 - 1])
def test_a_length_lies_in_its_bucket(length: int) -> None:
    first, stop = bounds(bucket(length))
    assert first <= length < stop
    assert stop - first <= max(1, length // 8)
    assert buckets([length, 3, length]) == Counter([bucket(length), bucket(3), bucket(length)])


def test_buckets_follow_each_other() -> None:
    edges = [bounds(number) for number in range(200)]
    assert all(one[1] == two[0] for one, two in pairwise(edges))
