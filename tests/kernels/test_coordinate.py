"""Single steps of coordinate descent."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.kernels.coordinate import _step
from widemargin.kernels.jit import kernel


@kernel
def step(residual, alpha, cost, curvature, loss, overstep):
    return _step(residual, alpha, cost, curvature, loss, overstep)


@settings(max_examples=300)
@given(
    top=st.one_of(st.floats(-1, 1), st.sampled_from([-0.1, -0.01, 0.01, 0.1])),
    where=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, None]),
    cost=st.sampled_from([0.1, 1.0, 3.0]),
    curvature=st.sampled_from([1e-3, 0.2, 1.3]),
    bend=st.sampled_from([0.0, 0.5]),
    eps=st.sampled_from([0.0, 0.1, 1.0]),
    overstep=st.sampled_from([1.0, 1.3, 1.9]),
)
def test_a_longer_step_gains(top, where, cost, curvature, bend, eps, overstep):
    """A fuzzer's find: a step beyond the kink at zero may lose, and visits went in circles."""
    loss = (-0.5, 1.0, bend, eps) if eps else (-0.5, 1.0, bend)
    alpha = 0.0 if where is None else cost * (1.5 * where - 0.5)
    # The dual is highest at `top` times the cost.
    residual = bend / cost * alpha + (curvature + bend / cost) * (cost * top - alpha)
    residual += eps * np.sign(top)
    after, gain, gap, *_ = step(residual, alpha, cost, curvature, loss, overstep)

    def dual(a):
        """The dual along this variable, less what does not depend on it."""
        terms = residual * (a - alpha) - eps * abs(a) - bend / cost * (a * a - alpha**2) / 2.0
        # `residual` is the slope at alpha of all but the row's own terms of a^2 and |a|.
        return terms - 0.5 * curvature * (a - alpha) ** 2

    assert -0.5 * cost <= after <= cost
    slack = 1e-12 * (1.0 + abs(residual)) * cost
    np.testing.assert_allclose(gain, dual(after) - dual(alpha), rtol=1e-9, atol=slack)
    assert gain >= -slack
    assert gap >= -slack
    best = max(dual(a) for a in np.linspace(-0.5 * cost, cost, 301))
    assert dual(alpha) + gap >= best - slack
    if overstep == 1.0:
        assert dual(after) >= best - slack
