from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from wmrl_gym.configs.validation import Component, ConfigError, to_dataclass


class Engine:
    def __init__(self, power: float, fuel: Literal["petrol", "diesel"] = "petrol", parts: Sequence[int] = ()) -> None:
        self.power, self.fuel, self.parts = power, fuel, parts


class Car:
    def __init__(self, engine: Engine | None, doors: int = 4, colour: tuple[int, int, int] = (0, 0, 0)) -> None:
        self.engine, self.doors, self.colour = engine, doors, colour


@dataclass(frozen=True)
class Fleet:
    car: Component
    home: Path
    size: int = 1
    spare: Component | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("size must be positive")


ENGINE = {"_target_": f"{__name__}.Engine", "power": 3}
CAR = {"_target_": f"{__name__}.Car", "engine": ENGINE, "colour": [1, 2, 3]}


def test_nested_components_are_built_inside_out() -> None:
    fleet = to_dataclass(Fleet, {"car": CAR, "home": "~/cars"})
    car = fleet.car.build(doors=2)
    assert isinstance(car, Car) and isinstance(car.engine, Engine)
    assert (car.engine.power, car.doors, car.colour) == (3.0, 2, (1, 2, 3))
    assert fleet.home == Path("~/cars").expanduser()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"car": CAR, "home": ".", "sise": 2}, "unknown configuration key 'sise': did you mean 'size'"),
        ({"car": {**CAR, "door": 2}, "home": "."}, "'car.door': did you mean 'car.doors'"),
        ({"car": {**CAR, "engine": {**ENGINE, "powr": 1}}, "home": "."}, "did you mean 'car.engine.power'"),
        ({"car": {**CAR, "engine": {**ENGINE, "fuel": "diesle"}}, "home": "."}, "did you mean 'diesel'"),
        ({"car": {**CAR, "doors": "two"}, "home": "."}, "'car.doors' is 'two': give a whole number"),
        ({"car": {**CAR, "doors": True}, "home": "."}, "'car.doors' is True: give a whole number"),
        ({"car": {**CAR, "colour": [1, 2]}, "home": "."}, "'car.colour' has 2 values: give 3"),
        ({"car": {**CAR, "engine": {**ENGINE, "parts": "12"}}, "home": "."}, "'car.engine.parts' is '12': give a list"),
        ({"car": {"_target_": f"{__name__}.Caar"}, "home": "."}, f"did you mean '{__name__}.Car'"),
        ({"car": {"_target_": "no_such_module.Car"}, "home": "."}, "cannot be imported"),
        ({"car": {"doors": 4}, "home": "."}, "'car' is .*: give a mapping with _target_"),
        ({"car": CAR}, "'home' is missing"),
        ({"car": CAR, "home": ".", "size": 0}, "size must be positive"),
    ],
)
def test_what_cannot_be_right_is_refused_with_what_was_meant(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        to_dataclass(Fleet, config)


def test_whole_number_is_taken_where_a_number_is_wanted() -> None:
    component = Component.from_mapping(ENGINE)
    assert isinstance(component.arguments["power"], float)
