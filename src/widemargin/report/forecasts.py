"""Charts of predicted numbers beside the true ones."""

import numpy as np

from widemargin.report.charts import REFERENCE, Axis, Chart, Curve, line_chart
from widemargin.report.measures import Forecast
from widemargin.report.scales import Scale, linear

_MOST_BINS = 20
# Bins with fewer rows would show noise.
_FEWEST_ROWS_PER_BIN = 10
# Steps of the curve of errors.
_STEPS = 200
# Beyond it the curve of errors shows a few rows that would take all its room.
_LARGEST_QUANTILE = 0.99
_UNIT = Scale(0.0, 1.0)


def forecast_charts(forecast: Forecast) -> list[Chart]:
    """Return how true targets rise with the prediction, and how large errors are.

    Predicted quantiles are no targets: the distance between them is no error.
    """
    charts = [_by_prediction(forecast)]
    if forecast.quantile is None:
        charts.append(_by_error(forecast))
    return [chart for chart in charts if chart is not None]


def _by_prediction(forecast: Forecast) -> Chart | None:
    """Return the true targets of bins of rows with about the same prediction; None for few."""
    n_bins = min(_MOST_BINS, forecast.true.size // _FEWEST_ROWS_PER_BIN)
    if n_bins < 3:
        return None
    order = np.argsort(forecast.predicted, kind="stable")
    bins = np.array_split(order, n_bins)
    predicted = np.array([forecast.predicted[rows].mean() for rows in bins])
    quantile = forecast.quantile or 0.5
    low, middle, high = np.array(
        [np.quantile(forecast.true[rows], [0.1, quantile, 0.9]) for rows in bins]
    ).T
    what = f"{100.0 * quantile:g} % quantile" if quantile != 0.5 else "median"

    def tooltip(predicted: float, middle: float) -> str:
        return f"predicted {predicted:.4g}, {what} of the true targets {middle:.4g}"

    ends = np.array([predicted[0], predicted[-1]])
    return line_chart(
        "True and predicted",
        [
            Curve(ends, ends, "as predicted", REFERENCE),
            Curve(predicted, middle, f"{what} of the true targets", "s1", tooltip, (low, high)),
        ],
        Axis(linear(predicted), "prediction"),
        Axis(linear(low, high, ends), "true target"),
        summary=f"The {what} is {middle[0]:.4g} in the lowest bin and {middle[-1]:.4g} in "
        "the highest.",
        note="Bins of equally many rows. The area holds four of five rows of each bin.",
    )


def _by_error(forecast: Forecast) -> Chart | None:
    """Return the fraction of rows whose error is no larger than x; None without errors."""
    errors = np.sort(np.abs(forecast.true - forecast.predicted))
    constant = np.sort(np.abs(forecast.true - np.median(forecast.true)))
    widest = float(np.quantile(constant, _LARGEST_QUANTILE)) or float(errors[-1])
    if widest == 0.0:
        return None
    at = np.linspace(0.0, widest, _STEPS)
    of_model, of_constant = (
        np.searchsorted(sizes, at, side="right") / sizes.size for sizes in (errors, constant)
    )
    half = float(np.median(errors))
    return line_chart(
        "Sizes of errors",
        [
            Curve(at, of_constant, "the median of these rows, for every row", REFERENCE),
            Curve(at, of_model, "this model", "s1"),
        ],
        Axis(linear(at, low=0.0, high=widest), "error, in the units of the target"),
        Axis(_UNIT, "fraction of rows with no larger error"),
        summary=f"Half of the rows have an error of at most {half:.4g}.",
        note=f"Half of the rows have an error of at most {half:.4g}.",
    )
