"""Scripts with one fault each, by the check that must find it. What they really die of is found by running them."""

from __future__ import annotations

from tests.scriptcheck.sound_scripts import HEAD
from wmrl_gym.scriptcheck.verdicts import Check

FAULTY: dict[Check, list[tuple[str, str]]] = {check: [] for check in Check}
"""check -> [(world, script)]"""

_NUMBERS = """\
X, T, y = train[["rooms", "balance"]], test[["rooms", "balance"]], train["price"]
"""
_FLOWERS = """\
X, T, y = train[["length", "width"]], test[["length", "width"]], train["kind"]
"""
_CHURN = """\
X, T, y = train[["months", "spend"]], test[["months", "spend"]], train["left"]
"""
_IMAGES = """\
from PIL import Image
from sklearn.linear_model import LogisticRegression
"""


def _add(check: Check, world: str, *bodies: str) -> None:
    FAULTY[check] += [(world, HEAD + body) for body in bodies]


_add(
    Check.IMPORTS_AND_NAMES,
    "houses",
    "import lightgbm as lgb\n",
    "import xgboost\n",
    "from sklearn.ensemble import RandomForestRegresor\n",
    "from sklearn.linear_model import RandomForestRegressor\n",
    "from sklearn.cross_validation import train_test_split\n",
    "from sklearn.externals import joblib\n",
    "from sklearn.preprocessing import Imputer\n",
    "import sklearn.linear_models\n",
    "from scipy.stats import pearson\n",
    "model = RandomForestRegressor()\n",
    "print(trian.shape)\n",
    "x = np.float(3)\n",
    "df = pd.read_cvs('x')\n",
    "def f():\n    return undefined_thing\nprint(f())\n",
    "def f():\n    total = total + 1\n    return total\ntotal = 0\nf()\n",
    "for c in ['a']:\n    pass\nprint(d)\n",
    "del train\nprint(train)\n",
    "class A:\n    def go(self):\n        return self_value\nA().go()\n",
    "if len(train) > 0:\n    a = 1\nelse:\n    b = 2\nprint(b)\n",
)
_add(
    Check.API_CALLS,
    "houses",
    "from sklearn.preprocessing import OneHotEncoder\nOneHotEncoder(sparse=False)\n",
    "from sklearn.linear_model import LinearRegression\nLinearRegression(normalize=True)\n",
    "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(100, 'squared_error', 5)\n",
    "from sklearn.ensemble import AdaBoostRegressor\nfrom sklearn.linear_model import Ridge\n"
    "AdaBoostRegressor(base_estimator=Ridge())\n",
    _NUMBERS + "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(n_estimators=-1).fit(X, y)\n",
    _NUMBERS
    + "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(max_features='auto').fit(X, y)\n",
    _NUMBERS
    + "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(max_depth='deep').fit(X, y)\n",
    _NUMBERS + "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(criterion='mse').fit(X, y)\n",
    _NUMBERS + "from sklearn.svm import SVR\nSVR(kernel='rbff').fit(X, y)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().predict(T)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X, y, epochs=3)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nm = Ridge().fit(X, y)\nm.predict_proba(T)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nm = Ridge().fit(X, y)\nprint(m.feature_importances_)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nm = Ridge()\nprint(m.coef_)\n",
    _NUMBERS + "from sklearn.preprocessing import StandardScaler\nStandardScaler().transform(X)\n",
    _NUMBERS + "from sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\n"
    "from sklearn.pipeline import make_pipeline\nmake_pipeline(Ridge(), StandardScaler()).fit(X, y)\n",
    _NUMBERS + "from sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\n"
    "from sklearn.pipeline import make_pipeline\nmake_pipeline(StandardScaler, Ridge()).fit(X, y)\n",
    _NUMBERS + "from sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\n"
    "from sklearn.pipeline import Pipeline\nPipeline([StandardScaler(), Ridge()]).fit(X, y)\n",
    _NUMBERS + "from sklearn.model_selection import train_test_split\ntrain_test_split(X, y, test_size=1.5)\n",
    _NUMBERS + "from sklearn.model_selection import train_test_split\ntrain_test_split(X, y, random_seed=0)\n",
    _NUMBERS + "from sklearn.model_selection import cross_val_score\nfrom sklearn.linear_model import Ridge\n"
    "cross_val_score(Ridge(), X, y, scoring='rmse')\n",
    _NUMBERS + "from sklearn.model_selection import GridSearchCV\nfrom sklearn.linear_model import Ridge\n"
    "GridSearchCV(Ridge(), {'alphas': [1.0]}).fit(X, y)\n",
    _NUMBERS + "from sklearn.model_selection import GridSearchCV\nfrom sklearn.linear_model import Ridge\n"
    "GridSearchCV(Ridge(), {'alpha': [-1.0]}).fit(X, y)\n",
    "from sklearn.model_selection import KFold\nKFold(n_folds=5)\n",
    "from sklearn.model_selection import KFold\nKFold(5, random_state=0)\n",
    _NUMBERS + "from sklearn.metrics import mean_squared_error\nmean_squared_error(y, y, squared=False)\n",
    "train.append(test)\n",
    "train['rooms'].iteritems()\n",
    "train.fillna(method='ffill')\n",
    "train.drop(column='id')\n",
    "pd.concat(train, test)\n",
    "pd.DataFrame({'a': [1]}).to_csv(SUBMISSION_PATH, indx=False)\n",
)
_add(
    Check.API_CALLS,
    "churn",
    _CHURN + "from sklearn.linear_model import LogisticRegression\nLogisticRegression(penalty='l1').fit(X, y)\n",
    _CHURN + "from sklearn.linear_model import LogisticRegression\nLogisticRegression(penalty='l3').fit(X, y)\n",
    _CHURN + "from sklearn.linear_model import LogisticRegression\nLogisticRegression(C=-1).fit(X, y)\n",
    _CHURN + "from sklearn.linear_model import RidgeClassifier\nRidgeClassifier().fit(X, y).predict_proba(T)\n",
    _CHURN + "from sklearn.svm import LinearSVC\nLinearSVC().fit(X, y).predict_proba(T)\n",
    _CHURN + "from sklearn.svm import SVC\nSVC().fit(X, y).predict_proba(T)\n",
    _CHURN + "from sklearn.svm import SVC\nfrom sklearn.pipeline import make_pipeline\n"
    "from sklearn.preprocessing import StandardScaler\n"
    "make_pipeline(StandardScaler(), SVC()).fit(X, y).predict_proba(T)\n",
    _CHURN + "from sklearn.linear_model import SGDClassifier\nSGDClassifier().fit(X, y).predict_proba(T)\n",
    _CHURN + "from sklearn.svm import LinearSVC\nLinearSVC(penalty='l1', loss='hinge').fit(X, y)\n",
    _CHURN + "from sklearn.feature_extraction.text import TfidfVectorizer\n"
    "TfidfVectorizer().fit(train['plan']).get_feature_names()\n",
)
_add(
    Check.FILES_AND_COLUMNS,
    "houses",
    "pd.read_csv(f'{DATA_DIR}/training.csv')\n",
    "pd.read_csv(DATA_DIR + 'train.csv')\n",
    "pd.read_csv('train.csv')\n",
    "from pathlib import Path\npd.read_csv(Path(DATA_DIR) / 'data' / 'train.csv')\n",
    "open(os.path.join(DATA_DIR, 'labels.txt')).read()\n",
    "y = train['target']\n",
    "y = test['price']\n",
    "y = train.target\n",
    "X = train[['rooms', 'size']]\n",
    "X = train[['a', 'b']]\n",
    "X = train.drop(columns=['Id', 'price'])\n",
    "X = test.drop('price', axis=1)\n",
    "X = train.drop('price')\n",
    "train = train.drop(columns=['id'])\nprint(train['id'])\n",
    "train.drop(['id'], axis=1, inplace=True)\nprint(train['id'])\n",
    "y = train.pop('price')\nprint(train['price'])\n",
    "train = train.rename(columns={'rooms': 'n_rooms'})\nprint(train['rooms'])\n",
    "X = train.select_dtypes('number')\nprint(X['district'])\n",
    "X = pd.get_dummies(train)\nprint(X['district'])\n",
    "train.groupby('city')['price'].mean()\n",
    "train.groupby('district')['cost'].mean()\n",
    "train.merge(test, on='key')\n",
    "train.sort_values('date')\n",
    "train.set_index('date')\n",
    "train.loc[:, 'size']\n",
    "train.iloc[:, 12]\n",
    "train.dropna(subset=['size'])\n",
    "pd.read_csv(f'{DATA_DIR}/train.csv', usecols=['id', 'size'])\n",
    "pd.read_csv(f'{DATA_DIR}/train.csv', parse_dates=['date'])\n",
    "train.astype({'size': float})\n",
    "for c in ['rooms', 'beds']:\n    print(train[c].mean())\n",
    "def prep(df):\n    df = df.drop(columns=['price'])\n    return df\nprep(train)\nprep(test)\n",
    "train.groupby('district').agg({'price': 'mean'})\ntrain.insert(0, 'id', 1)\n",
    "from sklearn.compose import ColumnTransformer\nfrom sklearn.preprocessing import StandardScaler\n"
    "ColumnTransformer([('n', StandardScaler(), ['rooms', 'size'])]).fit(train)\n",
    "from sklearn.compose import ColumnTransformer\nfrom sklearn.preprocessing import StandardScaler\n"
    "ct = ColumnTransformer([('n', StandardScaler(), ['rooms', 'price'])]).fit(train)\nct.transform(test)\n",
)
_add(
    Check.FILES_AND_COLUMNS,
    "digits",
    _IMAGES + "a = [np.array(Image.open(f'{DATA_DIR}/train/{i}.jpg')) for i in train['image_id']]\n",
    _IMAGES + "a = [np.array(Image.open(f'{DATA_DIR}/images/{i}.png')) for i in train['image_id']]\n",
    _IMAGES + "a = [np.array(Image.open(f'{DATA_DIR}/train/{i}.png')) for i in test['image_id']]\n",
    _IMAGES + "for i in train['image_id']:\n    Image.open(os.path.join(DATA_DIR, 'train', str(i)))\n",
    _IMAGES + "for i in train['image_id']:\n    Image.open(f'train/{i}.png')\n",
)
_add(
    Check.SHAPES_AND_DTYPES,
    "houses",
    "from sklearn.linear_model import Ridge\nRidge().fit(train.drop(columns=['price']), train['price'])\n",
    "from sklearn.ensemble import RandomForestRegressor\n"
    "RandomForestRegressor(5).fit(train[['rooms', 'district']].astype({'district': 'category'}), train['price'])\n",
    "from sklearn.linear_model import Ridge\nRidge().fit(train[['area', 'rooms']], train['price'])\n",
    "from sklearn.decomposition import PCA\nPCA(2).fit_transform(train[['area', 'rooms']])\n",
    "train['area'].fillna(0, inplace=True)\nfrom sklearn.linear_model import Ridge\n"
    "Ridge().fit(train[['area', 'rooms']], train['price'])\n",
    "for c in train.columns:\n    if train[c].dtype == 'object':\n        train[c] = "
    "train[c].astype('category').cat.codes\n"
    "from sklearn.ensemble import ExtraTreesRegressor\nExtraTreesRegressor(5).fit(train, train['price'])\n",
    "train = train.fillna(train.mean())\n",
    "print(train.median())\n",
    "print(train.corr())\n",
    "train['district'] = train['district'].astype(int)\n",
    "train['area'] = train['area'].astype(int)\n",
    "train['x'] = np.log1p(train['district'])\n",
    "train['x'] = train['district'] - 1\n",
    "train['x'] = train['rooms'].str.lower()\n",
    "train['x'] = train['district'].cat.codes\n",
    "train[train['district'] > 3]\n",
    "print(train['garden'].apply(len))\n",
    "from sklearn.impute import SimpleImputer\nSimpleImputer().fit_transform(train[['area', 'district']])\n",
    _NUMBERS + "from sklearn.linear_model import LogisticRegression\nLogisticRegression().fit(X, y)\n",
    _NUMBERS + "from sklearn.ensemble import RandomForestClassifier\nRandomForestClassifier(5).fit(X, y)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X['rooms'], y)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X.rooms.values, y)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X, y[:50])\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X, y).predict(test[['rooms']])\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X, y).predict(test[['balance', 'rooms']])\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nRidge().fit(X.values, y).predict(test[['rooms']].values)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\nm = Ridge().fit(X, y)\nT['extra'] = 1\nm.predict(T)\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\np = Ridge().fit(X, y).predict(T)[:, 1]\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\np = Ridge().fit(X, y).predict(X)\n"
    "pd.DataFrame({'id': test['id'], 'price': p})\n",
    _NUMBERS + "from sklearn.linear_model import Ridge\np = Ridge().fit(X, y).predict(X)\ntest['price'] = p\n",
    _NUMBERS + "from sklearn.preprocessing import StandardScaler\nfrom sklearn.naive_bayes import MultinomialNB\n"
    "MultinomialNB().fit(StandardScaler().fit_transform(X), train['rooms'])\n",
    _NUMBERS + "from sklearn.decomposition import PCA\nPCA(n_components=5).fit(X)\n",
    _NUMBERS + "from sklearn.metrics import mean_squared_error\nmean_squared_error(y, y[:20])\n",
    _NUMBERS + "from sklearn.model_selection import StratifiedKFold\n"
    "for a, b in StratifiedKFold(3).split(X, y):\n    pass\n",
    "from sklearn.linear_model import Ridge\nA = pd.get_dummies(train[['rooms', 'district']])\n"
    "B = pd.get_dummies(test[['rooms', 'district']])\nRidge().fit(A, train['price']).predict(B)\n",
    "from sklearn.preprocessing import LabelEncoder\nle = "
    "LabelEncoder().fit(train['owner'])\nle.transform(test['owner'])\n",
    "from sklearn.preprocessing import OrdinalEncoder\ne = OrdinalEncoder().fit(train[['owner']])\n"
    "e.transform(test[['owner']])\n",
    "from sklearn.preprocessing import OneHotEncoder\nOneHotEncoder().fit_transform(train['district'])\n",
    "from sklearn.ensemble import HistGradientBoostingRegressor\nfrom sklearn.preprocessing import OneHotEncoder\n"
    "X = OneHotEncoder().fit_transform(train[['district']])\n"
    "HistGradientBoostingRegressor(max_iter=3).fit(X, train['price'])\n",
    "a = np.hstack([train[['rooms']].values, test[['rooms']].values])\n",
    "from sklearn.linear_model import Ridge\ncols = ['rooms', 'rooms']\nRidge().fit(train[cols], train['price'])\n",
    "X = train[['rooms']].map(len)\n",
    "X = train[['garden']].map(len)\n",
    "X = train['rooms'].apply(lambda v: len(v))\n",
    "X = train[:, 1:3]\n",
    "a = np.zeros((3, 2))\nb = a[:, 5]\n",
    "a = np.arange(10).reshape(3, 4)\n",
)
_add(
    Check.SHAPES_AND_DTYPES,
    "flowers",
    _FLOWERS + "from sklearn.linear_model import LinearRegression\nLinearRegression().fit(X, y)\n",
    _FLOWERS + "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(5).fit(X, y)\n",
    _FLOWERS + "from sklearn.metrics import f1_score\nf1_score(y, y)\n",
    _FLOWERS
    + "from sklearn.linear_model import LogisticRegression\nLogisticRegression(solver='liblinear').fit(X, y)\n",
    _FLOWERS
    + "from sklearn.tree import DecisionTreeClassifier\np = DecisionTreeClassifier().fit(X, y).predict_proba(T)\n"
    "pd.DataFrame({'flower': test['flower'], 'kind': p})\n",
    _FLOWERS
    + "from sklearn.tree import DecisionTreeClassifier\np = DecisionTreeClassifier().fit(X, y).predict_proba(T)\n"
    "print(p[:, 3])\n",
)
_add(
    Check.SHAPES_AND_DTYPES,
    "churn",
    _CHURN + "from sklearn.metrics import accuracy_score\nfrom sklearn.linear_model import LogisticRegression\n"
    "p = LogisticRegression().fit(X, y).predict_proba(X)[:, 1]\naccuracy_score(y, p)\n",
)
_add(
    Check.SHAPES_AND_DTYPES,
    "reviews",
    "from sklearn.linear_model import LogisticRegression\nLogisticRegression().fit(train[['text']], "
    "train['positive'])\n",
    "from sklearn.feature_extraction.text import TfidfVectorizer\nTfidfVectorizer().fit_transform(train['title'])\n",
    "from sklearn.feature_extraction.text import TfidfVectorizer\nTfidfVectorizer().fit_transform(train['positive'])\n",
    "from sklearn.feature_extraction.text import TfidfVectorizer\nfrom sklearn.svm import LinearSVC\n"
    "v = TfidfVectorizer(ngram_range=(1, 2))\nA, B = v.fit_transform(train['text']), v.fit_transform(test['text'])\n"
    "LinearSVC().fit(A, train['positive']).predict(B)\n",
    "from sklearn.feature_extraction.text import TfidfVectorizer\nfrom sklearn.svm import LinearSVC\n"
    "LinearSVC().fit(TfidfVectorizer().fit_transform(train[['text']]), train['positive'])\n",
    "from sklearn.feature_extraction.text import CountVectorizer\nfrom sklearn.naive_bayes import GaussianNB\n"
    "GaussianNB().fit(CountVectorizer().fit_transform(train['text']), train['positive'])\n",
    "from sklearn.feature_extraction.text import CountVectorizer\nfrom sklearn.preprocessing import StandardScaler\n"
    "StandardScaler().fit_transform(CountVectorizer().fit_transform(train['text']))\n",
)
_add(
    Check.SHAPES_AND_DTYPES,
    "digits",
    _IMAGES + "X = np.array([np.array(Image.open(f'{DATA_DIR}/train/{i}.png')) for i in train['image_id']])\n"
    "LogisticRegression().fit(X, train['digit'])\n",
    _IMAGES + "X = []\nfor i in train['image_id']:\n    X.append(np.array(Image.open(f'{DATA_DIR}/train/{i}.png')))\n"
    "X = np.stack(X) / 255\nLogisticRegression().fit(X, train['digit'])\n",
    _IMAGES + "def load(folder, ids, size):\n    out = []\n    for i in ids:\n"
    "        im = Image.open(f'{DATA_DIR}/{folder}/{i}.png').resize((size, size))\n"
    "        out.append(np.asarray(im).flatten())\n    return np.array(out)\n"
    "m = LogisticRegression().fit(load('train', train.image_id, 6), train.digit)\n"
    "m.predict(load('test', test.image_id, 4))\n",
)
_add(
    Check.OTHER_RUNTIME,
    "houses",
    "x = 1 / 0\n",
    "x = len(train) / (len(train) - 120)\n",
    "x = [1, 2, 3][5]\n",
    "x = {'a': 1}['b']\n",
    "x = int('abc')\n",
    "x = 'a' + 1\n",
    "x = None\nx.fit()\n",
    "x = None\nx()\n",
    "raise ValueError('no')\n",
    "import sys\nsys.exit(1)\n",
    "assert len(train) == 5, 'wrong'\n",
    "a, b = [1, 2, 3]\n",
    "if train:\n    pass\n",
    "x = (1, 2)\nx[0] = 3\n",
    "cols = list(train.columns)\ncols.remove('target')\n",
    "from sklearn.linear_model import Ridge\nRidge()[0]\n",
    "print(f'{\"abc\":.2f}')\n",
    "x = float([1, 2])\n",
    "for i in 5:\n    pass\n",
    "[1, 2].push(3)\n",
    "'abc'.append('d')\n",
    "train.drop[['id']]\n",
    "train()\n",
    "pd.concat([train.values, test.values])\n",
    "import json\nx = json\nx['a']\n",
    "def f(a, b):\n    return a\nf(1, 2)[3]\n",
    "input('go?')\n",
)
