"""Scripts for the competition wine, as an agent might write them."""

from __future__ import annotations

GOOD = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

train = pd.read_csv(f"{DATA_DIR}/train.csv")
test = pd.read_csv(f"{DATA_DIR}/test.csv")
columns = [c for c in test.columns if c not in ("wine_id", "colour")]
model = make_pipeline(StandardScaler(), LogisticRegression())
model.fit(train[columns].fillna(0), train["cultivar"])
print("trained on", len(train))
predicted = model.predict(test[columns].fillna(0))
pd.DataFrame({"wine_id": test["wine_id"], "cultivar": predicted}).to_csv(SUBMISSION_PATH, index=False)
"""

CONSTANT = """
import csv, os
rows = list(csv.DictReader(open(os.path.join(DATA_DIR, "test.csv"))))
with open(SUBMISSION_PATH, "w") as file:
    file.write("wine_id,cultivar\\n")
    for row in rows:
        file.write(row["wine_id"] + ",1\\n")
"""

CRASH = """import csv
print("reading")
row = next(csv.DictReader(open(DATA_DIR + "/train.csv")))
row["cultivarr"]
"""

NOTHING = "print('no submission today')\n"
EMPTY = "open(SUBMISSION_PATH, 'w').close()\n"
ENDLESS = "while True:\n    pass\n"
SYNTAX = "for x in\n    print(x)\n"

SPY = """
import os
wanted = ("train.csv", "test_answer.csv", "private_leaderboard.csv", "public_leaderboard.csv")
found = set()
for folder in (DATA_DIR, DATA_DIR + "/..", DATA_DIR + "/../private", "/"):
    for base, _, names in os.walk(folder):
        found |= {name for name in names if name in wanted}
print("found", sorted(found))
"""


def fenced(script: str) -> str:
    """The script as an action."""
    return f"I will try this.\n```python\n{script}```"
