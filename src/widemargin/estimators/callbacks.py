"""Report gap checks to scikit-learn's callbacks.

scikit-learn's callbacks count tasks. A problem is a task with `LEVELS` subtasks. Subtask j is done
when the relative gap is at most tol^(j / LEVELS). So a progress bar moves evenly if the gap falls
geometrically.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from sklearn.base import BaseEstimator

from widemargin.monitor import Record
from widemargin.problem import State

try:
    from sklearn.callback import CallbackContext, CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks, and these do nothing

    class CallbackContext:  # type: ignore[no-redef]
        def call_on_fit_task_begin(self, **_: Any) -> "CallbackContext":
            return self

        def call_on_fit_task_end(self, **_: Any) -> bool:
            return False

        def subcontext(self, **_: Any) -> "CallbackContext":
            return self

    class CallbackSupportMixin:  # type: ignore[no-redef]
        def _init_callback_context(self, **_: Any) -> CallbackContext:
            return CallbackContext()

    def with_callbacks(fit: Callable) -> Callable:
        @wraps(fit)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            return fit(*arguments, **named)  # one frame more, as scikit-learn's

        return wrapped


__all__ = ["LEVELS", "CallbackContext", "CallbackSupportMixin", "GapLevels", "with_callbacks"]

LEVELS = 20


@dataclass
class GapLevels:
    """Reports the progress of one problem to the callbacks of its estimator."""

    estimator: BaseEstimator
    context: CallbackContext  # of this problem
    data: dict[str, Any]  # X, y and metadata, as the callbacks receive them
    attributes: Callable[[State], dict]  # with which a copy of the estimator predicts
    reached: int = 0

    def __post_init__(self) -> None:
        self.context.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def on_check(self, record: Record, state: State) -> bool:
        """Report the levels that are reached for the first time; return whether to stop."""
        relative = record.relative_gap
        tol = self.estimator.tol
        progress = math.log(max(relative, tol)) / math.log(tol) if tol < 1 else 1.0
        level = min(LEVELS, int(LEVELS * max(0.0, progress)))
        stop = False
        while self.reached < level:
            self.reached += 1
            step = self.context.subcontext(task_name="gap level")
            step.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            stop |= self._end(step, state)
        return stop

    def end(self, state: State) -> None:
        """Report that the problem is done."""
        self._end(self.context, state)

    def _end(self, context: CallbackContext, state: State) -> bool:
        return bool(
            context.call_on_fit_task_end(
                estimator=self.estimator,
                reconstruction_attributes=lambda: self.attributes(state),
                **self.data,
            )
        )
