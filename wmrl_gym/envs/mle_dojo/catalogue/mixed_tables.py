"""Tabular competitions with what real tables have: gaps, categories written as words, dates."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING

from wmrl_gym.envs.mle_dojo.catalogue.sources import source_path
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Examples, Source

if TYPE_CHECKING:
    import pandas as pd

_OPENML = "datasets/tests/data/openml/"
_TITANIC = Source("scikit-learn", "sklearn", (_OPENML + "id_40945/data-v1-dl-16826755.arff.gz",))
_PENGUINS = Source("scikit-learn", "sklearn", (_OPENML + "id_42585/data-v1-dl-21854866.arff.gz",))
_CHESS = Source("scikit-learn", "sklearn", (_OPENML + "id_3/data-v1-dl-3.arff.gz",))
_CARS = Source("vega_datasets", "vega_datasets", ("_data/cars.json",))
_WEATHER = Source("vega_datasets", "vega_datasets", ("_data/seattle-weather.csv",))
_REGIMES = Source("lifelines", "lifelines", ("datasets/dd.csv",))
_RAND = Source("statsmodels", "statsmodels", ("datasets/randhie/src/randhie.csv",))
_FERTILITY = Source("statsmodels", "statsmodels", ("datasets/fertility/fertility.csv",))

_RAND_SITES = {
    1: "Dayton",
    2: "Seattle",
    3: "Fitchburg",
    4: "Franklin County",
    5: "Charleston",
    6: "Georgetown County",
}
_FERTILITY_YEARS = (1960, 1965, 1970, 1975, 1980, 1985, 1990, 1995)


def _read_arff(source: Source, quote: str) -> pd.DataFrame:
    """The data section of a dense ARFF file as a table; '?' is missing, numbers are numbers."""
    import pandas as pd

    with gzip.open(source_path(source, source.files[0]), "rt", encoding="utf-8") as lines:
        names = []
        for line in lines:
            words = line.split()
            if words and words[0].lower() == "@attribute":
                names.append(words[1].strip("'\""))
            elif words and words[0].lower() == "@data":
                break
        reader = csv.reader(lines, quotechar=quote, escapechar="\\")
        rows = [row for row in reader if row and not row[0].startswith("%")]
    table = pd.DataFrame(rows, columns=names).replace({"?": None, "": None})
    for name in names:
        numbers = pd.to_numeric(table[name], errors="coerce")
        if numbers.notna().sum() == table[name].notna().sum():
            table[name] = numbers
    return table


def _load_titanic() -> Examples:
    names = {
        "pclass": "Pclass",
        "name": "Name",
        "sex": "Sex",
        "age": "Age",
        "sibsp": "SibSp",
        "parch": "Parch",
        "ticket": "Ticket",
        "fare": "Fare",
        "cabin": "Cabin",
        "embarked": "Embarked",
        "survived": "Survived",
    }
    # The lifeboat and the number of the recovered body give the answer away, so they are not among the names above.
    return Examples(_read_arff(_TITANIC, '"').rename(columns=names)[list(names.values())])


def _load_penguins() -> Examples:
    table = _read_arff(_PENGUINS, '"').dropna(subset=["body_mass_g"])
    table["sex"] = table["sex"].replace({"_": None})
    table["body_mass_g"] = table["body_mass_g"].astype(int)
    return Examples(table)


def _load_chess() -> Examples:
    table = _read_arff(_CHESS, "'")
    table["outcome"] = table.pop("class")
    return Examples(table)


def _load_cars() -> Examples:
    import pandas as pd

    table = pd.read_json(source_path(_CARS, _CARS.files[0])).dropna(subset=["Miles_per_Gallon"])
    table["Year"] = table["Year"].str[:4].astype(int)
    table = table.rename(columns=str.lower).rename(columns={"year": "model_year", "weight_in_lbs": "weight"})
    table["mpg"] = table.pop("miles_per_gallon")
    return Examples(table)


def _load_weather() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_WEATHER, _WEATHER.files[0]))
    table["date"] = table["date"].str.replace("/", "-")
    return Examples(table)


def _load_regimes() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_REGIMES, _REGIMES.files[0]))
    names = {
        "ctryname": "country",
        "un_continent_name": "continent",
        "un_region_name": "region",
        "start_year": "start_year",
        "duration": "duration",
        "observed": "observed",
    }
    # The leader's spell and the regime's type spell out the answer; the country codes repeat the country.
    chosen = table[list(names)].rename(columns=names)
    chosen["is_democracy"] = (table["democracy"] == "Democracy").astype(int)
    return Examples(chosen)


def _load_doctor_visits() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_RAND, _RAND.files[0]))
    # One year of each person: the same person in train and test would be recognised by the baseline scores.
    table = table.sample(frac=1, random_state=0).drop_duplicates("zper")
    table["site"] = table["site"].map(_RAND_SITES)
    table[["income", "mhi", "disea"]] = table[["income", "mhi", "disea"]].round(2)
    table["xage"] = table["xage"].round(1)
    names = {
        "site": "site",
        "coins": "coinsurance",
        "tookphys": "took_physical",
        "year": "year",
        "income": "income",
        "xage": "age",
        "female": "female",
        "educdec": "education",
        "num": "family_size",
        "mhi": "mental_health",
        "disea": "chronic_diseases",
        "physlm": "physical_limitation",
        "ghindx": "general_health",
        "mdvis": "visits",
    }
    return Examples(table[list(names)].rename(columns=names))


def _load_fertility() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_FERTILITY, _FERTILITY.files[0])).dropna(subset=["2010"])
    chosen = table[["Country Name", *map(str, _FERTILITY_YEARS)]]
    chosen = chosen.rename(columns={"Country Name": "country", **{str(y): f"births_{y}" for y in _FERTILITY_YEARS}})
    chosen["births_2010"] = table["2010"]
    return Examples(chosen.round(3))


MIXED_TABLES = (
    CompetitionSpec(
        name="titanic_survival",
        title="Who survived the Titanic",
        category="tabular",
        split="held_out",
        metric="accuracy",
        id_column="PassengerId",
        target="Survived",
        story=(
            "The Titanic sank in the night of 15 April 1912 with lifeboats for about half of those on board. Who got a"
            " place was partly luck and partly sex, age, class and where one's cabin lay. Predict for each passenger"
            " of the test set whether he or she survived. Ages and most cabins are missing for many passengers."
        ),
        fields={
            "Pclass": "ticket class: 1, 2 or 3",
            "Name": "name with title",
            "Sex": "male or female",
            "Age": "years, may be missing",
            "SibSp": "siblings and spouses aboard",
            "Parch": "parents and children aboard",
            "Ticket": "ticket number",
            "Fare": "price of the ticket in pounds",
            "Cabin": "cabin number, mostly missing",
            "Embarked": "port: C = Cherbourg, Q = Queenstown, S = Southampton",
            "Survived": "1 if the passenger survived, else 0 (target)",
        },
        sources=(_TITANIC,),
        origin="Encyclopedia Titanica, compiled by F. Harrell and T. Cason; OpenML data set 40945",
        licence="BSD-3-Clause package; data public (OpenML)",
        load=_load_titanic,
    ),
    CompetitionSpec(
        name="penguin_body_mass",
        title="Weighing penguins without a scale",
        category="tabular",
        split="held_out",
        metric="rmse",
        id_column="penguin_id",
        target="body_mass_g",
        story=(
            "Field workers at Palmer Station, Antarctica, measured bills and flippers of three penguin species on"
            " three islands, and weighed the birds. Predict the weight from the rest. The sex of some birds is unknown."
        ),
        fields={
            "species": "Adelie, Chinstrap or Gentoo",
            "island": "Torgersen, Biscoe or Dream",
            "culmen_length_mm": "length of the bill's upper ridge",
            "culmen_depth_mm": "depth of the bill",
            "flipper_length_mm": "length of the flipper",
            "sex": "MALE or FEMALE, may be missing",
            "body_mass_g": "weight in grams (target)",
        },
        sources=(_PENGUINS,),
        origin="K. Gorman and Palmer Station Antarctica LTER, 2014; OpenML data set 42585",
        licence="BSD-3-Clause package; data CC0",
        load=_load_penguins,
    ),
    CompetitionSpec(
        name="chess_rook_pawn",
        title="King and rook against king and pawn",
        category="tabular",
        split="train",
        metric="accuracy",
        id_column="position_id",
        target="outcome",
        story=(
            "A chess endgame: White has king and rook, Black has king and a pawn on a7, one step from promotion. White"
            " is to move. Each position is described by 36 yes/no (and a few other) properties that a chess master"
            " found telling, such as whether a piece is attacked. Predict whether White can win. All features are"
            " categories, written as letters."
        ),
        fields={
            "bkblk … wtoeg": "36 properties of the position, coded by letters (t = true, f = false; a few have others)",
            "outcome": "'won' if White can win, else 'nowin' (target)",
        },
        sources=(_CHESS,),
        origin="A. Shapiro, Structured Induction in Expert Systems, 1987; OpenML data set 3",
        licence="BSD-3-Clause package; data CC BY 4.0 (UCI Machine Learning Repository)",
        load=_load_chess,
        test_fraction=0.6,
    ),
    CompetitionSpec(
        name="car_fuel_economy",
        title="Miles per gallon",
        category="tabular",
        split="held_out",
        metric="rmse",
        id_column="car_id",
        target="mpg",
        story=(
            "Cars sold between 1970 and 1982 in the United States, with their engine, weight and origin. Predict how"
            " many miles each drives on a gallon of fuel. The horsepower of a few cars is unknown."
        ),
        fields={
            "name": "maker and model",
            "cylinders": "number of cylinders",
            "displacement": "engine displacement in cubic inches",
            "horsepower": "engine power, may be missing",
            "weight": "pounds",
            "acceleration": "seconds from 0 to 60 miles per hour",
            "model_year": "year",
            "origin": "USA, Europe or Japan",
            "mpg": "miles per gallon (target)",
        },
        sources=(_CARS,),
        origin="Auto MPG, StatLib library at Carnegie Mellon University, 1983",
        licence="MIT package; data CC BY 4.0 (UCI Machine Learning Repository)",
        load=_load_cars,
    ),
    CompetitionSpec(
        name="seattle_weather",
        title="Four years of Seattle weather",
        category="tabular",
        split="held_out",
        metric="macro_f1",
        id_column="day_id",
        target="weather",
        story=(
            "Daily records of a weather station in Seattle from 2012 to 2015. From rain, temperatures and wind, name"
            " the day's weather: sun, fog, rain, drizzle or snow. Drizzle and snow are rare, yet every class counts"
            " the same in the score."
        ),
        fields={
            "date": "day, as year-month-day",
            "precipitation": "millimetres",
            "temp_max": "highest temperature in degrees Celsius",
            "temp_min": "lowest temperature in degrees Celsius",
            "wind": "mean wind speed in metres per second",
            "weather": "sun, fog, rain, drizzle or snow (target)",
        },
        sources=(_WEATHER,),
        origin="National Oceanic and Atmospheric Administration, Global Historical Climatology Network",
        licence="MIT package; data in the public domain (US government)",
        load=_load_weather,
        seed=2,
    ),
    CompetitionSpec(
        name="democracy_spells",
        title="Democracy or dictatorship",
        category="tabular",
        split="train",
        metric="auc",
        id_column="spell_id",
        target="is_democracy",
        story=(
            "Each row is one leader's time in office somewhere in the world between 1946 and 2008: the country, when"
            " it began, how long it lasted. Give the probability that the country was a democracy at that time."
        ),
        fields={
            "country": "name of the country",
            "continent": "continent, as the United Nations group them",
            "region": "region, as the United Nations group them",
            "start_year": "first year in office",
            "duration": "years in office",
            "observed": "1 if the end was observed, 0 if it lay beyond the records",
            "is_democracy": "1 for a democracy, 0 for a dictatorship (target)",
        },
        sources=(_REGIMES,),
        origin="J. Cheibub, J. Gandhi, J. Vreeland, Democracy and Dictatorship Revisited, 2010",
        licence="MIT package; no terms stated for the data",
        load=_load_regimes,
    ),
    CompetitionSpec(
        name="doctor_visits",
        title="How often to the doctor",
        category="tabular",
        split="train",
        metric="rmsle",
        id_column="person",
        target="visits",
        story=(
            "In the RAND Health Insurance Experiment American families were given insurance plans by lot, from free"
            " care to plans that leave most of the bill to the patient. Predict how many times a person saw a doctor"
            " in one year. Most people go rarely, a few go very often. The general health index is missing for many."
        ),
        fields={
            "site": "where the family lived",
            "coinsurance": "share of the bill the family pays, per cent",
            "took_physical": "1 if the person had a physical examination at the start",
            "year": "year of the study, 1 to 5",
            "income": "family income in dollars",
            "age": "years",
            "female": "1 for women and girls",
            "education": "years of schooling of the head of the family, may be missing",
            "family_size": "persons",
            "mental_health": "mental health index at the start, 0 to 100",
            "chronic_diseases": "index of chronic diseases at the start",
            "physical_limitation": "physical limitation at the start, mostly 0 or 1",
            "general_health": "general health index at the start, 0 to 100, may be missing",
            "visits": "face-to-face visits to a doctor in that year (target)",
        },
        sources=(_RAND,),
        origin="RAND Health Insurance Experiment, by way of A. Cameron and P. Trivedi, Microeconometrics, 2005",
        licence="BSD-3-Clause package; data in the public domain according to the package",
        load=_load_doctor_visits,
    ),
    CompetitionSpec(
        name="births_per_woman",
        title="Fertility in 2010, told fifteen years ahead",
        category="tabular",
        split="train",
        metric="mae",
        id_column="row_id",
        target="births_2010",
        story=(
            "The World Bank records how many children a woman bears on average in every country. Given that number"
            " every five years from 1960 to 1995 (missing for some), predict it for 2010, fifteen years later."
        ),
        fields={
            "country": "country or group of countries",
            "births_1960 … births_1995": "births per woman in that year, may be missing",
            "births_2010": "births per woman in 2010 (target)",
        },
        sources=(_FERTILITY,),
        origin="World Bank, World Development Indicators, series SP.DYN.TFRT.IN",
        licence="BSD-3-Clause package; data CC BY 4.0 (World Bank)",
        load=_load_fertility,
    ),
)
