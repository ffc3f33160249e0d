"use strict";

// Words of the data (names of models, tokens) may be anything.  They reach the page as text nodes only, and the plots
// through `plain`, because the plotting library reads a few tags in its labels.

const RANDOM = "random";
const REFERENCE = "reference";
const PERCENT = 100; // scores are shown as in the literature, from 0 to 100
const MODELS_LISTED = 50;
const ROWS_LISTED = 300;
const LINE_LIMIT = 40; // points of a suite and variant beyond which a line through them says nothing
const NAME_LENGTH = 48; // characters of a name beside a point
const WIDTHS_NAMED = 12; // widths beyond which the axis names powers of two instead
const FEW_DECADES = 1000; // ratio below which powers of ten alone are too few ticks
const SHARES_WRITTEN = 16; // layers beyond which the shares in a confusion matrix would be too small to read
const ALL_LAYERS = "";
const AXES = {
  width: "width (columns of the table)",
  tokens: "tokens of training",
  parameters: "parameters of the model",
  table_share: "share of parameters in the table",
};
const MEASURES = { score: "score", difference: "difference from random tables of the same width" };
const BESIDE = {
  intervals: "95 % intervals",
  random: "random tables, lowest to highest draw",
  reference: "methods that need no table",
};
const VECTORS = { include: "with special tokens", exclude: "without special tokens" };
// Readers' names of what the rows call by a short word; a word that is not here is shown as it is.
const WORDS = {
  reduction: { pca: "PCA", tsne: "t-SNE", umap: "UMAP" },
  scaling: { raw: "as they are", unit: "scaled to norm 1", outlier_removed: "without outlier dimensions" },
  layers: { all: "all layers", blocks: "blocks only" },
  classifier: { logistic_regression: "logistic regression", sgd: "stochastic gradient descent", lda: "linear discriminant analysis",
    decision_tree: "decision tree", nearest_centroid: "nearest centroid", norm_only: "norm only", position_only: "position only",
    majority: "most frequent layer" },
  split: { text: "texts", token: "token types", vector: "vectors" },
  input: { raw: "as they are", unit: "scaled to norm 1", mean_removed: "mean of each layer removed",
    layer_normed: "layer-normalised", z_scored: "standardised" },
  control: { none: "none", gaussian: "random, same means and variances", scalar_norm: "random, same norms",
    study_random: "random, as published" },
};
const TICKS_NAMED = 7; // numbers of tokens that are named below an axis
const KEY_LENGTH = 12; // lines that are named below a plot
const ZOOM_STEP = 1.5;
const PICTURE = { width: 1000, height: 700 }; // of a downloaded plot
// The plotting library's markers, for the lists beside the plot.
const SHAPES = {
  circle: "M8 2a6 6 0 1 0 .01 0z",
  square: "M3 3h10v10H3z",
  diamond: "M8 1l7 7-7 7-7-7z",
  "triangle-up": "M8 2l7 12H1z",
  "triangle-down": "M8 14L1 2h14z",
  cross: "M6 1h4v5h5v4h-5v5H6v-5H1V6h5z",
  star: "M8 .5l2 5.3 5.6.2-4.4 3.5 1.5 5.5L8 11.9 3.3 15l1.5-5.5L.4 6 6 5.8z",
  x: "M3.5 1L8 5.5 12.5 1 15 3.5 10.5 8l4.5 4.5-2.5 2.5L8 10.5 3.5 15 1 12.5 5.5 8 1 3.5z",
};

const payload = JSON.parse(byId("payload").textContent);
const scores = frame(payload.scores);
const facts = frame(payload.facts);
const means = frame(payload.means);
const queries = payload.queries && frame(payload.queries);
const layers = Object.fromEntries(Object.entries(payload.layers).map(([name, part]) => [name, part && frame(part)]));

const LISTS = ["suite", "variant", "beside"];
let state = {};
const asked = new Set(); // keys that the address gave
let unknown = [];
let library = null;
let typing = null; // the field that the last change was made in, if it is one that changes with every key
const modelNames = new Map(payload.models.map(({ key, name }) => [key, name]));
const modelWidths = new Map(payload.models.map(({ key, width }) => [key, width]));
const modelOrder = new Map(payload.models.map(({ key }, place) => [key, place]));

// Small tools ------------------------------------------------------------------------------------------

function byId(id) { return document.getElementById(id); }

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element) element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

// The whole name stands in the list; beside a point there is no room for more.
const cut = (text) => (text.length > NAME_LENGTH ? `${text.slice(0, NAME_LENGTH)}…` : text);

const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 6 });
const signed = (text, value) => `${value > 0 ? "+" : ""}${text}`.replace("-", "\u2212");
const percent = (value) => (value * PERCENT).toFixed(2);
// A score, or a difference with its sign; where there is no interval, none is shown.
function interval(row) {
  const form = row.measure === "difference" ? (value) => signed(percent(value), value) : percent;
  return row.ci_low === null ? form(row.value) : `${form(row.value)} [${form(row.ci_low)}, ${form(row.ci_high)}]`;
}
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const several = (count, word, words = `${word}s`) => `${number(count)} ${count === 1 ? word : words}`;

function style(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// All values of a column that came as values, as places in a list, or as runs of the same place.
function unpacked({ levels, codes, runs, values }) {
  if (values) return values;
  if (codes) return codes.map((code) => levels[code]);
  const found = [];
  for (let i = 0; i < runs.length; i += 2) for (let n = 0; n < runs[i + 1]; n++) found.push(levels[runs[i]]);
  return found;
}

// Rows of a table that came column by column.
function frame({ count, columns }) {
  const full = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, unpacked(column)]));
  const value = (name, row) => full[name][row];
  const rows = Array.from({ length: count }, (_, row) => row);
  return {
    has: (name) => name in columns,
    row: (row) => Object.fromEntries(Object.keys(columns).map((name) => [name, value(name, row)])),
    where: (test) => rows.filter((row) => test((name) => value(name, row))),
    levels: (name, among = rows) => [...new Set(among.map((row) => value(name, row)))],
    distinct: (words, among = rows) => [...new Set(among.map((row) => words((name) => value(name, row))))],
  };
}

// Address ----------------------------------------------------------------------------------------------

// The address alone says what is shown: what it leaves out is as at first.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = {};
  asked.clear();
  for (const key of new Set(given.keys())) {
    asked.add(key);
    state[key] = LISTS.includes(key) ? new Set(given.getAll(key).filter(Boolean)) : given.get(key);
  }
  if (!["tables", "layers"].includes(state.view)) state.view = "tables";
}

function address(view) {
  const written = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...state, view })) {
    if (value instanceof Set) (value.size ? [...value] : [""]).forEach((one) => written.append(key, one));
    else if (value) written.set(key, value);
  }
  return `#${written}`;
}

// Keep a choice if it can be made, else take `first`, or whatever comes first.
function settle(key, possible, first) {
  if (!possible.includes(state[key])) {
    if (asked.has(key) && state[key]) unknown.push(`${key} “${state[key]}”`);
    state[key] = possible.includes(first) ? first : possible[0];
  }
}

function settleList(key, possible, first) {
  if (!state[key]) state[key] = new Set(first);
  for (const value of [...state[key]]) {
    if (possible.includes(value)) continue;
    if (asked.has(key)) unknown.push(`${key} “${value}”`);
    state[key].delete(value);
  }
}

// Controls ---------------------------------------------------------------------------------------------

// Options of a select: value, label, and whether it can be chosen now.  A menu of one option is not shown.
function offer(key, options, first = undefined) {
  const select = byId(key);
  const open = options.filter((option) => !option.off);
  settle(key, open.map((option) => option.value), first);
  select.replaceChildren(...options.map(({ value, label, off }) =>
    make("option", { value, disabled: Boolean(off), selected: value === state[key] }, label + (off ? ` (${off})` : ""))));
  select.closest(".field").hidden = options.length < 2;
}

const named = (key) => (value) => ({ value, label: WORDS[key]?.[value] ?? value });

function offerList(key, options) {
  const group = byId(key);
  const boxes = options.map(({ value, label, swatch, reason }) => {
    const box = make("input", { type: "checkbox", value, checked: state[key].has(value), disabled: Boolean(reason) });
    box.addEventListener("change", () => {
      state[key][box.checked ? "add" : "delete"](value);
      changed();
    });
    const line = make("label", { className: "choice" }, box, ...(swatch ? [swatch] : []), make("span", {}, label));
    if (reason) line.append(make("span", { className: "reason" }, reason));
    return line;
  });
  // What had the focus before gets it again.
  const focused = group.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = group.querySelector(".choices")?.scrollTop ?? 0;
  const choices = make("div", { className: "choices" }, ...boxes);
  group.querySelectorAll(".choices, .every").forEach((element) => element.remove());
  group.append(choices);
  group.hidden = key !== "beside" && options.length < 2;
  if (key !== "beside" && options.length > 1) group.append(everyOrNone(key, options));
  choices.scrollTop = scrolled;
  if (focused) {
    [...group.querySelectorAll("input, button")]
      .find((element) => element.tagName === focused.tagName && element.value === focused.value)?.focus();
  }
}

function everyOrNone(key, options) {
  const button = (value, words, chosen) => {
    const element = make("button", { type: "button", value, "aria-label": `${words} ${key}s` }, words);
    element.addEventListener("click", () => { state[key] = new Set(chosen); changed(); });
    return element;
  };
  return make("div", { className: "every" },
    button("every", "all", options.map((option) => option.value)), button("none", "none", []));
}

function swatch(symbol, colour, dash = "") {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", dash ? "M0 8h16" : SHAPES[symbol.replace("-open", "")]);
  path.setAttribute("fill", dash || symbol.endsWith("-open") ? "none" : colour);
  path.setAttribute("stroke", colour);
  if (dash) path.setAttribute("stroke-width", 2);
  if (dash) path.setAttribute("stroke-dasharray", dash === "dot" ? "2 3" : "5 3");
  svg.append(path);
  return svg;
}

// Nothing is left out silently: what was chosen and is not there is said in words.
function tell(id, words) {
  const element = byId(id);
  element.textContent = words;
  if (element.classList.contains("message")) element.hidden = !words;
}

function fillTable(table, head, lines) {
  const cell = (tag, { text, title, kind }) =>
    make(tag, { className: kind, ...(title && { title }), ...(tag === "th" && { scope: "col" }) }, text);
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((column) => cell("th", column)))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((content) => cell("td", content))))));
}

const word = (text, title) => ({ text: String(text ?? ""), title, kind: "word" });
const prose = (text, title) => ({ text: String(text ?? ""), title, kind: "text" });
const figure = (text) => ({ text: text === null || text === undefined ? "" : String(text), kind: "number" });

// Plots ------------------------------------------------------------------------------------------------

const dark = () => matchMedia("screen and (prefers-color-scheme: dark)").matches;
const palette = () => payload.means.design.colours[dark() ? "dark" : "light"];
const category = (index) => palette().categories[index % palette().categories.length];

function symbol(index) {
  const symbols = payload.means.design.symbols;
  return symbols[index % symbols.length] + (Math.floor(index / symbols.length) % 2 ? "-open" : "");
}

function layout(xaxis, yaxis) {
  const axis = { gridcolor: style("--line"), linecolor: style("--strong-line"), zeroline: false, automargin: true,
    title: { standoff: 12 } };
  const merged = (own) => ({ ...axis, ...own, title: { ...axis.title, text: own.title ?? "" } });
  return {
    xaxis: merged(xaxis),
    yaxis: merged(yaxis),
    margin: { l: 56, r: 16, t: 12, b: 52 },
    font: { family: style("--sans"), size: 14, color: style("--text") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { align: "left", bgcolor: style("--page"), bordercolor: style("--strong-line"),
      font: { family: style("--sans"), size: 13, color: style("--text") } },
    hovermode: "closest",
    showlegend: false,
    // A finger that drags means to scroll the page.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

const zooms = {}; // by plot and axis: what the axis shows, and the part of it that a reader chose

// The axes' names say what they show: as long as an axis shows the same, its part that is shown stays.
function plot(id, traces, plan, words, axes, onClick) {
  const element = byId(id);
  element.hidden = traces.length === 0;
  element.setAttribute("aria-label", words);
  const tools = byId(`${id.replace("-plot", "")}-tools`);
  if (tools) tools.hidden = traces.length === 0;
  if (!library || !traces.length) return;
  zooms[id] ??= {};
  for (const axis of ["xaxis", "yaxis"]) {
    const kept = zooms[id][axis];
    if (kept?.of !== axes[axis]) delete zooms[id][axis];
    else Object.assign(plan[axis], { range: kept.range, autorange: false });
  }
  element.dataset.axes = JSON.stringify(axes);
  library.react(element, traces, plan, { displayModeBar: false, responsive: true, doubleClick: "autosize" });
  if (element.dataset.listens) return;
  element.dataset.listens = "yes";
  if (onClick) element.on("plotly_click", (event) => onClick(event.points[0]));
  element.on("plotly_relayout", (event) => {
    const shown = JSON.parse(element.dataset.axes);
    for (const axis of ["xaxis", "yaxis"]) {
      if (event[`${axis}.autorange`]) delete zooms[id][axis];
      else if (`${axis}.range[0]` in event || `${axis}.range` in event) {
        zooms[id][axis] = { of: shown[axis], range: [...element.layout[axis].range] };
      }
    }
  });
}

function zoom(id, factor) {
  const element = byId(id);
  const part = ([from, to]) => {
    const [middle, half] = [(from + to) / 2, (to - from) / 2 / factor];
    return [middle - half, middle + half];
  };
  const { xaxis, yaxis } = element._fullLayout;
  library.relayout(element, factor
    ? { "xaxis.range": part(xaxis.range), "yaxis.range": part(yaxis.range) }
    : { "xaxis.autorange": true, "yaxis.autorange": byId(id).layout.yaxis.autorange === "reversed" ? "reversed" : true });
}

function button(label, words, act) {
  const element = make("button", { type: "button", "aria-label": label, title: label }, words);
  element.addEventListener("click", act);
  return element;
}

const offerRows = (name) =>
  button("Download the rows shown as CSV", "CSV", () => save(new Blob([csv(shownRows[name])], { type: "text/csv" }), name, "csv"));

// The buttons below a plot; a finger has no other way to zoom.
function offerTools(name) {
  const id = `${name}-plot`;
  byId(`${name}-tools`).replaceChildren(
    button("Zoom in", "+", () => zoom(id, ZOOM_STEP)), button("Zoom out", "\u2212", () => zoom(id, 1 / ZOOM_STEP)),
    button("Show the whole plot", "whole plot", () => zoom(id, 0)),
    offerRows(name),
    button("Download the plot as PNG", "PNG", () => saveImage(name, "png")),
    button("Download the plot as SVG", "SVG", () => saveImage(name, "svg")));
}

// Downloads --------------------------------------------------------------------------------------------

const shownRows = {}; // by plot: the rows that are drawn, with the names and values of the files that they come from

// A text that a spreadsheet would take for a formula gets the apostrophe that marks it as text; numbers stay numbers.
function asText(value) {
  return /^[=+@\t\r-]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
}

// A table of comma-separated values with all columns that any of the rows has.
function csv(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const line = (cells) => cells.map((value) => cell(value === null || value === undefined ? "" : asText(String(value)))).join(",");
  return `${[line(names), ...rows.map((row) => line(names.map((name) => row[name])))].join("\n")}\n`;
}

function save(blob, name, ending) {
  const words = state.view === "tables" ? [state.task, state.metric, state.measure, state.x] : [state.model];
  const link = make("a", { href: URL.createObjectURL(blob), download: `${[name, ...words].join("-").replace(/[^\w.-]+/g, "-")}.${ending}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// The plot as it is, zoom and colours included, with the names of its lines, which the page shows below it.
async function saveImage(name, format) {
  const element = byId(`${name}-plot`);
  const [width, height] = [PICTURE.width, PICTURE.height];
  const data = element.data.map((trace) => ({ ...trace, ...(trace.meta && { name: plain(cut(trace.meta)) }) }));
  const words = element.getAttribute("aria-label").split(": ")[0];
  const plan = { ...element.layout, width, height, paper_bgcolor: style("--page"), showlegend: data.length > 1,
    legend: { orientation: "h", traceorder: "normal", y: -0.16, yanchor: "top" }, margin: { l: 64, r: 24, t: 48, b: 140 },
    title: { text: plain(words), font: { size: 15 }, x: 0.02, xanchor: "left" } };
  const address = await library.toImage({ data, layout: plan }, { format, width, height, scale: format === "png" ? 2 : 1 });
  save(await (await fetch(address)).blob(), name, format);
}

// What the lines and marks are; of many lines the first.
function fillKey(id, entries) {
  const shown = entries.slice(0, KEY_LENGTH).map(({ symbol: shape, colour, dash, words }) =>
    make("li", {}, swatch(shape, colour, dash), make("span", {}, words)));
  if (entries.length > KEY_LENGTH) shown.push(make("li", {}, `and ${number(entries.length - KEY_LENGTH)} more`));
  byId(id).replaceChildren(...shown);
}

// Embedding tables -------------------------------------------------------------------------------------

const vectorsOf = (get) => `${get("pooling")}, special tokens ${get("special_tokens")}d`;
const vectorWords = (get) => `${get("pooling")} of its tokens, ${VECTORS[get("special_tokens")] ?? get("special_tokens")}`;
const modelKey = (row) => `${row.suite}/${row.model}`;
const modelName = (key) => modelNames.get(key) ?? key;
const suiteName = (suite) => payload.means.suites[suite] ?? suite;
const variantName = (label) => payload.means.variants[label] ?? label;
const factsOf = new Map(facts.where(() => true).map((row) => [modelKey(facts.row(row)), facts.row(row)]));
const allSuites = Object.keys(payload.means.suites);
const allVariants = Object.keys(payload.means.variants);
const keyOfMean = (get) => `${get("suite")}/${get("model")}`;
// Models whose tokens of training are known: they have a place on that axis, and the slider moves them.
const followed = new Set(means.distinct(keyOfMean, means.where((get) => get("tokens") !== null)));
const followedSuites = new Set(means.levels("suite", means.where((get) => get("tokens") !== null)));
const allTokens = means.levels("tokens", means.where((get) => get("tokens") !== null)).sort((a, b) => a - b);
const firstTokens = allTokens.find((tokens) => tokens > 0) ?? 1;

// Tokens on a logarithmic axis, and none at all to the left of the first.
const placeOfTokens = (tokens) => (tokens > 0 ? tokens : firstTokens / 3);

function xOf(row) {
  if (state.x === "width") return row.width;
  if (state.x === "tokens") return row.tokens === null ? null : placeOfTokens(row.tokens);
  return factsOf.get(modelKey(row))?.[state.x] ?? null;
}

// With one suite a colour is a variant; with several it is a suite, and the shape alone is the variant.  Along the
// tokens of training it is the width, as in the report.
const byVariant = () => state.suite.size < 2;
const byWidth = () => state.x === "tokens";
const colourOf = ({ suite, label, width }) => byWidth() ? palette().widths[width] ?? palette().reference
  : byVariant() ? palette().variants[label] : palette().suites[suite];
const symbolOf = (label) => symbol(allVariants.indexOf(label));

function offerTables() {
  const taken = (values) => values.map((value) => ({ value, label: value }));
  offer("task", taken(means.levels("task").sort()));
  const ofTask = means.where((get) => get("task") === state.task);
  offer("measure", means.levels("measure", ofTask).map((value) => ({ value, label: MEASURES[value] })), "score");
  offer("metric", means.levels("metric", ofTask).map((value) => ({ value, label: payload.scores.metrics[value] ?? value })),
    payload.scores.first_metric);
  const vectors = means.distinct((get) => JSON.stringify([vectorsOf(get), vectorWords(get)]), ofTask).map((pair) => JSON.parse(pair));
  offer("vectors", vectors.sort().map(([value, label]) => ({ value, label })));
  const known = { width: true, tokens: allTokens.length > 1, parameters: factsOf.size > 0, table_share: factsOf.size > 0 };
  offer("x", Object.entries(AXES).filter(([value]) => known[value]).map(([value, label]) => ({ value, label })));
  settleList("suite", allSuites, allSuites);
  settleList("variant", allVariants, payload.means.first_variants);
  settleList("beside", Object.keys(BESIDE), ["intervals", "random"]);
  offerTokens();
  offerList("suite", allSuites.map((value) => ({ value, label: suiteName(value),
    swatch: byVariant() || byWidth() ? null : swatch("circle", colourOf({ suite: value })) })));
  offerList("variant", allVariants.map((value) => ({ value, label: variantName(value),
    swatch: swatch(symbolOf(value), byVariant() && !byWidth() ? colourOf({ label: value }) : style("--text")) })));
  const reasons = state.measure === "difference" ? { random: "are the line at zero", reference: "have no such difference" }
    : { random: ["width", "tokens"].includes(state.x) ? "" : "have no such axis", reference: "" };
  offerList("beside", Object.entries(BESIDE).map(([value, label]) => ({ value, label, reason: reasons[value] })));
  if (byId("search").value !== (state.search ?? "")) byId("search").value = state.search ?? "";
}

// A place of the slider for each number of tokens; the last is the end of each model's training.
function offerTokens() {
  settle("tokens", ["", ...allTokens.map(String)], "");
  const slider = byId("tokens");
  const last = allTokens.length - 1;
  const place = state.tokens === "" ? last : allTokens.indexOf(Number(state.tokens));
  slider.max = Math.max(last, 0);
  slider.value = place;
  const words = state.tokens === "" ? "end of training" : `${compact.format(allTokens[place])} tokens`;
  byId("tokens-value").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  byId("tokens-field").hidden = last < 1 || byWidth()
    || ![...followedSuites].some((suite) => state.suite.has(suite));
}

const inView = (get) =>
  get("task") === state.task && get("metric") === state.metric && vectorsOf(get) === state.vectors;

function atCheckpoint(get) {
  if (byWidth()) return get("tokens") !== null || get("last");
  if (state.tokens === "" || !followed.has(keyOfMean(get))) return get("last");
  return get("tokens") === Number(state.tokens);
}

function shownMeans() {
  const wanted = (state.search ?? "").toLowerCase();
  const found = (get) => get("model").toLowerCase().includes(wanted) || modelName(keyOfMean(get)).toLowerCase().includes(wanted);
  return means.where((get) => get("measure") === state.measure && inView(get) && state.suite.has(get("suite"))
    && state.variant.has(get("label")) && atCheckpoint(get) && found(get)).map((row) => means.row(row));
}

const over = (row) => `${several(row.runs, "training run")} and ${several(row.n, "query", "queries")}`;

function hoverOf(row) {
  const name = modelName(modelKey(row));
  const metric = payload.scores.metrics[row.metric];
  return [
    `<b>${plain(cut(name))}</b>${name === row.model ? `, ${plain(cut(suiteName(row.suite)))}` : ""}`,
    plain(variantName(row.label)) + (row.tokens === null ? "" : `, after ${compact.format(row.tokens)} tokens`),
    row.measure === "difference"
      ? `${metric}: ${percent(row.score)}, random tables ${percent(row.control_score)}<br>difference ${interval(row)}`
      : `${metric}: ${interval(row)}`,
    `95 % interval over ${over(row)}`,
  ].join("<br>");
}

// Several variants, suites or models are named; what all lines share is not.
function seriesName({ suite, label, model }) {
  const words = byWidth() ? [modelName(`${suite}/${model}`)] : byVariant() ? [] : [suiteName(suite)];
  if (!words.length || state.variant.size > 1) words.push(variantName(label));
  return words.join(": ");
}

function scoreTraces(rows) {
  const groups = Map.groupBy(rows, (row) => JSON.stringify([row.suite, row.label, byWidth() ? row.model : ""]));
  const order = (row) => modelOrder.get(modelKey(row));
  return [...groups.values()].map((group) => {
    const sorted = group.toSorted((a, b) => xOf(a) - xOf(b) || order(a) - order(b));
    const [{ suite, label, model }] = sorted;
    const shade = colourOf(sorted[0]);
    return {
      type: "scatter",
      name: plain(byWidth() ? `${suite} ${model} ${label}` : `${suite} ${label}`),
      meta: seriesName(sorted[0]),
      mode: sorted.length > LINE_LIMIT ? "markers" : "lines+markers",
      x: sorted.map(xOf),
      y: sorted.map((row) => row.value * PERCENT),
      error_y: {
        visible: state.beside.has("intervals"), type: "data", symmetric: false, width: 0, thickness: 1.4, color: shade,
        array: sorted.map((row) => (row.ci_low === null ? 0 : (row.ci_high - row.value) * PERCENT)),
        arrayminus: sorted.map((row) => (row.ci_low === null ? 0 : (row.value - row.ci_low) * PERCENT)),
      },
      line: { color: shade, width: 2 },
      marker: { color: shade, symbol: symbolOf(label), size: 9, line: { color: shade, width: 1.5 } },
      hoverinfo: "text",
      text: sorted.map(hoverOf),
      customdata: sorted.map(modelKey),
    };
  }).sort((a, b) => modelOrder.get(a.customdata[0]) - modelOrder.get(b.customdata[0]));
}

function chosenTrace(rows) {
  const chosen = rows.filter((row) => modelKey(row) === state.chosen);
  return {
    type: "scatter", name: "chosen", mode: "markers", hoverinfo: "skip", showlegend: false,
    x: chosen.map(xOf), y: chosen.map((row) => row.value * PERCENT),
    marker: { symbol: "circle-open", size: 18, color: style("--text"), line: { width: 2 } },
  };
}

// Random tables of the tokenizers, treatments and widths shown, draw by draw.
function randomRows(shown) {
  if (!state.beside.has(RANDOM) || state.measure !== "score" || !["width", "tokens"].includes(state.x) || !shown.length) return [];
  const tokenizers = new Set(shown.map((row) => row.tokenizer));
  const treatments = new Set(shown.map((row) => row.treatment));
  const widths = new Set(shown.map((row) => row.width));
  const widest = Math.max(...widths);
  return scores.where((get) => get("table") === RANDOM && inView(get) && tokenizers.has(get("tokenizer"))
    && treatments.has(get("treatment")) && (byWidth() ? widths.has(get("width")) : get("width") <= widest))
    .map((row) => scores.row(row));
}

function randomTraces(rows, shown) {
  const groups = Map.groupBy(rows, (row) => JSON.stringify([row.tokenizer, row.variant, byWidth() ? row.width : ""]));
  const tokenizers = new Set(rows.map((row) => row.tokenizer));
  const treatments = new Set(rows.map((row) => row.treatment));
  const name = ({ tokenizer, treatment, width }) => `random tables${byWidth() ? `, ${number(width)} wide` : ""}`
    + (treatments.size > 1 ? `: ${variantName(treatment)}` : "") + (tokenizers.size > 1 ? `, tokenizer ${tokenizer}` : "");
  return [...groups.values()].flatMap((group) => (byWidth() ? levelTrace(group, shown, name(group[0])) : bandTraces(group, name(group[0]))));
}

const drawn = (rows) => {
  const values = rows.map((row) => row.value * PERCENT);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, lowest: Math.min(...values), highest: Math.max(...values), count: values.length };
};
const drawnWords = ({ mean, lowest, highest, count }) => `mean ${mean.toFixed(2)} of ${several(count, "draw")}, `
  + `from ${lowest.toFixed(2)} to ${highest.toFixed(2)}`;

function bandTraces(group, words) {
  const dims = [...Map.groupBy(group, (row) => row.width)].sort(([a], [b]) => a - b);
  const values = dims.map(([, rows]) => drawn(rows));
  const shade = palette().random;
  const [{ variant, tokenizer }] = group;
  const name = plain(`${variant} ${tokenizer}`);
  const shared = { type: "scatter", x: dims.map(([dim]) => dim), hoverinfo: "skip" };
  const edge = { ...shared, mode: "lines", line: { width: 0 }, showlegend: false };
  return [
    { ...edge, name: `${name}, lowest`, y: values.map(({ lowest }) => lowest) },
    { ...edge, name: `${name}, highest`, y: values.map(({ highest }) => highest), fill: "tonexty", fillcolor: faded(shade) },
    {
      ...shared, name, meta: words, mode: "lines", y: values.map(({ mean }) => mean),
      line: { color: shade, dash: "dash", width: 1.5 }, hoverinfo: "text",
      text: dims.map(([dim], i) => `<b>${plain(words)}</b>, tokenizer ${plain(tokenizer)}<br>${several(dim, "column")}: ${drawnWords(values[i])}`),
    },
  ];
}

// Random tables are not trained: along the tokens of training they are level.
function levelTrace(group, shown, words) {
  const places = shown.map(xOf);
  const value = drawn(group);
  const text = `<b>${plain(words)}</b><br>${drawnWords(value)}`;
  return [{
    type: "scatter", name: plain(`${group[0].variant} ${group[0].width}`), meta: words, mode: "lines", showlegend: false,
    x: [Math.min(...places), Math.max(...places)], y: [value.mean, value.mean],
    line: { color: colourOf(group[0]), dash: "dash", width: 1.5 }, hoverinfo: "text", text: [text, text],
  }];
}

const faded = (hex) => `${hex}30`; // a colour as #rrggbb, with a share of 3/16 of its strength

function referenceRows(shown) {
  if (!state.beside.has(REFERENCE) || state.measure !== "score" || !shown.length) return [];
  const tokenizers = new Set(shown.map((row) => row.tokenizer));
  return scores.where((get) => get("suite") === REFERENCE && inView(get) && tokenizers.has(get("tokenizer")))
    .map((row) => scores.row(row));
}

function referenceTraces(rows, shown) {
  const places = shown.map(xOf);
  const ends = [Math.min(...places), Math.max(...places)];
  return rows.map((row) => {
    const name = payload.means.references[row.model] ?? row.model;
    const text = `<b>${plain(cut(name))}</b><br>${payload.scores.metrics[row.metric]}: ${interval(row)}`;
    return {
      type: "scatter", name: plain(`${row.model} ${row.tokenizer}`), meta: name, mode: "lines+text", x: ends, showlegend: false,
      y: ends.map(() => row.value * PERCENT), line: { color: palette().reference, dash: "dot", width: 1.5 },
      text: [text, text], hoverinfo: "text", texttemplate: [plain(cut(name)), ""],
      textposition: "top right", textfont: { color: style("--muted"), size: 12 },
    };
  });
}

// Of a difference: where random tables are.
function zeroTrace(shown) {
  const places = shown.map(xOf);
  return {
    type: "scatter", name: "zero", meta: "random tables", mode: "lines", hoverinfo: "skip",
    x: [Math.min(...places), Math.max(...places)], y: [0, 0], line: { color: palette().random, dash: "dash", width: 1.5 },
  };
}

function tokensAxis(title) {
  const positive = allTokens.filter((tokens) => tokens > 0);
  const apart = Math.ceil(positive.length / TICKS_NAMED);
  const ticks = positive.filter((_, place) => (positive.length - 1 - place) % apart === 0);
  const none = allTokens.includes(0) ? [0] : [];
  return { title, type: "log", tickvals: [...none, ...ticks].map(placeOfTokens), ticktext: [...none, ...ticks].map((n) => compact.format(n)) };
}

function xAxis(shown) {
  const title = AXES[state.x];
  const values = [...new Set(shown.map(xOf))].sort((a, b) => a - b);
  if (state.x === "table_share") return { title, tickformat: ".0%", rangemode: "tozero" };
  if (state.x === "tokens") return tokensAxis(title);
  const powers = (base) => Array.from({ length: 64 }, (_, power) => base ** power);
  if (state.x === "width") {
    const ticks = values.length > WIDTHS_NAMED ? powers(2) : values;
    return { title, type: "log", tickvals: ticks, ticktext: ticks.map(number) };
  }
  const ticks = powers(10).flatMap((power) => (values.at(-1) / values[0] < FEW_DECADES ? [1, 2, 5] : [1]).map((first) => first * power));
  return { title, type: "log", tickvals: ticks, ticktext: ticks.map((value) => compact.format(value)) };
}

function yTitle() {
  const metric = payload.scores.metrics[state.metric];
  return state.measure === "difference" ? `${metric}, less random tables` : metric;
}

function drawTables() {
  const found = shownMeans();
  const shown = found.filter((row) => xOf(row) !== null);
  const models = Map.groupBy(shown, modelKey);
  const left = new Set(found.filter((row) => xOf(row) === null).map(modelKey)).size;
  const random = randomRows(shown);
  const references = referenceRows(shown);
  const traces = shown.length ? [
    ...(state.measure === "difference" ? [zeroTrace(shown)] : randomTraces(random, shown)),
    ...referenceTraces(references, shown), ...scoreTraces(shown), chosenTrace(shown)] : [];
  const words = `${several(shown.length, state.measure)} of ${several(models.size, "model")} on ${state.task}, ${yTitle()}`
    + (state.tokens && !byWidth() ? `, after ${compact.format(Number(state.tokens))} tokens of training` : "")
    + (left ? `; ${several(left, "model")} left out, whose place on this axis is not known` : "");
  tell("tables-status", shown.length ? `${words}.` : "");
  tell("tables-empty", shown.length ? "" : emptyWords(left));
  plot("tables-plot", traces, layout(xAxis(shown), { title: yTitle(), rangemode: state.measure === "score" ? "tozero" : "normal" }),
    `${yTitle()} against ${AXES[state.x]}: ${words}. The list of models below gives the numbers.`,
    { xaxis: state.x, yaxis: state.measure }, (point) => point.customdata && choose(point.customdata));
  fillKey("tables-key", traces.filter((trace) => trace.meta && !(byWidth() && trace.line.dash)).map(({ meta, line, marker }) =>
    ({ words: meta, colour: line.color, symbol: marker?.symbol, dash: line.dash })));
  shownRows.tables = [...shown.map((row) => ({ ...row, ...factsOf.get(modelKey(row)) })), ...random.map(asMean), ...references.map(asMean)];
  listModels(models);
  tellChosen(shown);
  listRows(models);
  listQueries(models);
}

// A row of one table among means: it is of one draw or of a method, whose seed stays.
const asMean = ({ variant, variant_dims, strength, run, length, label, ...row }) => ({ ...row, label, measure: "score", runs: null });

function emptyWords(left) {
  if (!state.suite.size) return "No suite is ticked.";
  if (!state.variant.size) return "No variant is ticked.";
  if (left) return "Nothing can be drawn: the place of these models on this axis is not known.";
  return `Nothing to show: none of the suites and variants ticked has such a ${state.measure} on ${state.task}`
    + (state.search ? `, or no model's name contains “${state.search}”.` : ".");
}

function choose(key) {
  state.chosen = key;
  changed();
}

// Of each model the first variant that is ticked, at the end of its training.
function listModels(models) {
  const rank = (row) => allVariants.indexOf(row.label);
  const first = (rows) => rows.toSorted((a, b) => rank(a) - rank(b) || (b.tokens ?? 0) - (a.tokens ?? 0))[0];
  const order = (row) => modelOrder.get(modelKey(row));
  const listed = [...models.values()].map(first).sort((a, b) => order(a) - order(b));
  const focused = byId("models").contains(document.activeElement) ? document.activeElement.value : null;
  byId("models").replaceChildren(...listed.slice(0, MODELS_LISTED).map((row) => {
    const key = modelKey(row);
    const button = make("button", { type: "button", value: key, "aria-pressed": String(key === state.chosen) },
      swatch(symbolOf(row.label), colourOf(row)),
      make("span", { className: "name" }, modelName(key)), make("span", { className: "score" }, interval(row)));
    button.addEventListener("click", () => choose(button.value));
    return make("li", {}, button);
  }));
  if (focused) [...byId("models").querySelectorAll("button")].find((button) => button.value === focused)?.focus();
  const more = listed.length - MODELS_LISTED;
  tell("models-status", listed.length === 0 ? "None."
    : `From narrow to wide${state.variant.size > 1 ? ", by the first variant that is ticked" : ""}`
      + `${more > 0 ? `; ${number(more)} more, type a part of a name to find them` : ""}.`);
}

// The chosen model beside the plot, where a click is looked at.
function tellChosen(shown) {
  const rows = shown.filter((row) => modelKey(row) === state.chosen);
  const card = byId("card");
  card.hidden = rows.length === 0;
  if (!rows.length) return card.replaceChildren();
  const latest = rows.filter((row) => (row.tokens ?? 0) === Math.max(...rows.map((other) => other.tokens ?? 0)));
  const jump = make("button", { type: "button" }, "its rows");
  jump.addEventListener("click", () => { byId("rows-heading").focus(); byId("rows-heading").scrollIntoView({ block: "start" }); });
  card.replaceChildren(make("strong", {}, modelName(state.chosen)), ": ",
    latest.map((row) => `${variantName(row.label)} ${interval(row)}`).join("; "),
    ` (${yTitle()}, 95 % interval over ${over(latest[0])}); `, jump);
}

function listRows(models) {
  const all = scores.where((get) => `${get("suite")}/${get("model")}` === state.chosen);
  if (state.chosen && !all.length) {
    unknown.push(`model “${state.chosen}”`);
    delete state.chosen;
  }
  const rows = !models.has(state.chosen) ? [] : all.map((row) => scores.row(row))
    .filter((row) => row.task === state.task && row.metric === state.metric)
    .sort((a, b) => (a.step ?? Infinity) - (b.step ?? Infinity) || (a.run ?? 0) - (b.run ?? 0)
      || allVariants.indexOf(a.label) - allVariants.indexOf(b.label));
  byId("rows-box").hidden = rows.length === 0;
  if (!state.chosen) return tell("rows-status", "Choose a model, in the list or in the plot.");
  if (!models.has(state.chosen)) return tell("rows-status", `${modelName(state.chosen)} is not among the models shown.`);
  tell("rows-status", `${state.chosen}: ${several(rows.length, "row")} of ${state.task} by ${payload.scores.metrics[state.metric]}, `
    + `one for each table and training run; ${several(all.length, "row")} in all`
    + `${rows.length > ROWS_LISTED ? `; the first ${ROWS_LISTED} are shown` : ""}.`);
  fillTable(byId("rows"),
    [figure("run"), figure("step"), word("variant"), figure("columns"), figure("score × 100 [95 % interval]"), figure("n"),
      word("vector of a text"), word("tokenizer"), word("table, SHA-256"), word("texts, SHA-256")],
    rows.slice(0, ROWS_LISTED).map((row) => [figure(row.run), figure(row.step), word(variantName(row.label), row.label),
      figure(row.dim), figure(interval(row)), figure(number(row.n)), word(vectorWords((name) => row[name])),
      word(row.tokenizer), word(row.table_sha256), word(row.data_sha256)]));
}

// Of the chosen model: the queries on which its last table and random tables of its width differ most.
function listQueries(models) {
  byId("queries").hidden = !queries;
  if (!queries) return;
  const found = models.has(state.chosen) ? queries.where((get) => keyOfMean(get) === state.chosen
    && get("task") === state.task && vectorsOf(get) === state.vectors).map((row) => queries.row(row)) : [];
  shownRows.queries = found;
  byId("queries-lists").hidden = byId("queries-tools").hidden = found.length === 0;
  for (const [change, words] of [["gain", "Gain most"], ["loss", "Lose most"]]) {
    const listed = found.filter((row) => row.change === change).sort((a, b) => a.rank - b.rank);
    byId(`${change}-box`).hidden = listed.length === 0;
    fillTable(byId(change), [word(words), figure("trained"), figure("random"), figure("change")],
      listed.map((row) => [prose(row.text, row.query), figure(percent(row.score)), figure(percent(row.control_score)),
        figure(signed(percent(row.difference), row.difference))]));
  }
  if (!state.chosen) return tell("queries-status", "Choose a model, in the list or in the plot.");
  if (!found.length) return tell("queries-status", `Not computed: ${modelName(state.chosen)} has no random tables of its width beside it on ${state.task} with these vectors.`);
  const [{ higher, lower, equal, n, runs, draws, metric }] = found;
  tell("queries-status", `${modelName(state.chosen)}: of ${several(n, "query", "queries")}, ${number(higher)} score higher with the trained table `
    + `(mean of ${several(runs, "training run")}) than with random tables of its width (mean of ${several(draws, "draw")}), `
    + `${number(lower)} lower and ${number(equal)} the same, by ${payload.scores.metrics[metric] ?? metric} at the end of training. `
    + "Those that differ most, × 100:");
}

// Layers -----------------------------------------------------------------------------------------------

const POINT_KEYS = ["texts", "reduction", "scaling", "layers"];
const FIT_KEYS = ["texts", "classifier", "split", "input", "control", "trained_on"];
const caseKey = (get) => `${get("suite")}/${get("model")}${get("step") === null ? "" : `, step ${get("step")}`}`;
const someLayers = () => Object.values(layers).some(Boolean);
const bothAxes = (keys) => { const shown = keys.map((key) => state[key]).join("|"); return { xaxis: shown, yaxis: shown }; };

// The checkpoints that hidden states were taken from, by their keys, in order of width.
const checkpoints = (part) => part.distinct((get) => JSON.stringify([caseKey(get), `${get("suite")}/${get("model")}`, get("step")]));
const cases = new Map(Object.values(layers).filter(Boolean).flatMap(checkpoints).map((found) => JSON.parse(found))
  .map(([value, key, step]) => [value, { key, step }])
  .sort(([, a], [, b]) => modelOrder.get(a.key) - modelOrder.get(b.key) || a.step - b.step));
const caseName = (value) => {
  const { key, step } = cases.get(value);
  const several = [...cases.values()].filter((other) => other.key === key).length > 1;
  return modelName(key) + (several ? `, step ${number(step)}` : "");
};

function offerLayers() {
  const parts = Object.values(layers).filter(Boolean);
  const pictured = layers.points ? layers.points.distinct(caseKey) : [];
  const keys = [...cases.keys()];
  offer("model", keys.map((value) => ({ value, label: caseName(value) })), keys.find((key) => pictured.includes(key)));
  offerFrom("texts", parts);
  POINT_KEYS.slice(1).forEach((key, i) => offerFrom(key, [layers.points], POINT_KEYS.slice(0, i + 1)));
  const names = layerNames();
  const options = names.map((value) => ({ value, label: value }));
  offer("layer", names.length ? [{ value: ALL_LAYERS, label: "all layers" }, ...options] : []);
  offer("other", names.length && state.layer !== ALL_LAYERS ? options : [], names.at(-1));
  FIT_KEYS.slice(1).forEach((key, i) => offerFrom(key, [layers.confusion, layers.accuracies], FIT_KEYS.slice(0, i + 1)));
  const metrics = layers.accuracies ? layers.accuracies.levels("metric") : [];
  offer("quality", metrics.filter((value) => value !== "chance").map((value) => ({ value, label: value.replaceAll("_", " ") })), "accuracy");
  if (byId("token").value !== (state.token ?? "")) byId("token").value = state.token ?? "";
  byId("by-width").hidden = !layers.accuracies;
  byId("states").hidden = !layers.points;
  byId("taken-for").hidden = !layers.confusion && !layers.accuracies;
}

// The values of a column; those that the chosen model lacks, given the choices before it, can be seen, not chosen.
function offerFrom(key, parts, before = []) {
  const there = parts.filter((part) => part?.has(key));
  const values = [...new Set(there.flatMap((part) => part.levels(key)))];
  const own = new Set(there.flatMap((part) => part.levels(key, part.where(fits(part, before)))));
  offer(key, values.map((value) => ({ ...named(key)(value || "not recorded"), value, off: own.has(value) ? "" : "not run" })));
}

const fits = (part, keys) => (get) =>
  caseKey(get) === state.model && keys.every((key) => !part.has(key) || get(key) === state[key]);

// Models of which there is a picture are offered instead of one that has none.
function tellMissingPoints(missing) {
  const element = byId("points-empty");
  element.hidden = !missing;
  if (!missing) return;
  const buttons = layers.points.distinct(caseKey).map((key) => {
    const button = make("button", { type: "button", value: key }, caseName(key));
    button.addEventListener("click", () => { state.model = key; changed(); });
    return button;
  });
  element.replaceChildren("No picture was made of this model. There are some of: ", ...buttons.flatMap((button) => [button, " "]));
}

// What each classifier reaches, model by model: all other choices are those made below.
function drawByWidth() {
  const part = layers.accuracies;
  if (!part) return;
  const shared = FIT_KEYS.filter((key) => key !== "classifier");
  const rows = part.where((get) => shared.every((key) => !part.has(key) || get(key) === state[key])
    && [state.quality, "chance"].includes(get("metric")) && get("value") !== null).map((row) => part.row(row));
  const chance = rows.filter((row) => row.metric === "chance");
  const shown = rows.filter((row) => row.metric === state.quality);
  const widthOf = (row) => modelWidths.get(modelKey(row));
  const all = part.levels("classifier");
  const scale = state.quality.includes("accuracy") || state.quality === "recall" ? PERCENT : 1;
  const title = state.quality.replaceAll("_", " ") + (scale === PERCENT ? ", %" : "");
  const sorted = (list) => list.toSorted((a, b) => widthOf(a) - widthOf(b) || (a.step ?? 0) - (b.step ?? 0));
  const line = (list, own) => ({ type: "scatter", x: list.map(widthOf), y: list.map((row) => row.value * scale), hoverinfo: "text", ...own });
  const keyOf = (row) => caseKey((name) => row[name]);
  const traces = [...Map.groupBy(shown, (row) => JSON.stringify([row.classifier, row.suite]))].map(([, group]) => {
    const list = sorted(group);
    const [{ classifier, suite }] = list;
    const shade = category(all.indexOf(classifier));
    const words = WORDS.classifier[classifier] ?? classifier;
    const suites = new Set(shown.map((row) => row.suite)).size;
    return line(list, {
      name: plain(`${suite} ${classifier}`), meta: suites > 1 ? `${words}, ${suiteName(suite)}` : words, mode: "lines+markers",
      line: { color: shade, width: classifier === state.classifier ? 3 : 1.5 },
      marker: { color: shade, symbol: symbol(all.indexOf(classifier)), size: 8 }, customdata: list.map(keyOf),
      error_y: { type: "data", symmetric: false, width: 0, thickness: 1.2, color: shade,
        array: list.map((row) => (row.ci_high === null ? 0 : (row.ci_high - row.value) * scale)),
        arrayminus: list.map((row) => (row.ci_low === null ? 0 : (row.value - row.ci_low) * scale)) },
      text: list.map((row) => `<b>${plain(cut(caseName(keyOf(row))))}</b><br>${plain(words)}<br>${(row.value * scale).toFixed(2)}`
        + (row.ci_low === null ? "" : ` [${(row.ci_low * scale).toFixed(2)}, ${(row.ci_high * scale).toFixed(2)}]`)
        + `<br>${several(row.n, "tested vector")}`),
    });
  });
  if (state.quality === "accuracy" && chance.length) {
    const list = sorted([...new Map(chance.map((row) => [keyOf(row), row])).values()]);
    traces.unshift(line(list, { name: "chance", meta: "chance", mode: "lines", line: { color: palette().random, dash: "dash", width: 1.5 },
      text: list.map((row) => `chance ${(row.value * scale).toFixed(2)}`) }));
  }
  shownRows.width = rows;
  const widths = [...new Set(shown.map(widthOf))].sort((a, b) => a - b);
  const words = `${several(shown.length, "result")} of ${several(new Set(shown.map(keyOf)).size, "model")}: ${title} against width`;
  tell("width-status", shown.length ? `${words}.` : "");
  tell("width-empty", shown.length ? "" : "Not run: there are no such results.");
  plot("width-plot", traces, layout({ title: AXES.width, type: "log", tickvals: widths, ticktext: widths.map(number) },
    { title, rangemode: "tozero" }), `${words}.`, { xaxis: "width", yaxis: state.quality },
    (point) => { if (point.customdata) { state.model = point.customdata; changed(); } });
  fillKey("width-key", traces.map(({ meta, line: { color, dash }, marker }) => ({ words: meta, colour: color, symbol: marker?.symbol, dash })));
}

function layerNames() {
  if (!layers.points) return [];
  const rows = layers.points.where(fits(layers.points, POINT_KEYS)).map((row) => layers.points.row(row));
  return [...new Map(rows.sort((a, b) => a.layer_index - b.layer_index).map((row) => [row.layer, true])).keys()];
}

function shade(index, count) {
  const shades = payload.means.design.shades[dark() ? "dark" : "light"];
  return shades[Math.round((count > 1 ? index / (count - 1) : 0.4) * (shades.length - 1))];
}

function drawPoints() {
  const names = layerNames();
  const chosen = state.layer === ALL_LAYERS ? names : [...new Set([state.layer, state.other])].filter(Boolean);
  const part = layers.points;
  const rows = part ? part.where((get) => fits(part, POINT_KEYS)(get) && chosen.includes(get("layer")))
    .map((row) => part.row(row)) : [];
  const wanted = (state.token ?? "").toLowerCase();
  const marked = (row) => !wanted || row.token.toLowerCase().includes(wanted);
  const traces = [...Map.groupBy(rows, (row) => row.layer)].map(([layer, group]) => ({
    type: "scatter", mode: "markers", name: plain(layer),
    x: group.map((row) => row.x), y: group.map((row) => row.y),
    marker: {
      color: shade(names.indexOf(layer), names.length), symbol: symbol(names.indexOf(layer)), size: 7,
      opacity: group.map((row) => (marked(row) ? 0.8 : 0.08)),
    },
    hoverinfo: "text",
    text: group.map((row) =>
      `<b>${plain(`“${cut(row.token)}”`)}</b><br>${plain(layer)}<br>text ${row.text}, position ${row.position}`),
  }));
  byId("layers-key").replaceChildren(...traces.map(({ marker, name }, index) =>
    make("li", {}, swatch(marker.symbol, marker.color), [...Map.groupBy(rows, (row) => row.layer).keys()][index])));
  shownRows.points = rows;
  const found = rows.filter(marked);
  const words = `${several(rows.length, "vector")} of ${several(traces.length, "layer")}, ${WORDS.reduction[state.reduction] ?? state.reduction}, vectors ${WORDS.scaling[state.scaling] ?? state.scaling}`
    + (rows.length ? `, trustworthiness ${rows[0].trustworthiness.toFixed(2)}` : "")
    + (rows[0]?.explained1 ? "; the axes give their share of the variance" : "")
    + (wanted ? `; ${several(found.length, "vector")} of ${several(new Set(found.map((row) => row.token)).size, "token")} marked` : "");
  tell("points-status", rows.length ? `${words}.` : "");
  tellMissingPoints(part && !rows.length);
  const axis = (order, share) => ({ showticklabels: false,
    title: share === null ? `${order} coordinate` : `${order} component, ${(share * PERCENT).toFixed(0)} %` });
  const [{ explained1, explained2 }] = rows.length ? rows : [{ explained1: null, explained2: null }];
  plot("points-plot", traces, layout(axis("first", explained1), axis("second", explained2)),
    `Hidden states on a plane: ${words}.`, bothAxes(["model", ...POINT_KEYS]));
}

function drawConfusion() {
  const part = layers.confusion;
  const [row] = part ? part.where(fits(part, FIT_KEYS)) : [];
  const there = row !== undefined;
  const names = there ? payload.layers.confusion.layers[row] : [];
  const counts = there ? payload.layers.confusion.counts[row] : [];
  const sums = counts.map((line) => line.reduce((sum, count) => sum + count, 0));
  const shares = counts.map((line, i) => line.map((count) => (sums[i] ? (count / sums[i]) * PERCENT : null)));
  const total = sums.reduce((sum, count) => sum + count, 0);
  const right = names.reduce((sum, _, i) => sum + counts[i][i], 0);
  const chosen = there ? part.row(row) : {};
  shownRows.confusion = names.flatMap((true_layer, i) => names.map((predicted_layer, j) =>
    ({ ...chosen, true_layer, predicted_layer, count: counts[i][j] })));
  const words = `${several(total, "tested vector")} of ${several(names.length, "layer")}, ${number(right)} taken for their own`;
  const labels = names.map(plain);
  const traces = there ? [{
    type: "heatmap", x: labels, y: labels, z: shares, zmin: 0, zmax: PERCENT, xgap: 2, ygap: 2,
    colorscale: [[0, style("--soft")], [1, style("--link")]],
    texttemplate: names.length > SHARES_WRITTEN ? "" : "%{z:.1f}", hoverinfo: "text",
    showscale: names.length > SHARES_WRITTEN, colorbar: { title: { text: "% of a row" }, thickness: 12, outlinewidth: 0 },
    text: counts.map((line, i) => line.map((count, j) => `${labels[i]}<br>taken for ${labels[j]}:<br>`
      + `${number(count)} of ${several(sums[i], "vector")}, ${(shares[i][j] ?? 0).toFixed(1)} %`)),
  }] : [];
  tell("confusion-status", there ? `${words}. Shares of each layer's vectors, in %.` : "");
  tell("confusion-empty", there || !part ? "" : "Not run: there are no such counts of this model.");
  byId("confusion-words").hidden = !there;
  fillTable(byId("confusion-rows"), [word("layer"), ...names.map((name) => figure(`taken for ${name}`))],
    names.map((name, i) => [word(name), ...counts[i].map((count) => figure(number(count)))]));
  plot("confusion-plot", traces,
    layout({ title: "taken for", type: "category", showgrid: false }, { title: "layer", type: "category", autorange: "reversed", showgrid: false }),
    `Confusion matrix, in percent of the vectors of each layer: ${words}. The table below gives the counts.`, bothAxes(["model"]));
}

function listAccuracies() {
  const part = layers.accuracies;
  const rows = part ? part.where(fits(part, FIT_KEYS)).map((row) => part.row(row)) : [];
  byId("accuracy-box").hidden = rows.length === 0;
  tell("accuracy-status", part && !rows.length ? "Not run: there are no such results of this model." : "");
  const short = (value) => (value === null ? "not known" : value.toPrecision(4));
  fillTable(byId("accuracy-rows"), [word("metric"), figure("value"), figure("95 % interval over texts"), figure("n")],
    rows.map((row) => [word(row.metric.replaceAll("_", " ")), figure(short(row.value)),
      figure(`${short(row.ci_low)} to ${short(row.ci_high)}`), figure(number(row.n))]));
}

// All together -----------------------------------------------------------------------------------------

const VIEWS = { tables: () => { offerTables(); drawTables(); }, layers: () => { offerLayers(); drawByWidth(); drawPoints(); drawConfusion(); listAccuracies(); } };

// A reader's choice is a step that Back undoes; letters typed into one field are one step together.
function changed(field = null) {
  const step = field && field === typing ? "replaceState" : "pushState";
  typing = field;
  update(step);
}

function update(step = "replaceState") {
  unknown = [];
  if (state.view === "layers" && !someLayers()) {
    unknown.push("hidden states");
    state.view = "tables";
  }
  for (const view of Object.keys(VIEWS)) {
    byId(`view-${view}`).hidden = state.view !== view;
    byId(`to-${view}`).toggleAttribute("aria-current", state.view === view);
    if (state.view === view) byId(`to-${view}`).setAttribute("aria-current", "page");
  }
  VIEWS[state.view]();
  tell("unknown", unknown.length ? `The address asks for what this study does not have: ${unknown.join(", ")}.` : "");
  asked.clear();
  for (const view of Object.keys(VIEWS)) byId(`to-${view}`).href = address(view);
  if (address(state.view) !== location.hash) history[step](null, "", address(state.view));
}

async function loadLibrary() {
  const bytes = Uint8Array.from(atob(byId("library").textContent), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
  library = window.Plotly;
  VIEWS[state.view](); // what the address asked for in vain stays on the page
}

function start() {
  fillTable(byId("made-from"), [word("file"), word("SHA-256")],
    payload.made_from.map(({ file, sha256 }) => [word(file), word(sha256)]));
  byId("views").hidden = !someLayers();
  // Without classifiers, the model is chosen beside the picture of its states.
  if (!layers.confusion && !layers.accuracies) {
    byId("states").querySelector("form").prepend(byId("model").closest(".field"), byId("texts").closest(".field"));
  }
  ["tables", "width", "points", "confusion"].forEach(offerTools);
  byId("queries-tools").replaceChildren(offerRows("queries"));
  document.querySelectorAll("select").forEach((select) => select.addEventListener("change", () => {
    state[select.id] = select.value;
    changed();
  }));
  document.querySelectorAll('input[type="search"]').forEach((input) => input.addEventListener("input", () => {
    state[input.id] = input.value;
    changed(input.id);
  }));
  byId("tokens").addEventListener("input", (event) => {
    const place = Number(event.target.value);
    state.tokens = place === allTokens.length - 1 ? "" : String(allTokens[place]);
    changed("tokens");
  });
  document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
  addEventListener("hashchange", () => { typing = null; readAddress(); update(); });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => update());
  readAddress();
  update();
  // The words and controls first: unpacking the library takes longer than all the rest.
  const load = () => loadLibrary().catch((error) =>
    tell("unknown", `The plots cannot be drawn in this browser (${error.message}); the lists work without them.`));
  if (document.hidden) load(); else requestAnimationFrame(() => setTimeout(load));
}

start();
