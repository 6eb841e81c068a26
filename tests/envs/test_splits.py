"""The rule gives exactly the lists that the paper prints."""

from __future__ import annotations

import dataclasses

import pytest

from wmrl_gym.configs import compose_config, to_dataclass
from wmrl_gym.configs.schema import EvaluateConfig
from wmrl_gym.configs.validation import import_target
from wmrl_gym.envs.mle_dojo.size_list import SIZE_LIST, parse_size
from wmrl_gym.envs.mle_dojo.splits import (
    CATEGORIES,
    DROPPED,
    HELD_OUT_SIZE,
    TRAIN_SIZE,
    held_out_split,
    split_categories,
    train_split,
)

PAPER_TRAIN = {
    "tabular": """
        mercedes-benz-greener-manufacturing icr-identify-age-related-conditions kobe-bryant-shot-selection
        home-data-for-ml-course spooky-author-identification liberty-mutual-group-property-inspection-prediction
        detecting-insults-in-social-commentary walmart-recruiting-store-sales-forecasting
        prudential-life-insurance-assessment unimelb nomad2018-predict-transparent-conductors
        amazon-employee-access-challenge poker-rule-induction allstate-purchase-prediction-challenge
        dont-call-me-turkey
    """,
    "text": """
        kaggle-llm-science-exam movie-review-sentiment-analysis-kernels-only llm-detect-ai-generated-text
        random-acts-of-pizza chaii-hindi-and-tamil-question-answering nbme-score-clinical-patient-notes
        20-newsgroups-ciphertext-challenge word2vec-nlp-tutorial jigsaw-toxic-comment-classification-challenge
        text-normalization-challenge-english-language wsdm-cup-multilingual-chatbot-arena
        text-normalization-challenge-russian-language llm-classification-finetuning stumbleupon
        linking-writing-processes-to-writing-quality
    """,
    "image": """
        aerial-cactus-identification leaf-classification denoising-dirty-documents facial-keypoints-detection
        statoil-iceberg-classifier-challenge tgs-salt-identification-challenge global-wheat-detection
        whale-categorization-playground dog-breed-identification plant-pathology-2020-fgvc7
        dogs-vs-cats-redux-kernels-edition petfinder-pawpularity-score plant-seedlings-classification
        shopee-product-matching the-nature-conservancy-fisheries-monitoring
    """,
}
PAPER_HELD_OUT = {
    "tabular": """
        GiveMeSomeCredit forest-cover-type-kernels-only novozymes-enzyme-stability-prediction
        integer-sequence-learning afsis-soil-properties
    """,
    "text": """
        quora-question-pairs AI4Code jigsaw-unintended-bias-in-toxicity-classification
        quora-insincere-questions-classification
    """,
    "image": """
        uw-madison-gi-tract-image-segmentation invasive-species-monitoring kuzushiji-recognition bengaliai-cv19
        cassava-leaf-disease-classification
    """,
}


@pytest.mark.parametrize(("paper", "computed"), [(PAPER_TRAIN, train_split()), (PAPER_HELD_OUT, held_out_split())])
def test_the_rule_reproduces_the_papers_lists_category_by_category(paper: dict[str, str], computed: list[str]) -> None:
    kinds = split_categories()
    for category in CATEGORIES:
        assert {name for name in computed if kinds[name] == category} == set(paper[category].split())
    assert len(computed) == sum(len(names.split()) for names in paper.values())


def test_45_competitions_train_and_14_are_held_out_apart_from_each_other() -> None:
    assert (len(train_split()), len(held_out_split())) == (45, 14)
    assert not set(train_split()) & set(held_out_split())
    assert set(held_out_split(dropped=())) - set(held_out_split()) == set(DROPPED)


def test_every_training_competition_is_smaller_than_every_held_out_one_of_its_category() -> None:
    size, kinds = {item.name: item.size_bytes for item in SIZE_LIST}, split_categories()
    for category in CATEGORIES:
        train, held = ([size[n] for n in names if kinds[n] == category] for names in (train_split(), held_out_split()))
        assert len(train) == TRAIN_SIZE and len(held) <= HELD_OUT_SIZE and max(train) <= min(held)


def test_a_competition_that_shrinks_moves_into_the_training_split() -> None:
    held = held_out_split()[0]
    smaller = [dataclasses.replace(item, size_bytes=1.0) if item.name == held else item for item in SIZE_LIST]
    assert held in train_split(smaller) and held not in held_out_split(smaller)


def test_the_list_ascends_and_holds_each_of_its_125_competitions_once() -> None:
    assert len({item.name for item in SIZE_LIST}) == len(SIZE_LIST) == 125
    assert [item.size_bytes for item in SIZE_LIST] == sorted(item.size_bytes for item in SIZE_LIST)
    assert parse_size("1.04GB") == 1.04e9
    with pytest.raises(ValueError, match=r"351\.45kB"):
        parse_size("many")


def test_a_configuration_can_name_the_split() -> None:
    split = "wmrl_gym.envs.mle_dojo.splits"
    overrides = [f"tasks.train={split}.train_split", f"tasks.held_out={split}.held_out_split"]
    config = to_dataclass(EvaluateConfig, compose_config("evaluate", overrides))
    assert isinstance(config.tasks.held_out, str)
    assert list(import_target(config.tasks.held_out)()) == held_out_split()
