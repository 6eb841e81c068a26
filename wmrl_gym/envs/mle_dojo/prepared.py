"""Which competitions are there for an environment that was made without naming any."""

from __future__ import annotations

import sys
from pathlib import Path

from wmrl_gym.envs.mle_dojo.competition import CompetitionError, default_data_root


def prepared_competitions(data_root: str | Path | None) -> list[str]:
    """Names of the competitions that lie in a data root, sorted.

    In the default data root (None) the bundled ones are prepared if nothing lies there.

    Raises:
        CompetitionError: if there is none; it says how to prepare some.
    """
    root = Path(data_root).expanduser() if data_root is not None else default_data_root()
    names = _lying_in(root)
    if not names and data_root is None:
        names = _prepare_bundled(root)
    if not names:
        raise CompetitionError(
            f"no competition is named, and none is prepared in {root}\n"
            "  prepare the bundled ones there with `wmrl competitions prepare --data-root ...`, or name the data root\n"
            "  of MLE-Dojo's prepared competitions."
        )
    return names


def _lying_in(root: Path) -> list[str]:
    patterns = ("*/data/private/test_answer.csv", "*/private/test_answer.csv")
    return sorted({path.relative_to(root).parts[0] for pattern in patterns for path in root.glob(pattern)})


def _prepare_bundled(root: Path) -> list[str]:
    from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, MissingSourceError, prepare

    print(f"wmrl_gym: writes {len(CATALOGUE)} bundled competitions to {root}, once; it takes a minute", file=sys.stderr)
    names, missing = [], []
    for name in CATALOGUE:
        try:
            prepare(name, root)
        except MissingSourceError as error:
            missing.append(f"{name}: {error}")
        except OSError as error:
            raise CompetitionError(
                f"the bundled competitions cannot be written to {root}: {error}\n"
                "  set WMRL_DATA_ROOT to a folder of yours."
            ) from error
        else:
            names.append(name)
    if missing:
        print("wmrl_gym: left out, for want of their data:\n  " + "\n  ".join(missing), file=sys.stderr)
    return sorted(names)
