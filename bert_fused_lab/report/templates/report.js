"use strict";
const maps = JSON.parse(document.getElementById("maps").textContent);

function element(name, text, parent, attributes) {
  const made = document.createElement(name);
  made.textContent = text;
  Object.entries(attributes || {}).forEach(([key, value]) => made.setAttribute(key, value));
  if (parent) parent.append(made);
  return made;
}

function titleOf(map) {
  return map.run + ": attention to " + (map.kind === "BERT" ? "BERT" : "the source") + ", in %";
}

function heatTable(map, layer) {
  const table = element("table", "", null, { class: "heat", "aria-label": titleOf(map) });
  const head = element("tr", "", element("thead", "", table));
  element("td", "", head);
  map.columns.forEach((word) => element("th", word, head, { scope: "col", dir: "auto" }));
  const body = element("tbody", "", table);
  map.rows.forEach((word, i) => {
    const row = element("tr", "", body);
    element("th", word, row, { scope: "row", dir: "auto" });
    map.percent[layer][i].forEach((percent) => {
      const cell = element("td", percent || "", row, percent > 55 ? { class: "strong" } : {});
      cell.style.setProperty("--share", percent / 100);
    });
  });
  return table;
}

function mapView(map) {
  const view = element("section", "", null, { class: "map" });
  const title = titleOf(map);
  element("h5", title, view);
  const place = element("div", "", null, { class: "scroll", role: "region", tabindex: "0", "aria-label": title });
  const layers = [...map.percent.keys()].filter((number) => map.percent[number]);
  const last = layers[layers.length - 1];
  if (layers.length > 1) {
    const label = element("label", "decoder layer ", view);
    const select = element("select", "", label);
    layers.forEach((number) => element("option", number + 1, select, { value: number }));
    select.value = last;
    select.addEventListener("change", () => show(Number(select.value)));
  }
  const warning = element("p", "", null);
  const show = (layer) => {
    place.replaceChildren(heatTable(map, layer));
    warning.textContent = map.too_even[layer] || "";
    warning.hidden = !warning.textContent;
  };
  show(last);
  view.append(place, warning);
  if (map.alignment) element("p", "alignment (source-target, last layer): ", view).append(element("code", map.alignment));
  return view;
}

document.querySelectorAll(".example button").forEach((button) => {
  button.addEventListener("click", () => {
    const place = button.closest(".example").querySelector(".maps");
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    place.hidden = open;
    if (open || place.hasChildNodes()) return;
    const runs = JSON.parse(button.dataset.runs);
    const found = maps[button.dataset.number].filter((map) => runs.includes(map.run));
    found.forEach((map) => place.append(mapView(map)));
    if (!found.length) element("p", "These models have no attention to show.", place);
  });
});
