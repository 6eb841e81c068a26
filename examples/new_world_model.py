"""A new world model in 20 lines of code: it remembers what was executed and predicts by the likeness of scripts.

Run it with: python examples/new_world_model.py
"""

from sklearn.feature_extraction.text import TfidfVectorizer

from wmrl_gym import Outcome, Submission

EXECUTED = {"Ridge(alpha=1).fit(X, y)": 0.7, "Lasso().fit(X, y)": 0.6, "Ridge(alpha='big').fit(X, y)": 0.1}


class Likeness:
    def __init__(self, executed: dict[str, float], least: float = 0.5) -> None:
        self.scores, self.least = list(executed.values()), least
        self.vectorizer = TfidfVectorizer(token_pattern=r"\w+").fit(executed)
        self.known = self.vectorizer.transform(executed)

    def predict(self, submissions: list[Submission]) -> list[Outcome]:
        vectors = self.vectorizer.transform([submission.content for submission in submissions])
        return [self.outcome(row) for row in (vectors @ self.known.T).toarray()]

    def outcome(self, likeness: list[float]) -> Outcome:
        if max(likeness) < self.least:  # like nothing it has seen: unknown, which is not 0
            return Outcome(None, "unknown", source="world_model")
        return Outcome(self.scores[likeness.argmax()], "predicted", source="world_model")


scripts = ["Ridge(alpha=3).fit(X, y)", "Lasso(alpha=3).fit(X, y)", "print('hello')"]
outcomes = Likeness(EXECUTED).predict([Submission("houses", script) for script in scripts])
print(*[f"{script}: {outcome.score}" for script, outcome in zip(scripts, outcomes, strict=True)], sep="\n")
