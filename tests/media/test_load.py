"""From a model's files to its expander."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from promptmill.pipeline.media import load_expander, register_family
from promptmill.pipeline.media.admit import row_kwargs
from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaKwargs,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    find_builder,
)
from promptmill.pipeline.media.values import Values, row_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.options import JobOptions

BundleOf = Callable[..., ModelBundle]


def job(**options: object) -> JobOptions:
    return JobOptions.model_validate({"input": ["a"], "output": "b", "model": "c", **options})


def test_a_family_of_ones_own(
    bundle_of: BundleOf, codec: TextCodec, picture: Callable[..., MediaItem]
) -> None:
    @register_family("OwnModel")
    def own(bundle: ModelBundle, codec: TextCodec) -> Family:
        def expand(info: ImageInfo, site: Site) -> Replacement:
            return Replacement(np.full(info.width // 2, 3, np.int32))

        return Family(
            name="own",
            image=MediaRule(expand=expand, placeholder="<image>", target="<image>", limit=2),
        )

    expander = load_expander(bundle_of({"architectures": ["OwnModel"]}), job(), codec)
    assert expander is not None
    assert expander.supported == {Modality.IMAGE: 2}
    assert expander.placeholder(Modality.IMAGE, 0) == "<image>"
    assert expander.placeholder(Modality.AUDIO, 0) is None
    made = expander.expand(codec.encode("a<image>")[0], None, None, [picture(8)])
    assert made.ids.tolist()[1:] == [3] * 4


def test_unknown_families_are_refused_where_the_run_starts(
    bundle_of: BundleOf, codec: TextCodec
) -> None:
    bundle = bundle_of({"architectures": ["NewVL"], "vision_config": {"patch_size": 14}})
    with pytest.raises(JobError, match="NewVL") as caught:
        load_expander(bundle, job(), codec)
    assert "register_family" in str(caught.value)
    assert "--media-family" in str(caught.value)
    none = {modality.value: 0 for modality in Modality}
    assert load_expander(bundle, job(limit_mm_per_prompt=none), codec) is None


def test_text_models_have_none(bundle_of: BundleOf, codec: TextCodec) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    assert load_expander(bundle_of(config), job(), codec) is None
    text_only = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"}
    assert load_expander(bundle_of(text_only), job(), codec) is None


def test_limits_of_the_job(bundle_of: BundleOf, codec: TextCodec) -> None:
    bundle = bundle_of({"model_type": "qwen2_vl"})
    expander = load_expander(bundle, job(limit_mm_per_prompt={"image": 3}), codec)
    assert expander is not None
    assert expander.supported == {Modality.IMAGE: 3, Modality.VIDEO: 999}


def test_a_tokenizer_without_the_token(bundle_of: BundleOf, codec: TextCodec) -> None:
    config = {"model_type": "llava_next", "image_grid_pinpoints": [[336, 336]]}
    config["vision_config"] = {"image_size": 336, "patch_size": 14}
    bundle = bundle_of(config, {"processor_config.json": {"image_token": "<picture>"}})
    with pytest.raises(JobError, match="<picture>"):
        load_expander(bundle, job(), codec)


def test_nonsense_in_a_models_files(bundle_of: BundleOf, codec: TextCodec) -> None:
    files = {"preprocessor_config.json": {"patch_size": "14"}}
    with pytest.raises(JobError, match=r"patch_size.*preprocessor_config\.json"):
        load_expander(bundle_of({"model_type": "qwen2_vl"}, files), job(), codec)


@pytest.mark.parametrize("patch", [14, {"height": 14, "width": 14}, [14, 14]])
def test_sides_are_written_in_three_ways(
    bundle_of: BundleOf, codec: TextCodec, patch: object
) -> None:
    config = {"model_type": "mistral3", "vision_config": {"patch_size": 14}}
    bundle = bundle_of(config, {"preprocessor_config.json": {"patch_size": patch}})
    builder = find_builder(config)
    assert builder is not None
    made = builder(bundle, codec).expand(ImageInfo(56, 28), Site())
    assert len(made.ids) == 1 * (2 + 1)


def test_rows_may_bring_arguments_where_they_are_trusted() -> None:
    given = {"max_pixels": 1}
    trusting = job(trust_request_mm_kwargs=True, mm_processor_kwargs={"max_pixels": 2, "a": 3})
    assert row_kwargs(trusting, given, None).processor == {"max_pixels": 1, "a": 3}
    assert row_kwargs(job(), None, {}) == MediaKwargs()
    for name in ("mm_processor_kwargs", "media_io_kwargs"):
        with pytest.raises(RowError) as caught:
            row_kwargs(job(), *((given, None) if name == "mm_processor_kwargs" else (None, given)))
        assert caught.value.code is ErrorCode.UNSUPPORTED_REQUEST
        assert caught.value.parameter == name


def test_scoped_arguments_win() -> None:
    kwargs = MediaKwargs({"max_pixels": 1, "images_kwargs": {"max_pixels": 2}})
    assert row_values(kwargs, Modality.IMAGE).integer("max_pixels") == 2
    assert row_values(kwargs, Modality.VIDEO).integer("max_pixels") == 1


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, "1", True, [], {}])
def test_rows_must_give_positive_integers(value: object) -> None:
    values = Values(({"max_pixels": value},), "mm_processor_kwargs", of_row=True)  # type: ignore[dict-item] # any JSON
    with pytest.raises(RowError) as caught:
        values.integer("max_pixels", 5)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert caught.value.parameter == "mm_processor_kwargs"
