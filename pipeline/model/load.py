"""From what the user named as the model to the bundle that every worker gets.

The only part of promptmill that imports transformers; run once, where a run starts.
"""

from __future__ import annotations

import transformers
from packaging.specifiers import SpecifierSet

from promptmill.pipeline.model.config import read_config
from promptmill.pipeline.model.folder import ModelFolder, locate
from promptmill.pipeline.model.length import derive_context_length, length_warnings
from promptmill.pipeline.model.registry import loader_of, resolve_mode
from promptmill.pipeline.model.templates import processor_template
from promptmill.schemas import profile
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions, Side, Task

_PROCESSOR_FILES = (
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "params.json",
)


def load_bundle(options: JobOptions) -> ModelBundle:
    """Resolve the model of a job: the same folder always gives an equal bundle.

    No weights are read or downloaded, and no code that comes with a model is run.

    Raises:
        JobError: the model cannot be found, fetched or used; the message names the file at fault
            and the way out.
    """
    check_transformers(transformers.__version__)
    folder = locate(options.model, options.revision)
    config = read_config(folder)
    mode = resolve_mode(options.tokenizer_mode, config, folder)
    side = Side.LEFT if options.task is Task.GENERATE else Side.RIGHT
    loaded = loader_of(mode)(folder, config, side)
    length = derive_context_length(
        config.text,
        model_type=config.model_type,
        tokenizer_max_length=(folder.read_json("tokenizer_config.json") or {}).get(
            "model_max_length"
        ),
        sentence_max_length=config.sentence.get("max_seq_length"),
    )
    return ModelBundle(
        name=folder.name,
        revision=folder.revision,
        tokenizer_mode=mode,
        facts=loaded.facts,
        backend=loaded.backend,
        files=loaded.files,
        special_tokens_map=loaded.special_tokens_map,
        chat_templates=loaded.chat_templates,
        templates_are_named=loaded.templates_are_named,
        processor_template=processor_template(folder, config),
        config=config.raw,
        generation_config=folder.read_json("generation_config.json") or {},
        processor_configs=_processor_configs(folder),
        model_vocab_size=config.vocab_size,
        derived_max_model_len=length.derived,
        warnings=(*loaded.warnings, *length_warnings(length, options.max_model_len)),
    )


def check_transformers(version: str) -> None:
    """Refuse a transformers release that the rules profile was not checked with.

    Raises:
        JobError: outside the profile's range; other releases load some tokenizers with other ids.
    """
    if not SpecifierSet(profile.TRANSFORMERS_RANGE).contains(version, prereleases=True):
        raise JobError(
            f"transformers {version} is installed, and the rules profile {profile.NAME} was "
            f"checked with {profile.TRANSFORMERS_RANGE}: other releases load some tokenizers with "
            f"other ids. Run `pip install 'transformers{profile.TRANSFORMERS_RANGE}'`."
        )


def _processor_configs(folder: ModelFolder) -> dict[str, JsonObject]:
    found = {name: folder.read_json(name) for name in _PROCESSOR_FILES}
    return {name: values for name, values in found.items() if values is not None}
