"""A model as one C file without dependencies."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin.data.category_columns import Category
from widemargin.data.columns import Encoder, Number
from widemargin.data.date_columns import PART_RANGES, Date

if TYPE_CHECKING:
    from widemargin.model_io.exports import Linear

_SEARCH = """
/* The place of a text among n sorted texts, or -1. */
static int widemargin_find(const char *text, const char *const *texts, int n)
{
    int low = 0, high = n - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(text, texts[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}
"""
_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "  # noqa: SIM905
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while".split()
)


def c_code(linear: "Linear") -> str:
    """Return C code that scores rows and predicts labels."""
    return "\n".join(_parts(linear)) + "\n"


def _parts(linear: "Linear") -> Iterator[str]:
    n_scores, n_features = linear.weights.shape
    yield (
        "/* A linear model, written by widemargin. Call widemargin_scores for the scores of a row"
        + (", and widemargin_predict for the place of its label. */" if linear.classes else ". */")
    )
    yield "#include <math.h>"
    yield "#include <string.h>"
    yield f"\n#define WIDEMARGIN_SCORES {n_scores}"
    if linear.classes:
        yield f"#define WIDEMARGIN_CLASSES {len(linear.classes)}"
        labels = ", ".join(_text(str(label)) for label in linear.classes)
        yield f"\nstatic const char *const widemargin_labels[] = {{{labels}}};"
    yield f"\nstatic const double widemargin_weights[{n_features}][WIDEMARGIN_SCORES] = {{"
    for weights in linear.weights.T.tolist():
        yield "    {" + ", ".join(map(_number, weights)) + "},"
    yield "};"
    intercepts = ", ".join(map(_number, linear.intercepts.tolist()))
    yield f"static const double widemargin_intercepts[] = {{{intercepts}}};"
    if linear.columns is None:
        yield from _numbered(n_features)
        argument = "const double *row"
    else:
        yield from _of_table(linear.columns)
        argument = "const struct widemargin_row *row"
    if linear.classes:
        yield from _prediction(linear, argument)


def _numbered(n_features: int) -> Iterator[str]:
    yield f"""
/* Scores of a row of {n_features} features. */
static void widemargin_scores(const double *row, double *scores)
{{
    int j, k;
    for (k = 0; k < WIDEMARGIN_SCORES; k++)
        scores[k] = widemargin_intercepts[k];
    for (j = 0; j < {n_features}; j++)
        for (k = 0; k < WIDEMARGIN_SCORES; k++)
            scores[k] += row[j] * widemargin_weights[j][k];
}}"""


def _of_table(columns: list[Encoder]) -> Iterator[str]:
    names = _identifiers([name for column in columns for name in column.inputs()])
    fields = [[names.pop(0) for _ in column.inputs()] for column in columns]
    yield "\n/* A row of the table. A missing number is NAN, a missing text is NULL. */"
    yield "struct widemargin_row {"
    for column, its_fields in zip(columns, fields):
        yield from _declared(column, its_fields)
    yield "};"
    if any(isinstance(column, Category) for column in columns):
        yield _SEARCH
    for number, column in enumerate(columns):
        if isinstance(column, Category):
            levels = ", ".join(map(_text, column.levels))
            yield f"static const char *const widemargin_levels_{number}[] = {{{levels}}};"
    yield """
/* Add a feature to the scores. */
static void widemargin_add(double value, int feature, double *scores)
{
    int k;
    for (k = 0; k < WIDEMARGIN_SCORES; k++)
        scores[k] += value * widemargin_weights[feature][k];
}

/* Scores of a row. */
static void widemargin_scores(const struct widemargin_row *row, double *scores)
{
    int k, place;
    double value;
    for (k = 0; k < WIDEMARGIN_SCORES; k++)
        scores[k] = widemargin_intercepts[k];
    (void)place, (void)value;"""
    first = 0
    for number, (column, its_fields) in enumerate(zip(columns, fields)):
        its_values = [f"row->{field}" for field in its_fields]
        if isinstance(column, Date):
            yield from _date(column, its_values, first)
        else:
            yield from _column(column, its_values[0], number, first)
        first += len(column.names())
    yield "}"


def _declared(column: Encoder, fields: list[str]) -> Iterator[str]:
    """Yield the fields of the struct for a column."""
    kind = "const char *" if isinstance(column, Category) else "double "
    note = ": days since 1970-01-01, with fractions" if isinstance(column, Date) else ""
    yield f"    {kind}{fields[0]}; /* {_comment(column.name)}{note} */"
    for field, part in zip(fields[1:], column.parts if isinstance(column, Date) else ()):
        yield f"    int {field}; /* {PART_RANGES[part]}, -1 if the date is missing */"


def _date(column: Date, fields: list[str], first: int) -> Iterator[str]:
    """Yield the statements that add the features of a date, from the feature `first` on."""
    yield from _column(column.days, fields[0], 0, first)
    first += len(column.days.names())
    for field, values in zip(fields[1:], column.parts.values()):
        yield f"    switch ({field}) {{"
        for place, value in enumerate(values):
            yield f"    case {value}: widemargin_add(1.0, {first + place}, scores); break;"
        yield "    }"
        first += len(values)


def _column(column: Any, field: str, number: int, first: int) -> Iterator[str]:
    """Yield the statements that add the features of a column, from the feature `first` on."""
    if isinstance(column, Number):
        yield f"    value = isnan({field}) ? {_number(column.fill)} : {field};"
        shifted = f"(value - {_number(column.shift)}) / {_number(column.scale)}"
        yield f"    widemargin_add({shifted}, {first}, scores);"
        if column.gaps:
            yield f"    if (isnan({field}))\n        widemargin_add(1.0, {first + 1}, scores);"
        return
    n_levels = len(column.levels)
    rare = n_levels if column.rare else -1
    missing = n_levels + column.rare if column.gaps else rare
    find = f"widemargin_find({field}, widemargin_levels_{number}, {n_levels})"
    yield f"    place = {field} == NULL ? {missing} : {find};"
    yield f"    if (place < 0 && {field} != NULL)\n        place = {rare};"
    yield f"    if (place >= 0)\n        widemargin_add(1.0, {first} + place, scores);"


def _prediction(linear: "Linear", argument: str) -> Iterator[str]:
    yield "\n/* The place of a row's label in widemargin_labels. */"
    yield f"static int widemargin_predict({argument})\n{{"
    yield "    double scores[WIDEMARGIN_SCORES];"
    if linear.thresholds is None and len(linear.weights) == 1:
        yield "    widemargin_scores(row, scores);\n    return scores[0] > 0.0;\n}"
        return
    yield "    int k, best = 0;"
    if linear.thresholds is not None:
        bounds = ", ".join(map(_number, linear.thresholds.tolist()))
        yield f"    static const double bounds[] = {{{bounds}}};"
        yield "    widemargin_scores(row, scores);"
        yield "    for (k = 0; k < WIDEMARGIN_CLASSES - 1; k++)"
        yield "        best += scores[0] > bounds[k];"
    else:
        yield "    widemargin_scores(row, scores);"
        yield "    for (k = 1; k < WIDEMARGIN_SCORES; k++)"
        yield "        if (scores[k] > scores[best])\n            best = k;"
    yield "    return best;\n}"


def _number(value: float) -> str:
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _text(text: str) -> str:
    """Return a C string; bytes that are not plain ASCII, and quotes, as octal numbers."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return '"' + "".join(plain) + '"'


def _comment(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")


def _identifiers(names: list[str]) -> list[str]:
    """Return distinct C identifiers for names of columns."""
    found: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name, flags=re.ASCII).lower() or "_"
        if word[0].isdigit() or word in _KEYWORDS:
            word = f"_{word}"
        unique, number = word, 2
        while unique in found:
            unique, number = f"{word}_{number}", number + 1
        found.append(unique)
    return found
