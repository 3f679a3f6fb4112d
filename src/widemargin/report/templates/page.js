// Sorting of tables and the choice of a threshold. Without scripts, the page shows everything else.
document.documentElement.classList.add("scripted");

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const text = row.cells[column].textContent;
    const number = parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const sign = ascending ? 1 : -1;
      const compare = (a, b) =>
        typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
      const rows = [...body.rows];
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
    });
  });
}

for (const chooser of document.querySelectorAll(".chooser")) {
  const data = JSON.parse(chooser.dataset.counts);
  const slider = chooser.querySelector("input[type=range]");
  const line = chooser.querySelector(".chosen");
  const ratio = (part, whole) => (whole > 0 ? (part / whole).toFixed(4) : "–");
  const cost = (which) => Math.max(0, Number(chooser.querySelector(`[data-cost=${which}]`).value));
  const total = (i) =>
    cost("false_positive") * data.false_positives[i] +
    cost("false_negative") * (data.n_positive - data.true_positives[i]);
  const show = () => {
    const i = Number(slider.value);
    const tp = data.true_positives[i];
    const fp = data.false_positives[i];
    const tn = data.n_negative - fp;
    const values = {
      threshold: data.thresholds[i].toPrecision(3),
      exact: String(data.thresholds[i]),
      true_positives: tp.toLocaleString("en"),
      false_positives: fp.toLocaleString("en"),
      false_negatives: (data.n_positive - tp).toLocaleString("en"),
      true_negatives: tn.toLocaleString("en"),
      precision: ratio(tp, tp + fp),
      recall: ratio(tp, data.n_positive),
      f1: ratio(2 * tp, data.n_positive + tp + fp),
      false_positive_rate: ratio(fp, data.n_negative),
      accuracy: ratio(tp + tn, data.n_positive + data.n_negative),
      cost: total(i).toLocaleString("en"),
    };
    for (const place of chooser.querySelectorAll("[data-shows]")) {
      place.textContent = values[place.dataset.shows];
    }
    slider.setAttribute("aria-valuetext", values.threshold);
    line.setAttribute("transform", `translate(${data.x[i] - data.x[data.chosen]} 0)`);
  };
  chooser.addEventListener("input", show);
  chooser.querySelector("button").addEventListener("click", () => {
    let best = 0;
    data.thresholds.forEach((_, i) => { if (total(i) < total(best)) best = i; });
    slider.value = best;
    show();
  });
  show();
}
