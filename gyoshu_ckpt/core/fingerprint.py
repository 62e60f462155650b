"""What decided a stage's values, by component. For now: the setup cells, the parameters, each stage's source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785

from gyoshu_ckpt.core.manifest import Fingerprint
from gyoshu_ckpt.core.plan import Plan


def of(plan: Plan, parameters: Mapping[str, Any], finished: dict[str, str]) -> Fingerprint:
    """The fingerprint of a checkpoint that covers ``finished`` (stage id to the hash of its source)."""
    return Fingerprint(setup=plan.setup_sha256, params=of_parameters(parameters), stages=finished)


def of_parameters(parameters: Mapping[str, Any]) -> str:
    """A hash that is the same for the same parameters, in whatever order they were given."""
    # repr for the values: 1, 1.0 and "1" are three different parameters, and nan is allowed.
    document = {name: repr(value) for name, value in parameters.items()}
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()
