"""The environment: Gymnasium's contract, turns, rewards, and a whole game with the real sandbox."""

from __future__ import annotations

import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.envs.mle_dojo.competition import CompetitionError
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder

from . import scripts

ENV_ID = "wmrl_test/MLEDojo-v0"
REQUEST = "<action>request_info</action>"


class Scripted:
    """Plays back scores: the n-th execution gives the n-th of them."""

    def __init__(self, *scores: float | None) -> None:
        self.scores = list(scores)
        self.seen: list[Submission] = []

    def __call__(self, submission: Submission) -> Outcome:
        self.seen.append(submission)
        score = self.scores.pop(0)
        status = "unknown" if score is None else ("valid" if score >= 0.5 else "runtime_error")
        return Outcome(score, status, f"feedback {len(self.seen)}", details={"percentile": None})


def play(env: gym.Env[str, str], actions: list[str]) -> list[tuple[str, float, bool, bool, dict[str, Any]]]:
    env.reset(seed=0)
    return [env.step(action) for action in actions]  # type: ignore[misc]


def make(data_root: Path, *scores: float | None, **settings: Any) -> MLEDojoEnv:
    return MLEDojoEnv("wine", data_root, runner=Scripted(*scores), **settings)


@pytest.fixture
def registered() -> Any:
    gym.register(ENV_ID, entry_point="wmrl_gym.envs.mle_dojo.env:MLEDojoEnv", nondeterministic=True)
    yield ENV_ID
    del gym.registry[ENV_ID]


@pytest.mark.parametrize("style", ["full", "compact"])
def test_gymnasium_s_checker_is_content(data_root: Path, registered: str, style: str) -> None:
    env = gym.make(registered, competition=["wine", "diabetes"], data_root=str(data_root), overview_style=style)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_a_whole_game_is_played_with_the_real_sandbox(data_root: Path, registered: str) -> None:
    env = gym.make(registered, competition="wine", data_root=str(data_root), render_mode="ansi")
    observation, info = env.reset(seed=3)
    assert "Submissions are scored by accuracy." in observation and "SUBMISSION_PATH" in observation
    assert info == {"competition": "wine", "turn": 0}
    answers = [scripts.CRASH, scripts.CONSTANT, scripts.GOOD, scripts.NOTHING]
    steps = [env.step(scripts.fenced(script)) for script in answers]
    assert [info["status"] for *_, info in steps] == ["runtime_error", "valid", "valid", "invalid_submission"]
    assert [terminated for _, _, terminated, _, _ in steps] == [False, False, False, True]
    assert not any(truncated for *_, truncated, _ in steps)
    scores = [info["score"] for *_, info in steps]
    assert sum(float(reward) for _, reward, *_ in steps) == pytest.approx(max(scores))
    assert steps[3][4]["best_score"] == max(scores) > 0.9
    assert "Phase 1" in steps[0][0] and "Phase 2" in steps[1][0]
    transcript = env.render()
    assert isinstance(transcript, str) and "KeyError" in transcript
    env.close()


def test_the_return_is_the_best_score_of_the_episode(data_root: Path) -> None:
    steps = play(make(data_root, 0.1, 0.7, 0.2, 0.9), [scripts.fenced("x = 1")] * 4)
    assert [reward for _, reward, *_ in steps] == pytest.approx([0.1, 0.6, 0.0, 0.2])


def test_a_custom_ladder_below_zero_telescopes_too(data_root: Path) -> None:
    steps = play(make(data_root, -1.0, -0.5, -2.0, -0.7), [scripts.fenced("x = 1")] * 4)
    assert sum(reward for _, reward, *_ in steps) == pytest.approx(-0.5)


def test_each_turn_s_own_score_can_be_the_reward(data_root: Path) -> None:
    steps = play(make(data_root, 0.1, 0.7, 0.2, 0.9, reward="score"), [scripts.fenced("x = 1")] * 4)
    assert [reward for _, reward, *_ in steps] == [0.1, 0.7, 0.2, 0.9]


def test_an_unknown_score_makes_the_return_unknown(data_root: Path) -> None:
    steps = play(make(data_root, 0.7, None, 0.9, max_turns=3), [scripts.fenced("x = 1")] * 3)
    rewards = [reward for _, reward, *_ in steps]
    assert math.isnan(rewards[1]) and math.isnan(sum(rewards))
    assert rewards[2] == pytest.approx(0.2)
    assert steps[1][4]["score"] is None and steps[1][4]["status"] == "unknown"


def test_a_malformed_answer_scores_as_no_code_and_says_how_to_answer(data_root: Path) -> None:
    env = make(data_root)
    env.reset(seed=0)
    assert env.submit("I would use a forest.") is None
    observation, reward, terminated, _, info = env.advance(None)
    assert (reward, terminated, info["status"]) == (0.0, False, "no_code")
    assert (info["outcome"].score, info["outcome"].source) == (0.0, "environment")
    assert "```python" in observation


def test_a_request_lists_the_real_files_and_costs_a_turn_but_has_no_outcome(data_root: Path) -> None:
    env = make(data_root, max_turns=2)
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(REQUEST)
    assert "train.csv: table, 120 rows" in observation and "sample_submission.csv" in observation
    assert (reward, terminated, info["turn"], info["status"]) == (0.0, False, 1, None)
    assert "outcome" not in info


def test_an_episode_of_mere_requests_has_a_known_score_of_zero(data_root: Path) -> None:
    steps = play(make(data_root, max_turns=2), [REQUEST] * 2)
    assert "outcome" not in steps[0][4]
    assert steps[1][4]["outcome"].score == 0.0
    handed_in = play(make(data_root, 0.7, max_turns=2), [scripts.fenced("x = 1"), REQUEST])
    assert "outcome" not in handed_in[1][4]


def test_a_submission_carries_the_script_and_the_public_brief_only(data_root: Path) -> None:
    env = make(data_root)
    env.reset(seed=0)
    submission = env.submit(scripts.fenced("x = 1\n"))
    assert submission is not None
    assert (submission.task_id, submission.content) == ("wine", "x = 1\n")
    assert set(submission.context) == {"overview"}
    assert submission.context["overview"].target_columns == ("cultivar",)
    assert pickle.loads(pickle.dumps(submission)).key == submission.key


def test_a_predicted_outcome_moves_the_episode_on_as_a_true_one_does(data_root: Path) -> None:
    env = make(data_root)
    env.reset(seed=0)
    env.submit(scripts.fenced("x = 1"))
    predicted = Outcome(0.725, "valid", "looks fine", source="world_model", details={"percentile": 0.45})
    observation, reward, _, _, info = env.advance(predicted)
    assert reward == 0.725
    assert info["percentile"] == 0.45
    assert "looks fine" in observation and "45.0%" in observation


def test_compact_style_shows_the_bare_overview_and_bare_feedback(data_root: Path) -> None:
    env = make(data_root, 0.1, overview_style="compact")
    observation, _ = env.reset(seed=0)
    assert observation.splitlines()[0] == "tabular accuracy max"
    assert env.step(scripts.fenced("x = 1"))[0] == "feedback 1"


def test_the_seed_or_an_option_chooses_among_competitions(data_root: Path) -> None:
    env = MLEDojoEnv(["wine", "diabetes"], data_root)
    drawn = [env.reset(seed=seed)[1]["competition"] for seed in range(20)]
    assert drawn == [env.reset(seed=seed)[1]["competition"] for seed in range(20)]
    assert set(drawn) == {"wine", "diabetes"}
    assert env.reset(options={"competition": "diabetes"})[1]["competition"] == "diabetes"
    with pytest.raises(CompetitionError, match="no competition 'beer' in this environment"):
        env.reset(options={"competition": "beer"})


def test_long_feedback_is_cut_at_head_and_tail(data_root: Path) -> None:
    def chatter(submission: Submission) -> Outcome:
        return Outcome(0.1, "runtime_error", "HEAD" + "." * 10_000 + "TAIL")

    env = MLEDojoEnv("wine", data_root, runner=chatter, feedback_chars=300, overview_style="compact")
    env.reset(seed=0)
    observation = env.step(scripts.fenced("x = 1"))[0]
    assert len(observation) <= 300
    assert observation.startswith("HEAD") and observation.endswith("TAIL")


def test_calls_out_of_order_are_errors(data_root: Path) -> None:
    env = make(data_root, 0.7, max_turns=1)
    with pytest.raises(gym.error.ResetNeeded):
        env.submit("x")
    env.reset(seed=0)
    with pytest.raises(gym.error.Error, match="call submit first"):
        env.advance(None)
    env.submit(scripts.fenced("x = 1"))
    with pytest.raises(gym.error.Error, match="needs an outcome"):
        env.advance(None)
    env.submit(scripts.fenced("x = 1"))
    assert env.advance(Outcome(0.7, "valid"))[2] is True
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_turns": 0}, "env.max_turns is 0"),
        ({"overview_style": "brief"}, "env.overview_style is 'brief': choose 'full' or 'compact'"),
        ({"reward": "sparse"}, "env.reward is 'sparse'"),
        ({"score": "medal"}, "env.score is 'medal'"),
        ({"feedback_chars": 0}, "env.feedback_chars is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data_root: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(data_root, **settings)


def test_settings_may_come_as_plain_mappings(data_root: Path) -> None:
    env = MLEDojoEnv("wine", data_root, ladder={"valid_base": 0.4}, sandbox_limits={"wall_seconds": 3.0})
    assert env.ladder == RewardLadder(valid_base=0.4)
    assert env.runner.sandbox_limits.wall_seconds == 3.0  # type: ignore[attr-defined]


def test_without_a_name_all_that_are_prepared_are_played(data_root: Path) -> None:
    env = MLEDojoEnv(data_root=data_root, runner=Scripted(0.5))
    assert sorted(env.competitions) == sorted(folder.name for folder in data_root.iterdir())
    drawn = {env.reset(seed=seed)[1]["competition"] for seed in range(20)}
    assert len(drawn) > 1 and drawn <= set(env.competitions)
    assert env.reset(seed=3)[1] == env.reset(seed=3)[1]


def test_with_none_prepared_the_bundled_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wmrl_gym.envs.mle_dojo import catalogue

    few = {name: catalogue.CATALOGUE[name] for name in ("diabetes_progression", "breast_cancer_diagnosis")}
    monkeypatch.setattr(catalogue, "CATALOGUE", few)
    monkeypatch.setenv("WMRL_DATA_ROOT", str(tmp_path / "new"))
    env = gym.make("wmrl/MLEDojo-v0")
    assert sorted(env.unwrapped.competitions) == sorted(few)  # type: ignore[attr-defined]
    assert "writes 2 bundled competitions" in capsys.readouterr().err
    observation, info = env.reset(seed=0)
    assert observation and info["competition"] in few
    gym.make("wmrl/MLEDojo-v0")
    assert capsys.readouterr().err == "", "they are there now"


def test_where_nothing_can_be_played_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompetitionError, match=r"none is prepared in .*\n.*wmrl competitions prepare"):
        MLEDojoEnv(data_root=tmp_path)
    with pytest.raises(CompetitionError, match="no competition is named"):
        MLEDojoEnv([], tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WMRL_DATA_ROOT", str(tmp_path / "file" / "below"))
    with pytest.raises(CompetitionError, match=r"cannot be written .*\n.*WMRL_DATA_ROOT"):
        MLEDojoEnv()


def test_an_environment_travels_to_another_process(data_root: Path) -> None:
    env = make(data_root, 0.7)
    observation, _ = env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=0)[0] == observation


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_several_at_once_say_what_one_says_also_in_processes_of_their_own(data_root: Path, mode: str) -> None:
    env = gym.make_vec("wmrl/MLEDojo-v0", num_envs=2, vectorization_mode=mode, data_root=str(data_root), max_turns=2)
    try:
        observations, infos = env.reset(seed=0)
        single = [MLEDojoEnv(data_root=data_root, max_turns=2).reset(seed=seed) for seed in (0, 1)]
        assert tuple(observations) == tuple(observation for observation, _ in single)
        assert list(infos["competition"]) == [info["competition"] for _, info in single]
        observations, rewards, *_ = env.step((REQUEST, "no code: \U0001f600"))
        assert "train.csv" in observations[0] and list(rewards) == [0.0, 0.0]
    finally:
        env.close()
