"""Tokenizer modes: what each loads, and which one a folder gets when none is asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from promptmill.pipeline.model.bundle_cache import loaders_changed
from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.deepseek import load_deepseek
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.hf import load_hf
from promptmill.pipeline.model.loaded import Loader
from promptmill.pipeline.model.mistral import MISTRAL_FILE, load_mistral
from promptmill.schemas.errors import JobError

_LOADERS: dict[str, Loader] = {
    "hf": load_hf,
    "mistral": load_mistral,
    "deepseek_v4": load_deepseek,
    "deepseek_v41": load_deepseek,
}
_NOT_YET = {
    "deepseek_v32": "the Python prompt encoder of DeepSeek V3.2",
    "kimi_audio": "Kimi-Audio's tokenizer code and its interleaving of audio tokens",
    "cohere": "the prompt renderer of Cohere's own library",
    "kimi_k3": "the Python prompt encoder of Kimi K3",
    "inkling": "the Python prompt encoder of Inkling",
    "alpamayo2_super": "Alpamayo 2's tokenizer with its trajectory tokens",
}
"""Modes of the server that we know of, and what supporting them takes."""
_MODE_OF_ARCHITECTURE = {
    "Alpamayo2Super*": "alpamayo2_super",
    "MoonshotKimiaForCausalLM": "kimi_audio",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV4ForConditionalGeneration": "deepseek_v4",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "Inkling*": "inkling",
}
"""By architecture, as a shell pattern. Profile rule (vLLM 0.33.0, `config/model.py`)."""


def register(mode: str, loader: Loader) -> None:
    """Make a tokenizer mode known, or replace one, for this process.

    Workers get the bundle, so only the process that starts the run needs the registration.

    Example:
        >>> def load_mine(folder, config, side):
        ...     return LoadedTokenizer(facts=..., backend=my_tokenizer_json)
        >>> register("mine", load_mine)  # then: --tokenizer-mode mine

    Args:
        mode: the name, compared in lower case; not "auto".
        loader: see `promptmill.pipeline.model.loaded.Loader`.
    """
    if mode.lower() == "auto":
        raise ValueError("auto is not a mode: it chooses one")
    _LOADERS[mode.lower()] = loader
    loaders_changed()


def known_modes() -> list[str]:
    """Modes that can be loaded, in alphabetical order."""
    return sorted(_LOADERS)


def resolve_mode(asked: str, config: ModelConfig, folder: ModelFolder) -> str:
    """The mode to load: the one asked for, else what the server takes for this folder.

    In the server's order: the architecture; `consolidated*.safetensors` beside a tokenizer file of
    Mistral's; hf.

    Raises:
        JobError: a mode that is unknown or not supported.
    """
    mode = asked.lower()
    if mode == "auto":
        mode = _by_architecture(config) or ("mistral" if _is_mistral_release(folder) else "hf")
    if mode in _LOADERS:
        return mode
    if mode not in _NOT_YET:
        raise JobError(
            f"--tokenizer-mode {asked}: no such mode. Known: auto, {', '.join(known_modes())}; "
            "others can be added with register()."
        )
    raise JobError(
        f"Tokenizer mode {mode}{' (of this architecture)' if asked.lower() == 'auto' else ''} is "
        f"not supported yet: it would need {_NOT_YET[mode]}. register() can add it; "
        "--tokenizer-mode hf uses the folder's tokenizer and chat template instead, which may "
        "differ from what is served."
    )


def loader_of(mode: str) -> Loader:
    """The loader of a resolved mode."""
    return _LOADERS[mode]


def _by_architecture(config: ModelConfig) -> str | None:
    for architecture in config.architectures:
        for pattern, mode in _MODE_OF_ARCHITECTURE.items():
            if fnmatchcase(architecture, pattern):
                return mode
    return None


def _is_mistral_release(folder: ModelFolder) -> bool:
    return any(fnmatchcase(name, "consolidated*.safetensors") for name in folder.listing) and any(
        MISTRAL_FILE.fullmatch(name) for name in folder.listing
    )
