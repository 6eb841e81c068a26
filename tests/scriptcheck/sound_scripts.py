"""Scripts in many styles that run and leave a valid submission: none may be failed by the analysis."""

from __future__ import annotations

HEAD = """\
import os
import numpy as np
import pandas as pd
train = pd.read_csv(os.path.join(DATA_DIR, "train.csv"))
test = pd.read_csv(f"{DATA_DIR}/test.csv")
"""

SOUND: dict[str, tuple[str, str]] = {}
"""name -> (world, script)"""


def _add(name: str, world: str, body: str, *, head: bool = True) -> None:
    SOUND[name] = (world, (HEAD if head else "") + body)


_add(
    "numeric columns, filled, forest",
    "houses",
    """\
from sklearn.ensemble import RandomForestRegressor
y = train["price"]
X = train.drop(columns=["id", "price"]).select_dtypes(include=[np.number])
X_test = test[X.columns]
X, X_test = X.fillna(X.median()), X_test.fillna(X.median())
model = RandomForestRegressor(n_estimators=5, random_state=0)
model.fit(X, y)
pd.DataFrame({"id": test["id"], "price": model.predict(X_test)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "column transformer in a pipeline, with a main function",
    "houses",
    """\
from pathlib import Path
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NUMERIC = ["area", "rooms", "balance"]
CATEGORICAL = ["district", "garden"]


def build():
    numeric = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    categorical = Pipeline(
        [("impute", SimpleImputer(strategy="most_frequent")), ("encode", OneHotEncoder(handle_unknown="ignore"))]
    )
    prepare = ColumnTransformer([("num", numeric, NUMERIC), ("cat", categorical, CATEGORICAL)])
    return Pipeline([("prepare", prepare), ("model", Ridge(alpha=1.0))])


def main():
    data = Path(DATA_DIR)
    train, test = pd.read_csv(data / "train.csv"), pd.read_csv(data / "test.csv")
    pipeline = build()
    pipeline.fit(train, train["price"])
    submission = test[["id"]].copy()
    submission["price"] = pipeline.predict(test)
    submission.to_csv(SUBMISSION_PATH, index=False)


if __name__ == "__main__":
    main()
""",
    head=False,
)
_add(
    "dummies of stacked tables, split again",
    "houses",
    """\
from sklearn.linear_model import Lasso
both = pd.concat([train.drop(columns="price"), test], ignore_index=True)
both = both.drop(["id", "owner"], axis=1)
both["area"] = both["area"].fillna(both["area"].mean())
both = pd.get_dummies(both, columns=["district", "garden"], dummy_na=True)
X, X_test = both.iloc[: len(train)], both.iloc[len(train):]
model = Lasso(alpha=0.1).fit(X, train.price)
out = pd.read_csv(os.path.join(DATA_DIR, "sample_submission.csv"))
out["price"] = model.predict(X_test)
out.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "dummies by table, then aligned with reindex",
    "houses",
    """\
from sklearn.linear_model import LinearRegression
features = ["rooms", "district"]
X = pd.get_dummies(train[features])
X_test = pd.get_dummies(test[features]).reindex(columns=X.columns, fill_value=0)
reg = LinearRegression()
reg.fit(X, train["price"])
submission = pd.DataFrame()
submission["id"] = test["id"]
submission["price"] = reg.predict(X_test)
submission.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "codes in a loop over text columns",
    "houses",
    """\
from sklearn.ensemble import HistGradientBoostingRegressor
for col in train.columns:
    if train[col].dtype == "str":
        values = pd.concat([train[col], test[col]]).fillna("?")
        codes = {v: i for i, v in enumerate(sorted(values.unique()))}
        train[col] = train[col].fillna("?").map(codes)
        test[col] = test[col].fillna("?").map(codes)
X = train.drop(columns=["id", "price"])
model = HistGradientBoostingRegressor(max_iter=5)
model.fit(X, train["price"])
preds = model.predict(test.drop(columns=["id"]))
pd.DataFrame({"id": test.id, "price": preds}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "k-fold average of predictions",
    "houses",
    """\
from sklearn.model_selection import KFold
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import mean_squared_error
X = train[["rooms", "balance"]]
y = train["price"].values
X_test = test[["rooms", "balance"]]
preds = np.zeros(len(test))
oof = np.zeros(len(train))
kf = KFold(n_splits=3, shuffle=True, random_state=1)
for fold, (a, b) in enumerate(kf.split(X)):
    model = GradientBoostingRegressor(n_estimators=5)
    model.fit(X.iloc[a], y[a])
    oof[b] = model.predict(X.iloc[b])
    preds += model.predict(X_test) / kf.n_splits
    print(f"fold {fold}: {mean_squared_error(y[b], oof[b]) ** 0.5:.3f}")
sub = pd.DataFrame({"id": test["id"], "price": preds})
sub.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "logarithm of the target and back",
    "houses",
    """\
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import make_pipeline
X = train[["rooms", "balance"]]
model = make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=3))
model.fit(X, np.log1p(train["price"]))
pred = np.expm1(model.predict(test[["rooms", "balance"]])).clip(0)
test["price"] = pred
test[["id", "price"]].to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "grid search with a pipeline",
    "flowers",
    """\
from sklearn.svm import SVC
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import GridSearchCV
features = [c for c in train.columns if c not in ("flower", "kind")]
pipe = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
search = GridSearchCV(pipe, {"svc__C": [0.1, 1], "svc__gamma": ["scale"]}, cv=3)
search.fit(train[features], train["kind"])
print(search.best_params_, round(search.best_score_, 3))
best = search.best_estimator_
pd.DataFrame({"flower": test["flower"], "kind": best.predict(test[features])}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "label encoder and back",
    "flowers",
    """\
from sklearn.preprocessing import LabelEncoder
from sklearn.ensemble import ExtraTreesClassifier
le = LabelEncoder()
y = le.fit_transform(train["kind"])
X, T = train[["length", "width"]].values, test[["length", "width"]].to_numpy()
clf = ExtraTreesClassifier(n_estimators=5).fit(X, y)
labels = le.inverse_transform(clf.predict(T))
out = test.loc[:, ["flower"]]
out["kind"] = labels
out.to_csv(os.environ["SUBMISSION_PATH"], index=False)
""",
)
_add(
    "voting of three, soft",
    "flowers",
    """\
from sklearn.ensemble import VotingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
X = train.drop(["flower", "kind"], axis="columns")
vote = VotingClassifier(
    [("lr", LogisticRegression(max_iter=500)), ("nb", GaussianNB()), ("rf", RandomForestClassifier(5))], voting="soft"
)
vote.fit(X, train["kind"])
proba = vote.predict_proba(test.drop(["flower"], axis="columns"))
labels = vote.classes_[proba.argmax(axis=1)]
pd.DataFrame({"flower": test["flower"], "kind": labels}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "validation split and report",
    "flowers",
    """\
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from sklearn.metrics import accuracy_score, f1_score
y = train.pop("kind")
X = train.set_index("flower")
a, b, ya, yb = train_test_split(X, y, test_size=0.2, random_state=42, stratify=y)
tree = DecisionTreeClassifier(max_depth=3)
tree.fit(a, ya)
guess = tree.predict(b)
print("accuracy", accuracy_score(yb, guess), "f1", f1_score(yb, guess, average="macro"))
importances = pd.Series(tree.feature_importances_, index=X.columns).sort_values()
print(importances)
answer = pd.Series(tree.predict(test.set_index("flower")), index=test["flower"], name="kind")
answer.to_csv(SUBMISSION_PATH)
""",
)
_add(
    "probabilities of the second class",
    "churn",
    """\
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder
enc = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
A = np.hstack([train[["months", "spend"]], enc.fit_transform(train[["plan"]])])
B = np.hstack([test[["months", "spend"]], enc.transform(test[["plan"]])])
clf = LogisticRegression(C=0.5, solver="liblinear", penalty="l1")
clf.fit(A, train["left"])
p = clf.predict_proba(B)[:, 1]
np.testing.assert_array_less(p, 1.1)
pd.DataFrame({"customer": test["customer"], "left": p}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "binary column by map, cross validation, calibrated margin",
    "churn",
    """\
from sklearn.svm import LinearSVC
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score
for df in (train, test):
    df["plan"] = df["plan"].map({"basic": 0, "gold": 1})
    df["per_month"] = df["spend"] / df["months"]
cols = ["months", "plan", "spend", "per_month"]
model = CalibratedClassifierCV(LinearSVC(max_iter=2000), cv=3)
scores = cross_val_score(model, train[cols], train["left"], cv=3, scoring="roc_auc")
print("auc %.3f +- %.3f" % (scores.mean(), scores.std()))
model.fit(train[cols], train["left"])
sub = pd.DataFrame({"customer": test["customer"].values, "left": model.predict_proba(test[cols])[:, 1]})
sub.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "group statistics merged in",
    "churn",
    """\
from sklearn.ensemble import GradientBoostingClassifier
means = train.groupby("plan")["spend"].mean().reset_index().rename(columns={"spend": "plan_spend"})
train = train.merge(means, on="plan", how="left")
test = test.merge(means, on="plan", how="left")
features = ["months", "spend", "plan_spend"]
model = GradientBoostingClassifier(n_estimators=5, learning_rate=0.1, max_depth=2)
model.fit(train[features], train["left"])
test["left"] = model.predict_proba(test[features])[:, 1]
test.to_csv(SUBMISSION_PATH, columns=["customer", "left"], index=False)
""",
)
_add(
    "bare fallback around everything",
    "churn",
    """\
try:
    import lightgbm as lgb
    model = lgb.LGBMClassifier()
except ImportError:
    from sklearn.ensemble import RandomForestClassifier
    model = RandomForestClassifier(n_estimators=5, max_depth=4, n_jobs=1)
X = train[["months", "spend"]].astype(float)
model.fit(X, train["left"])
probability = [row[1] for row in model.predict_proba(test[["months", "spend"]].astype(float))]
rows = list(zip(test["customer"], probability))
pd.DataFrame(rows, columns=["customer", "left"]).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "assign, where, cut, query",
    "churn",
    """\
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier
def prepare(df, drop=()):
    df = df.assign(old=lambda d: (d["months"] > 24).astype(int), gold=np.where(df["plan"] == "gold", 1, 0))
    df["bucket"] = pd.cut(df["spend"], bins=[-1, 10, 30, 60, 1e9], labels=False)
    return df.drop(columns=["plan", "customer", *drop])
model = BaggingClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=4)
model.fit(prepare(train, drop=["left"]), train["left"])
p = model.predict_proba(prepare(test))[:, 1]
pd.DataFrame(dict(customer=test["customer"], left=p)).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "tf-idf and a margin",
    "reviews",
    """\
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
vec = TfidfVectorizer(ngram_range=(1, 2), min_df=2, stop_words="english", sublinear_tf=True)
X = vec.fit_transform(train["text"])
X_test = vec.transform(test["text"])
clf = LinearSVC(C=0.5).fit(X, train["positive"])
pd.DataFrame({"review_id": test["review_id"], "positive": clf.predict(X_test)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "text with gaps, filled, in a pipeline of counts and bayes",
    "reviews",
    """\
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
words = lambda df: (df["title"].fillna("") + " " + df["text"]).str.lower()
model = make_pipeline(CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)), MultinomialNB(alpha=0.1))
model.fit(words(train), train["positive"])
submission = pd.read_csv(f"{DATA_DIR}/sample_submission.csv")
submission["positive"] = model.predict(words(test))
submission.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "words and lengths side by side, sparse",
    "reviews",
    """\
import re
from scipy.sparse import hstack, csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
def clean(s):
    return re.sub(r"[^a-z ]", "", s.lower())
train["clean"] = train["text"].apply(clean)
test["clean"] = test["text"].apply(clean)
train["n"] = train["text"].str.len()
test["n"] = test["text"].apply(lambda s: len(s.split()))
vec = TfidfVectorizer(max_features=50)
A = hstack([vec.fit_transform(train["clean"]), csr_matrix(train[["n"]].values)]).tocsr()
B = hstack([vec.transform(test["clean"]), csr_matrix(test[["n"]].values)]).tocsr()
lr = LogisticRegression(max_iter=300)
lr.fit(A, train["positive"])
out = pd.DataFrame({"review_id": test["review_id"], "positive": lr.predict(B).astype(int)})
out.to_csv("submission.csv", index=False)
""",
)
_add(
    "text column in a column transformer, reduced, dense",
    "reviews",
    """\
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
prepare = make_column_transformer((TfidfVectorizer(), "text"), remainder="drop")
model = make_pipeline(prepare, TruncatedSVD(n_components=5), HistGradientBoostingClassifier(max_iter=4))
model.fit(train, train["positive"])
test["positive"] = model.predict(test)
test[["review_id", "positive"]].to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "images by comprehension",
    "digits",
    """\
from PIL import Image
from sklearn.neighbors import KNeighborsClassifier
def load(split, ids):
    return np.array([np.array(Image.open(f"{DATA_DIR}/{split}/{i}.png")).flatten() for i in ids]) / 255.0
X, T = load("train", train["image_id"]), load("test", test["image_id"])
knn = KNeighborsClassifier(n_neighbors=3).fit(X, train["digit"])
pd.DataFrame({"image_id": test["image_id"], "digit": knn.predict(T)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "images in a loop, resized, stacked, reshaped, reduced",
    "digits",
    """\
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
def read(folder, frame):
    images = []
    for name in frame["image_id"].tolist():
        path = os.path.join(DATA_DIR, folder, str(name) + ".png")
        with Image.open(path) as im:
            im = im.convert("L").resize((4, 4))
            images.append(np.asarray(im, dtype=np.float32))
    stack = np.stack(images)
    return stack.reshape(len(stack), -1)
X, T = read("train", train), read("test", test)
pca = PCA(n_components=4)
X, T = pca.fit_transform(X), pca.transform(T)
model = RandomForestClassifier(5)
model.fit(X, train["digit"].values)
submission = pd.DataFrame(columns=["image_id", "digit"])
submission["image_id"] = test["image_id"]
submission["digit"] = model.predict(T)
submission.to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "image statistics as a table of records",
    "digits",
    """\
from PIL import Image
from sklearn.linear_model import LogisticRegression
rows = []
for split, df in [("train", train), ("test", test)]:
    for i in df["image_id"]:
        px = np.array(Image.open("%s/%s/%d.png" % (DATA_DIR, split, i)))
        rows.append({"image_id": i, "split": split, "mean": px.mean(), "std": px.std(), "max": int(px.max())})
stats = pd.DataFrame(rows)
cols = ["mean", "std", "max"]
A = stats[stats["split"] == "train"].merge(train, on="image_id")
B = stats[stats["split"] == "test"]
model = LogisticRegression(max_iter=1000).fit(A[cols], A["digit"])
pd.DataFrame({"image_id": B["image_id"], "digit": model.predict(B[cols])}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "a class of one's own",
    "houses",
    """\
from sklearn.dummy import DummyRegressor
class Solver:
    columns = ["rooms"]
    def __init__(self, model):
        self.model = model
        self.fitted = False
    def fit(self, df, target):
        self.model.fit(df[self.columns], df[target])
        self.fitted = True
        return self
    def predict(self, df):
        assert self.fitted, "fit first"
        return self.model.predict(df[self.columns])
solver = Solver(DummyRegressor(strategy="median")).fit(train, "price")
pd.DataFrame({"id": test["id"], "price": solver.predict(test)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "constant by hand, no learning, written row by row",
    "houses",
    """\
import csv
mean = sum(train["price"]) / len(train)
with open(SUBMISSION_PATH, "w", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["id", "price"])
    for i in test["id"]:
        writer.writerow([i, round(mean, 2)])
""",
)
_add(
    "best of several models in a loop",
    "houses",
    """\
from sklearn.linear_model import Ridge, LinearRegression
from sklearn.tree import DecisionTreeRegressor
from sklearn.model_selection import cross_val_score
X = train[["rooms", "balance"]]
models = {"ridge": Ridge(), "linear": LinearRegression(), "tree": DecisionTreeRegressor(max_depth=3)}
best, best_score = None, -np.inf
for name, model in models.items():
    score = cross_val_score(model, X, train["price"], cv=3, scoring="neg_root_mean_squared_error").mean()
    if score > best_score:
        best, best_score = model, score
best.fit(X, train["price"])
pd.DataFrame({"id": test["id"], "price": best.predict(test[["rooms", "balance"]])}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "stacking and a transformed target",
    "houses",
    """\
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import StackingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.preprocessing import OrdinalEncoder
from sklearn.pipeline import make_pipeline
prep = make_column_transformer(
    (SimpleImputer(), make_column_selector(dtype_include="number")),
    (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
     make_column_selector(dtype_exclude="number")),
)
stack = StackingRegressor([("a", Ridge()), ("b", Ridge(10.0))], final_estimator=RidgeCV(), cv=3)
model = make_pipeline(prep, TransformedTargetRegressor(stack, func=np.log1p, inverse_func=np.expm1))
model.fit(train.drop(columns=["price"]), train["price"])
pd.DataFrame({"id": test["id"], "price": model.predict(test)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "interpolated and forward-filled gaps, missing indicator",
    "houses",
    """\
from sklearn.linear_model import LinearRegression
frames = []
for df in (train, test):
    part = df[["area", "rooms"]].copy()
    part["no_area"] = part["area"].isna().astype(int)
    part.loc[part["area"].isna(), "area"] = train["area"].median()
    frames.append(part)
X, T = frames
assert not X.isna().any().any()
model = LinearRegression().fit(X, train["price"])
pd.DataFrame({"id": test["id"], "price": model.predict(T)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
_add(
    "predictions blended with weights, rounded",
    "churn",
    """\
from sklearn.ensemble import RandomForestClassifier, AdaBoostClassifier
X = train[["months", "spend"]]
T = test[["months", "spend"]]
models = [RandomForestClassifier(5, random_state=i) for i in range(3)] + [AdaBoostClassifier(n_estimators=5)]
total = np.zeros((len(T), 2))
for m in models:
    m.fit(X, train["left"])
    total += m.predict_proba(T)
p = (total / len(models))[:, 1]
print(f"{p.mean():.3f}", p.shape)
pd.DataFrame({"customer": test["customer"], "left": np.round(p, 4)}).to_csv(SUBMISSION_PATH, index=False)
""",
)
