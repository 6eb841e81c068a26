"""Abstract values: what the analysis knows of each object a script handles, without ever making the object.

A data frame is its columns, their kinds and its number of rows; an array its shape; an estimator its class, its
parameters and what it was fitted on. Everything else is `Unknown`, which never fails a check.
"""

from wmrl_gym.scriptcheck.values.data import Frame
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import constant
from wmrl_gym.scriptcheck.values.scalars import Const

# What is made or read outside of this package; its own files import from where things stand.
__all__ = ["Const", "Estimator", "Frame", "constant"]
