"""Write verl's data sets: one row per competition, with the environment's first observation as the prompt.

    python examples/verl/prepare_data.py data [training competition ...] [--held-out competition ...]

Without names the paper's 45 training and 14 held-out competitions of MLE-Dojo.
"""

import argparse
from pathlib import Path

import pandas as pd

from wmrl_gym.envs import MLEDojoEnv
from wmrl_gym.envs.mle_dojo.splits import held_out_split, train_split

OVERVIEW_CHARS = 6000  # as in wmrl_4b.yaml


def rows(competitions: list[str], split: str) -> pd.DataFrame:
    table = []
    for index, name in enumerate(competitions):
        environment = MLEDojoEnv(name, max_turns=1, overview_chars=OVERVIEW_CHARS)
        observation, _ = environment.reset(seed=0)
        table.append(
            {
                "data_source": name,
                "prompt": [{"role": "user", "content": observation}],
                "reward_model": {"style": "rule", "ground_truth": ""},  # the scorer knows the answers, not the data set
                "extra_info": {"index": index, "split": split, "competition": name},
            }
        )
    return pd.DataFrame(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("train", nargs="*")
    parser.add_argument("--held-out", nargs="*")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for file, names, split in (
        ("train", given.train or train_split(), "train"),
        ("held_out", given.held_out or held_out_split(), "test"),
    ):
        table = rows(list(names), split)
        table.to_parquet(given.folder / f"{file}.parquet")
        print(f"{given.folder / file}.parquet: {len(table)} competitions")
