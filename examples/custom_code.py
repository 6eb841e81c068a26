"""Real competitions as a Gymnasium environment, in a loop of your own: two scripts, really executed and graded.

Run it with: python examples/custom_code.py (after `wmrl competitions prepare diabetes_progression`).
"""

import gymnasium as gym

import wmrl_gym  # noqa: F401 - registers the environments

SCRIPT = """```python
import pandas as pd
from sklearn.linear_model import Ridge

train, test = pd.read_csv(f"{{DATA_DIR}}/train.csv"), pd.read_csv(f"{{DATA_DIR}}/test.csv")
features = [column for column in test.columns if column != "{id}"]
model = Ridge(alpha={alpha}).fit(train[features], train["{target}"])
pd.DataFrame({{"{id}": test["{id}"], "{target}": model.predict(test[features])}}).to_csv(SUBMISSION_PATH, index=False)
```"""


def main() -> None:
    env = gym.make("wmrl/MLEDojo-v0", competition="diabetes_progression", max_turns=2)
    observation, _ = env.reset(seed=0)
    print(observation[:400], "...\n")
    contract = env.unwrapped.competitions["diabetes_progression"].overview
    names = {"id": contract.contract.id_column, "target": contract.target_columns[0]}
    terminated = False
    for alpha in (1000.0, 1.0):
        assert not terminated
        observation, reward, terminated, _, info = env.step(SCRIPT.format(alpha=alpha, **names))
        print(f"alpha {alpha:g}: {info['status']}, percentile {info['percentile']:.2f}, reward {float(reward):.3f}")
    print(f"best score of the episode: {info['best_score']:.3f}")


if __name__ == "__main__":
    main()
