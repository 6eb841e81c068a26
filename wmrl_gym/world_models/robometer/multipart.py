"""A batch of clips in the form that Robometer's evaluation server reads, and its answer.

The protocol is that of ``robometer/evals/eval_server.py`` (github.com/robometer/robometer, c7f38e2): each sample is a
form field of JSON, whose frames refer to a file in NumPy's format that is sent beside it.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmrl_gym.world_models.robometer.clip import Clip
from wmrl_gym.world_models.robometer.reading import ProtocolError, Reading, reading_of


def encode(clips: Sequence[Clip], per_prefix: bool) -> tuple[bytes, str]:
    """Body and content type of a request that asks for the progress of every clip."""
    boundary = f"wmrl-{secrets.token_hex(16)}"
    body = io.BytesIO()

    def part(headers: str, content: bytes) -> None:
        body.write(f"--{boundary}\r\nContent-Disposition: form-data; {headers}\r\n\r\n".encode())
        body.write(content)
        body.write(b"\r\n")

    for i, clip in enumerate(clips):
        file = f"sample_{i}_trajectory_frames"
        # The server takes a part for an array only if its file name ends like this.
        part(f'name="{file}"; filename="{file}.npy"\r\nContent-Type: application/octet-stream', _npy(clip))
        part(f'name="sample_{i}"', json.dumps(_sample(clip, i, file)).encode())
    part('name="use_frame_steps"', b"true" if per_prefix else b"false")
    body.write(f"--{boundary}--\r\n".encode())
    return body.getvalue(), f"multipart/form-data; boundary={boundary}"


def decode(raw: bytes, clips: Sequence[Clip]) -> list[Reading]:
    """The readings in an answer.

    Raises:
        ValueError: if it is no JSON.
        ProtocolError: if it is not an answer to these clips.
    """
    answer = json.loads(raw)
    progress = _rows(answer, "outputs_progress", "progress_pred")
    if progress is None:
        raise ProtocolError(f"the answer has no outputs_progress.progress_pred: {raw[:200]!r}")
    success = _rows(answer, "outputs_success", "success_probs")
    for name, rows in (("progress_pred", progress), ("success_probs", success)):
        if rows is not None and len(rows) != len(clips):
            raise ProtocolError(f"{name} has {len(rows)} answers to {len(clips)} clips")
    return [reading_of(clip, progress[i], None if success is None else success[i]) for i, clip in enumerate(clips)]


def _npy(clip: Clip) -> bytes:
    file = io.BytesIO()
    np.save(file, clip.frames, allow_pickle=False)
    return file.getvalue()


def _sample(clip: Clip, index: int, file: str) -> dict[str, Any]:
    return {
        "sample_type": "progress",
        "trajectory": {
            "frames": {"__numpy_file__": file},
            "frames_shape": list(clip.frames.shape),
            "task": clip.instruction,
            "id": str(index),
            "metadata": {"subsequence_length": len(clip.frames)},
            "video_embeddings": None,
        },
    }


def _rows(answer: Any, group: str, name: str) -> list[Any] | None:
    outputs = answer.get(group) if isinstance(answer, Mapping) else None
    rows = outputs.get(name) if isinstance(outputs, Mapping) else None
    return rows if isinstance(rows, list) else None
