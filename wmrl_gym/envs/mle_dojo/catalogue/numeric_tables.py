"""Tabular competitions whose features are all numbers and all present."""

from __future__ import annotations

from wmrl_gym.envs.mle_dojo.catalogue.sources import source_path
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Examples, Source

_CANCER = Source("scikit-learn", "sklearn", ("datasets/data/breast_cancer.csv",))
_DIABETES = Source(
    "scikit-learn", "sklearn", ("datasets/data/diabetes_data_raw.csv.gz", "datasets/data/diabetes_target.csv.gz")
)
_SEGMENT = Source("river", "river", ("datasets/segment.csv.zip",))
_ANES = Source("statsmodels", "statsmodels", ("datasets/anes96/anes96.csv",))

_CELL_MEASURES = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave_points",
    "symmetry",
    "fractal_dimension",
)


def _load_breast_cancer() -> Examples:
    import pandas as pd

    names = [f"{measure}_{kind}" for kind in ("mean", "error", "worst") for measure in _CELL_MEASURES]
    path = source_path(_CANCER, _CANCER.files[0])
    table = pd.read_csv(path, skiprows=1, header=None, names=[*names, "benign"])
    table["malignant"] = 1 - table.pop("benign")
    return Examples(table)


def _load_diabetes() -> Examples:
    import pandas as pd

    names = ["age", "sex", "bmi", "blood_pressure", "s1", "s2", "s3", "s4", "s5", "s6"]
    features, target = (source_path(_DIABETES, file) for file in _DIABETES.files)
    table = pd.read_csv(features, sep=" ", header=None, names=names)
    table["progression"] = pd.read_csv(target, header=None)[0].astype(int)
    return Examples(table)


def _load_segments() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_SEGMENT, _SEGMENT.files[0]))
    table = table.rename(columns=lambda name: name.replace("-", "_").replace("vegde", "vedge"))
    return Examples(table)


def _load_vote() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_ANES, _ANES.files[0]), sep="\t", quotechar="'")
    table = table.rename(columns={"popul": "population", "educ": "education"})
    table["voted_republican"] = table.pop("vote")
    return Examples(table)


NUMERIC_TABLES = (
    CompetitionSpec(
        name="breast_cancer_diagnosis",
        title="Malignant or benign: breast cancer from cell nuclei",
        category="tabular",
        split="train",
        metric="auc",
        id_column="id",
        target="malignant",
        story=(
            "A thin needle draws cells from a breast mass; a digitised microscope image of them is outlined by hand"
            " and ten properties of every nucleus are measured. Each row summarises one image: the mean of each"
            " property, its standard error, and the mean of the three largest values. Estimate how probable it is that"
            " the mass is malignant."
        ),
        fields={
            **{f"{name}_mean": f"mean {name.replace('_', ' ')} of the nuclei" for name in _CELL_MEASURES},
            **{f"{name}_error": f"standard error of the {name.replace('_', ' ')}" for name in _CELL_MEASURES},
            **{f"{name}_worst": f"mean of the largest {name.replace('_', ' ')} values" for name in _CELL_MEASURES},
            "malignant": "1 if the mass was malignant, 0 if benign (target)",
        },
        sources=(_CANCER,),
        origin="Wisconsin Diagnostic Breast Cancer, W. H. Wolberg, W. N. Street, O. L. Mangasarian, 1995",
        licence="BSD-3-Clause package; data CC BY 4.0 (UCI Machine Learning Repository)",
        load=_load_breast_cancer,
        seed=2,
    ),
    CompetitionSpec(
        name="diabetes_progression",
        title="Diabetes one year on",
        category="tabular",
        split="train",
        metric="rmse",
        id_column="patient_id",
        target="progression",
        story=(
            "Ten baseline measurements were taken from patients with diabetes, and one year later the progression of"
            " the disease was put into a single number. Predict that number from the baseline."
        ),
        fields={
            "age": "years",
            "sex": "1 or 2, as coded in the study",
            "bmi": "body mass index",
            "blood_pressure": "mean arterial blood pressure",
            "s1": "total serum cholesterol",
            "s2": "low-density lipoproteins",
            "s3": "high-density lipoproteins",
            "s4": "ratio of total cholesterol to high-density lipoproteins",
            "s5": "logarithm of serum triglycerides (possibly)",
            "s6": "blood sugar",
            "progression": "progression of the disease after one year (target)",
        },
        sources=(_DIABETES,),
        origin="B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least Angle Regression, 2004",
        licence="BSD-3-Clause package; no terms stated for the data",
        load=_load_diabetes,
    ),
    CompetitionSpec(
        name="outdoor_segments",
        title="What is in a 3x3 patch of an outdoor photograph",
        category="tabular",
        split="train",
        metric="macro_f1",
        id_column="Id",
        target="category",
        story=(
            "Seven outdoor photographs were segmented by hand, and small patches of 3x3 pixels were drawn from them."
            " Each row holds measurements of one patch: where it lies, its contrasts, its colours. Name what it shows:"
            " path, foliage, sky, grass, brickface, cement or window."
        ),
        fields={
            "region_centroid_col": "column of the patch's centre",
            "region_centroid_row": "row of the patch's centre",
            "short_line_density_5": "low-contrast lines of length 5 through the patch",
            "short_line_density_2": "high-contrast lines of length 5 through the patch",
            "vedge_mean": "mean contrast of horizontally adjacent pixels",
            "vedge_sd": "its spread",
            "hedge_mean": "mean contrast of vertically adjacent pixels",
            "hedge_sd": "its spread",
            "intensity_mean": "mean of (red + green + blue) / 3",
            "rawred_mean, rawblue_mean, rawgreen_mean": "mean of each colour",
            "exred_mean, exblue_mean, exgreen_mean": "mean excess of each colour over the others",
            "value_mean, saturation_mean, hue_mean": "mean of the patch in a hue-saturation-value space",
            "category": "what the patch shows (target)",
        },
        sources=(_SEGMENT,),
        origin="Statlog Image Segmentation, University of Massachusetts Vision Group, 1990",
        licence="BSD-3-Clause package; data CC BY 4.0 (UCI Machine Learning Repository)",
        load=_load_segments,
    ),
    CompetitionSpec(
        name="presidential_vote_1996",
        title="Clinton or Dole: a voter's choice in 1996",
        category="tabular",
        split="train",
        metric="log_loss",
        id_column="respondent",
        target="voted_republican",
        story=(
            "The American National Election Study interviewed voters around the presidential election of 1996. From"
            " their media habits, their background and where they place themselves and the candidates between left and"
            " right, give the probability that a respondent preferred the Republican candidate, Bob Dole, over Bill"
            " Clinton."
        ),
        fields={
            "population": "population of the place where the respondent lives, in thousands",
            "TVnews": "days per week the respondent watches television news",
            "selfLR": "self-placement from 1 (very liberal) to 7 (very conservative)",
            "ClinLR": "where the respondent places Clinton on that scale",
            "DoleLR": "where the respondent places Dole on that scale",
            "PID": "party identification from 0 (strong Democrat) to 6 (strong Republican)",
            "age": "years",
            "education": "from 1 (grades 1 to 8) to 7 (advanced degree)",
            "income": "income bracket from 1 to 24",
            "voted_republican": "1 if the respondent expected to vote for Dole, 0 for Clinton (target)",
        },
        sources=(_ANES,),
        origin="American National Election Studies 1996, by way of W. Greene's econometrics teaching data",
        licence="BSD-3-Clause package; data in the public domain according to the package",
        load=_load_vote,
        seed=1,
    ),
)
