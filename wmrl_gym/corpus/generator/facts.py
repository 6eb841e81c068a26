"""What a script's author needs to know about a competition, read from and written as the compact overview."""

from __future__ import annotations

from dataclasses import dataclass

HIGHER_IS_BETTER = {
    "rmse": False,
    "mae": False,
    "rmsle": False,
    "log_loss": False,
    "accuracy": True,
    "macro_f1": True,
    "auc": True,
}
REGRESSION = ("rmse", "mae", "rmsle")
PROBABILITY = ("auc", "log_loss")


@dataclass(frozen=True)
class TaskFacts:
    """One competition as the compact overview tells it."""

    modality: str
    """"tabular", "text" or "image"."""
    metric: str
    id_column: str
    target: str
    train_rows: int
    test_rows: int
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text_column: str | None = None
    image_size: tuple[int, int] | None = None
    image_mode: str = "L"
    missing: bool = False

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return self.metric in REGRESSION

    @property
    def probability(self) -> bool:
        """Whether the submission holds the probability of label 1."""
        return self.metric in PROBABILITY

    @property
    def pixels(self) -> int:
        """Numbers per image, channels included."""
        if self.image_size is None:
            return 0
        return self.image_size[0] * self.image_size[1] * (3 if self.image_mode == "RGB" else 1)

    def render(self) -> str:
        """The compact overview."""
        lines = [
            f"{self.modality} {self.metric} {'max' if HIGHER_IS_BETTER[self.metric] else 'min'}",
            f"id {self.id_column}",
            f"target {self.target}",
            f"train {self.train_rows} test {self.test_rows}",
        ]
        if self.text_column is not None:
            lines.append(f"text {self.text_column}")
        if self.image_size is not None:
            width, height = self.image_size
            lines.append(f"image train/{{id}}.png test/{{id}}.png {width}x{height} {self.image_mode}")
        if self.numeric:
            lines.append(f"num {' '.join(self.numeric)}")
        if self.categorical:
            lines.append(f"cat {' '.join(self.categorical)}")
        lines.append(f"missing {'yes' if self.missing else 'no'}")
        lines.append(f"submit {self.id_column} {self.target}")
        return "\n".join(lines)


def parse_facts(overview: str) -> TaskFacts:
    """Read a compact overview of a competition with one target.

    Raises:
        ValueError: if it is not a compact overview, or has several targets.
    """
    lines = overview.strip().split("\n")
    fields = {line.split(" ", 1)[0]: line.split(" ")[1:] for line in lines[1:]}
    try:
        modality, metric, _ = lines[0].split(" ")
        (target,) = fields["target"]
        image = fields.get("image")
        return TaskFacts(
            modality=modality,
            metric=metric,
            id_column=fields["id"][0],
            target=target,
            train_rows=int(fields["train"][0]),
            test_rows=int(fields["train"][2]),
            numeric=tuple(fields.get("num", ())),
            categorical=tuple(fields.get("cat", ())),
            text_column=fields["text"][0] if "text" in fields else None,
            image_size=_image_size(image[2]) if image else None,
            image_mode=image[3] if image else "L",
            missing=fields["missing"] == ["yes"],
        )
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"not a compact overview of a competition with one target: {overview!r}") from error


def _image_size(text: str) -> tuple[int, int]:
    width, height = text.split("x")
    return int(width), int(height)
