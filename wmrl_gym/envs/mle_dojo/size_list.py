"""MLE-Dojo's list of 125 competitions: name, size of the data as Kaggle states it, and the tags that tell its kind.

Facts from MLE-Dojo's ``prepare/mle.json`` (August 2025), in its order, which ascends by size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9}

_LIST = """
mercedes-benz-greener-manufacturing 351.45kB Tabular
icr-identify-age-related-conditions 356.88kB Tabular
kaggle-llm-science-exam 364.21kB NLP
kobe-bryant-shot-selection 708.3kB Tabular
home-data-for-ml-course 1.15MB
spooky-author-identification 1.9MB
liberty-mutual-group-property-inspection-prediction 2MB
movie-review-sentiment-analysis-kernels-only 2.44MB Text
detecting-insults-in-social-commentary 3.02MB
walmart-recruiting-store-sales-forecasting 3.22MB
prudential-life-insurance-assessment 3.4MB Tabular
llm-detect-ai-generated-text 4.43MB Text-Generation
unimelb 4.53MB
nomad2018-predict-transparent-conductors 6.24MB
amazon-employee-access-challenge 6.39MB
poker-rule-induction 8.3MB Tabular
allstate-purchase-prediction-challenge 8.97MB
dont-call-me-turkey 11.04MB Tabular
GiveMeSomeCredit 14.47MB
forest-cover-type-kernels-only 15.38MB Tabular
novozymes-enzyme-stability-prediction 16.39MB
integer-sequence-learning 17.91MB Tabular
random-acts-of-pizza 17.97MB Text
afsis-soil-properties 21.7MB
sberbank-russian-housing-market 22.71MB Tabular
aerial-cactus-identification 25.4MB Image
crowdflower-weather-twitter 25.4MB
predicting-red-hat-business-value 26.74MB Tabular
DontGetKicked 29.52MB
battlefin-s-big-data-combine-forecasting-challenge 30.23MB
bioresponse 31.06MB
chaii-hindi-and-tamil-question-answering 31.8MB Text
nbme-score-clinical-patient-notes 35.73MB Text,NLP
leaf-classification 36.05MB Image
20-newsgroups-ciphertext-challenge 36.97MB Text
rossmann-store-sales 39.85MB Tabular
sf-crime 45.24MB Tabular
imaterialist-challenge-furniture-2018 48.59MB
word2vec-nlp-tutorial 54.37MB Text
jigsaw-toxic-comment-classification-challenge 55.18MB Text
denoising-dirty-documents 58.81MB Image
homesite-quote-conversion 65.13MB Tabular
airbnb-recruiting-new-user-bookings 67.85MB Tabular
home-depot-product-search-relevance 72.93MB Tabular
facial-keypoints-detection 80.86MB Image
nyc-taxi-trip-duration 89.91MB Tabular
text-normalization-challenge-english-language 95.51MB Text
bnp-paribas-cardif-claims-management 103.75MB Tabular
wsdm-cup-multilingual-chatbot-arena 113.98MB Text-Conversation
text-normalization-challenge-russian-language 125.87MB Text
allstate-claims-severity 142.87MB Tabular
yelp-recsys-2013 179.46MB
llm-classification-finetuning 184.19MB Text-Conversation
stumbleupon 196.18MB Text,Tabular
the-winton-stock-market-challenge 213.13MB Tabular
facebook-recruiting-iv-human-or-bot 260.68MB Tabular
the-icml-2013-whale-challenge-right-whale-redux 293.14MB
statoil-iceberg-classifier-challenge 302.1MB Image
flavours-of-physics-kernels-only 436.14MB
tgs-salt-identification-challenge 483.07MB Image
linking-writing-processes-to-writing-quality 485.71MB NLP
grupo-bimbo-inventory-demand 502.44MB Tabular
quora-question-pairs 523.24MB Text,Tabular
bigquery-geotab-intersection-congestion 577.97MB Tabular
mlsp-2013-birds 585.1MB
loan-default-prediction 611.66MB
global-wheat-detection 643.57MB Image
whale-categorization-playground 726.74MB Image
dog-breed-identification 750.43MB Image
plant-pathology-2020-fgvc7 823.79MB Image
dogs-vs-cats-redux-kernels-edition 854.51MB Image
benchmark-bond-trade-price-challenge 910.54MB
pubg-finish-placement-prediction 965.66MB Tabular
petfinder-pawpularity-score 1.04GB Image
champs-scalar-coupling 1.22GB Tabular
avazu-ctr-prediction 1.28GB
billion-word-imputation 1.7GB Text
plant-seedlings-classification 1.81GB Image
shopee-product-matching 1.92GB Image,Text
AI4Code 2.16GB NLP,Text
the-nature-conservancy-fisheries-monitoring 2.27GB Image
jigsaw-unintended-bias-in-toxicity-classification 2.38GB Text,NLP
uw-madison-gi-tract-image-segmentation 2.47GB Image
ashrae-energy-prediction 2.61GB Tabular
stanford-covid-vaccine 2.68GB
acquire-valued-shoppers-challenge 3.07GB
facebook-recruiting-iii-keyword-extraction 3.19GB
invasive-species-monitoring 3.35GB Image
kuzushiji-recognition 4.51GB Image
nfl-player-contact-detection 5.01GB Tabular
bengaliai-cv19 5.18GB Image
new-york-city-taxi-fare-prediction 5.7GB Tabular
cassava-leaf-disease-classification 6.19GB Image
quora-insincere-questions-classification 6.56GB Text
histopathologic-cancer-detection 7.76GB
bms-molecular-translation 8.87GB Image
aptos2019-blindness-detection 10.22GB Image
ranzcr-clip-catheter-line-classification 13.13GB Image
plant-pathology-2021-fgvc8 16.1GB Image
smartphone-decimeter-2022 22.9GB Tabular
multi-modal-gesture-recognition 23.23GB
osic-pulmonary-fibrosis-progression 23.99GB Image
freesound-audio-tagging-2019 26.15GB
hms-harmful-brain-activity-classification 26.4GB Tabular
hotel-id-2021-fgvc8 26.65GB Image
imet-2020-fgvc7 29.46GB
predict-volcanic-eruptions-ingv-oe 31.25GB
airbus-ship-detection 31.41GB Image
alaska2-image-steganalysis 32.27GB
hubmap-kidney-segmentation 32.97GB Image
h-and-m-personalized-fashion-recommendations 34.56GB
draper-satellite-image-chronology 36.07GB Image
vesuvius-challenge-ink-detection 37.02GB
iwildcam-2019-fgvc6 46.68GB Image
herbarium-2020-fgvc7 63.16GB Image
cdiscount-image-classification-challenge 78.12GB
inaturalist-2019-fgvc6 87.76GB
icecube-neutrinos-in-deep-ice 117.18GB Tabular
iwildcam-2020-fgvc7 118.59GB
siim-covid19-detection 128.51GB Image
rsna-miccai-brain-tumor-radiogenomic-classification 136.85GB Image
seti-breakthrough-listen 156.02GB
herbarium-2021-fgvc8 161.9GB Image
herbarium-2022-fgvc9 163.17GB Image
vinbigdata-chest-xray-abnormalities-detection 205.96GB Image
"""


@dataclass(frozen=True)
class ListedCompetition:
    """One line of the list."""

    name: str
    size_bytes: float
    tags: tuple[str, ...]
    """Of Kaggle's tags, "Image", "Tabular", "NLP" and those that begin with "Text"."""


def parse_size(text: str) -> float:
    """Bytes of a size like "351.45kB".

    Raises:
        ValueError: for anything else.
    """
    match = re.fullmatch(r"([\d.]+) ?(kB|MB|GB)", text)
    if match is None:
        raise ValueError(f"{text!r} is no size: write it like 351.45kB, 2MB or 1.04GB")
    return float(match[1]) * _UNITS[match[2]]


def _parse(line: str) -> ListedCompetition:
    name, size, *tags = line.split()
    return ListedCompetition(name, parse_size(size), tuple(tags[0].split(",")) if tags else ())


SIZE_LIST = tuple(_parse(line) for line in _LIST.split("\n") if line)
