"""The proxy's state beside verl's checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STATE_FILE = "wmrl.json"


def resume_folder(config: Any) -> Path | None:
    """The checkpoint from which verl is about to resume, found by verl's own rules; None if it begins anew.

    Raises:
        FileNotFoundError: if the proxy's state is not in it.
    """
    from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

    trainer = config.trainer
    if trainer.resume_mode == "disable":
        return None
    if trainer.resume_mode == "auto":
        found = find_latest_ckpt_path(str(Path(trainer.default_local_dir).absolute()))
    else:
        found = str(trainer.resume_from_path)
    if found is None:
        return None
    folder = Path(found).absolute()
    if not (folder / STATE_FILE).is_file():
        raise FileNotFoundError(
            f"{folder} is a checkpoint without the proxy's state ({STATE_FILE})\n"
            "  It was written without the proxy: begin anew with trainer.resume_mode=disable and its weights as "
            "actor_rollout_ref.model.path."
        )
    return folder
