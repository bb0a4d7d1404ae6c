"""Validates trajectories in ATIF with the packages `atif` and `harbor`; prints what they read as JSON lines."""

import json
import sys

import atif
from harbor.utils.trajectory_validator import TrajectoryValidator

for path in sys.argv[1:]:
    with open(path) as file:
        text = file.read()
    read = atif.Trajectory.model_validate_json(text)
    validator = TrajectoryValidator()
    valid = validator.validate(path)
    calls = sum(len(step.tool_calls or []) for step in read.steps)
    results = sum(len(step.observation.results) for step in read.steps if step.observation)
    print(json.dumps({"valid": valid, "errors": validator.errors, "calls": calls, "results": results}))
