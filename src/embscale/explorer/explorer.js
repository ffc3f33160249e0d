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
  parameters: "parameters of the model",
  table_share: "share of parameters in the table",
};
const BESIDE = {
  intervals: "95 % intervals over queries",
  random: "random tables, lowest to highest seed",
  reference: "scores that need no table",
};
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
const layers = Object.fromEntries(Object.entries(payload.layers).map(([name, part]) => [name, part && frame(part)]));

const LISTS = ["suite", "variant", "beside"];
let state = {};
const asked = new Set(); // keys that the address gave
let unknown = [];
let library = null;

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
const percent = (value) => (value * PERCENT).toFixed(2);
const interval = (row) => `${percent(row.value)} [${percent(row.ci_low)}, ${percent(row.ci_high)}]`;
const several = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

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

// Options of a select: value, label, and whether it can be chosen now.  Without any it is off, and says why.
function offer(key, options, reason = "", first = undefined) {
  const select = byId(key);
  const open = options.filter((option) => !option.off);
  settle(key, open.map((option) => option.value), first);
  select.replaceChildren(...options.map(({ value, label, off }) =>
    make("option", { value, disabled: Boolean(off), selected: value === state[key] }, label + (off ? ` (${off})` : ""))));
  select.disabled = open.length === 0;
  const words = byId(`${key}-reason`);
  if (words) words.textContent = reason;
}

function offerList(key, options) {
  const group = byId(key);
  const boxes = options.map(({ value, label, swatch, reason }) => {
    const box = make("input", { type: "checkbox", value, checked: state[key].has(value), disabled: Boolean(reason) });
    box.addEventListener("change", () => {
      state[key][box.checked ? "add" : "delete"](value);
      update();
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
    element.addEventListener("click", () => { state[key] = new Set(chosen); update(); });
    return element;
  };
  return make("div", { className: "every" },
    button("every", "all", options.map((option) => option.value)), button("none", "none", []));
}

function swatch(symbol, colour) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[symbol.replace("-open", "")]);
  path.setAttribute("fill", symbol.endsWith("-open") ? "none" : colour);
  path.setAttribute("stroke", colour);
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
  const cell = (tag, { text, title, numeric }) =>
    make(tag, { className: numeric ? "number" : "word", ...(title && { title }), ...(tag === "th" && { scope: "col" }) }, text);
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((column) => cell("th", column)))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((content) => cell("td", content))))));
}

const word = (text, title) => ({ text: String(text ?? ""), title });
const figure = (text) => ({ text: text === null || text === undefined ? "" : String(text), numeric: true });

// Plots ------------------------------------------------------------------------------------------------

function colour(index) {
  const colours = payload.design.colours;
  const found = colours[index % colours.length];
  return found === "#000000" ? style("--text") : found; // black is the ink, which is light on a dark page
}

function symbol(index) {
  const symbols = payload.design.symbols;
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

function plot(id, traces, plan, words, onClick) {
  const element = byId(id);
  element.hidden = traces.length === 0;
  element.setAttribute("aria-label", words);
  if (!library || !traces.length) return;
  library.react(element, traces, plan, { displayModeBar: false, responsive: true });
  if (onClick && !element.dataset.listens) {
    element.dataset.listens = "yes";
    element.on("plotly_click", (event) => onClick(event.points[0]));
  }
}

// Embedding tables -------------------------------------------------------------------------------------

const vectorsOf = (get) => `${get("pooling")}, special tokens ${get("special_tokens")}d`;
const modelKey = (row) => `${row.suite}/${row.model}`;
const factsOf = new Map(facts.where(() => true).map((row) => [modelKey(facts.row(row)), facts.row(row)]));
const xOf = (row) => (state.x === "width" ? row.width : factsOf.get(modelKey(row))?.[state.x]) ?? null;
const allSuites = scores.levels("suite").filter((suite) => suite !== RANDOM && suite !== REFERENCE).sort();
const ofModels = scores.where((get) => allSuites.includes(get("suite")));
// Those that are shown first come first, so that their colours are different ones.
const allVariants = [...new Set([...payload.scores.first_variants, ...scores.levels("label", ofModels).sort()])];

// With one suite a colour is a variant; with several it is a suite, and the shape alone is the variant.
const byVariant = () => state.suite.size < 2;
const colourOf = (suite, label) =>
  byVariant() ? colour(allVariants.indexOf(label)) : colour(allSuites.indexOf(suite));
const symbolOf = (label) => symbol(allVariants.indexOf(label));

function offerTables() {
  const plainOptions = (values) => values.map((value) => ({ value, label: value }));
  offer("task", plainOptions(scores.levels("task").sort()));
  const ofTask = scores.where((get) => get("task") === state.task);
  offer("metric", scores.levels("metric", ofTask).map((value) => ({ value, label: payload.scores.metrics[value] })),
    "", payload.scores.first_metric);
  offer("vectors", plainOptions(scores.distinct(vectorsOf, ofTask).sort()));
  const known = factsOf.size > 0 ? "" : "not known";
  offer("x", Object.entries(AXES).map(([value, label]) =>
    ({ value, label, off: value === "width" ? "" : known })),
  known && "No file that this page was made from says how many parameters the models have.");
  settleList("suite", allSuites, allSuites);
  settleList("variant", allVariants, payload.scores.first_variants);
  settleList("beside", Object.keys(BESIDE), ["intervals", "random"]);
  offerList("suite", allSuites.map((value) =>
    ({ value, label: value, swatch: byVariant() ? null : swatch("circle", colourOf(value)) })));
  offerList("variant", allVariants.map((value) =>
    ({ value, label: value, swatch: swatch(symbolOf(value), byVariant() ? colourOf("", value) : style("--text")) })));
  offerList("beside", Object.entries(BESIDE).map(([value, label]) =>
    ({ value, label, reason: value === "random" && state.x !== "width" ? "have no such axis" : "" })));
  if (document.activeElement !== byId("search")) byId("search").value = state.search ?? "";
}

const inView = (get) =>
  get("task") === state.task && get("metric") === state.metric && vectorsOf(get) === state.vectors;

function shownScores() {
  const wanted = (state.search ?? "").toLowerCase();
  return scores.where((get) => get("last") && inView(get) && state.suite.has(get("suite"))
    && state.variant.has(get("label")) && get("model").toLowerCase().includes(wanted)).map((row) => scores.row(row));
}

function hoverOf(row) {
  return [
    `<b>${plain(cut(row.model))}</b>, ${plain(cut(row.suite))}`,
    plain(row.label),
    `${payload.scores.metrics[row.metric]}: ${interval(row)}`,
    `95 % interval over ${several(row.n, "quer")}`.replace(/quers?$/, row.n === 1 ? "query" : "queries"),
  ].join("<br>");
}

function scoreTraces(rows) {
  const groups = Map.groupBy(rows, (row) => JSON.stringify([row.suite, row.label]));
  return [...groups.values()].map((group) => {
    const sorted = group.toSorted((a, b) => xOf(a) - xOf(b) || (a.model < b.model ? -1 : 1));
    const [{ suite, label }] = sorted;
    const shade = colourOf(suite, label);
    const y = sorted.map((row) => row.value * PERCENT);
    return {
      type: "scatter",
      name: plain(`${suite} ${label}`),
      mode: sorted.length > LINE_LIMIT ? "markers" : "lines+markers",
      x: sorted.map(xOf),
      y,
      error_y: {
        visible: state.beside.has("intervals"), type: "data", symmetric: false, width: 0, thickness: 1.4, color: shade,
        array: sorted.map((row) => (row.ci_high - row.value) * PERCENT),
        arrayminus: sorted.map((row) => (row.value - row.ci_low) * PERCENT),
      },
      line: { color: shade, width: 2 },
      marker: { color: shade, symbol: symbolOf(label), size: 9, line: { color: shade, width: 1.5 } },
      hoverinfo: "text",
      text: sorted.map(hoverOf),
      customdata: sorted.map(modelKey),
    };
  });
}

function chosenTrace(rows) {
  const chosen = rows.filter((row) => modelKey(row) === state.chosen);
  return {
    type: "scatter", name: "chosen", mode: "markers", hoverinfo: "skip",
    x: chosen.map(xOf), y: chosen.map((row) => row.value * PERCENT),
    marker: { symbol: "circle-open", size: 18, color: style("--text"), line: { width: 2 } },
  };
}

// Random tables: for each tokenizer of the suites shown, and each of the variants shown that they have.
function randomTraces(shown) {
  if (!state.beside.has(RANDOM) || state.x !== "width" || !shown.length) return [];
  const tokenizers = new Set(shown.map((row) => row.tokenizer));
  const kinds = new Set(["", ...shown.map((row) => row.variant)]);
  const widest = Math.max(...shown.map(xOf));
  const rows = scores.where((get) => get("suite") === RANDOM && inView(get) && tokenizers.has(get("tokenizer"))
    && kinds.has(get("variant").split("+")[1] ?? "") && get("width") <= widest).map((row) => scores.row(row));
  const groups = Map.groupBy(rows, (row) => JSON.stringify([row.tokenizer, row.variant]));
  return [...groups.values()].flatMap((group) => {
    const suites = new Set(shown.filter((row) => row.tokenizer === group[0].tokenizer).map((row) => row.suite));
    const shade = byVariant() || suites.size > 1 ? style("--muted") : colourOf([...suites][0]);
    return bandTraces(group, shade);
  });
}

function bandTraces(group, shade) {
  const dims = [...Map.groupBy(group, (row) => row.width)].sort(([a], [b]) => a - b);
  const values = dims.map(([, rows]) => rows.map((row) => row.value * PERCENT));
  const lowest = values.map((seeds) => Math.min(...seeds));
  const highest = values.map((seeds) => Math.max(...seeds));
  const mean = values.map((seeds) => seeds.reduce((sum, value) => sum + value, 0) / seeds.length);
  const [{ variant, tokenizer }] = group;
  const name = plain(`${variant} ${tokenizer}`);
  const shared = { type: "scatter", x: dims.map(([dim]) => dim), hoverinfo: "skip" };
  const edge = { ...shared, mode: "lines", line: { width: 0 } };
  return [
    { ...edge, name: `${name}, lowest`, y: lowest },
    { ...edge, name: `${name}, highest`, y: highest, fill: "tonexty", fillcolor: faded(shade) },
    {
      ...shared, name, mode: "lines", y: mean, line: { color: shade, dash: "dash", width: 1.5 }, hoverinfo: "text",
      text: dims.map(([dim], i) => `<b>${plain(variant)}</b>, tokenizer ${plain(tokenizer)}<br>${several(dim, "column")}: `
        + `mean ${mean[i].toFixed(2)} of ${several(values[i].length, "seed")}, `
        + `from ${lowest[i].toFixed(2)} to ${highest[i].toFixed(2)}`),
    },
  ];
}

const faded = (hex) => `${hex}30`; // a colour as #rrggbb, with a share of 3/16 of its strength

function referenceTraces(shown) {
  if (!state.beside.has(REFERENCE) || !shown.length) return [];
  const tokenizers = new Set(shown.map((row) => row.tokenizer));
  const places = shown.map(xOf);
  const ends = [Math.min(...places), Math.max(...places)];
  return scores.where((get) => get("suite") === REFERENCE && inView(get) && tokenizers.has(get("tokenizer")))
    .map((row) => scores.row(row)).map((row) => ({
      type: "scatter", name: plain(`${row.model} ${row.tokenizer}`), mode: "lines+text", x: ends,
      y: ends.map(() => row.value * PERCENT), line: { color: style("--muted"), dash: "dot", width: 1.5 },
      text: [hoverOf(row), hoverOf(row)], hoverinfo: "text", texttemplate: [plain(row.model), ""],
      textposition: "top right", textfont: { color: style("--muted"), size: 12 },
    }));
}

function xAxis(shown) {
  const title = AXES[state.x];
  const values = [...new Set(shown.map(xOf))].sort((a, b) => a - b);
  if (state.x === "table_share") return { title, tickformat: ".0%", rangemode: "tozero" };
  const powers = (base) => Array.from({ length: 64 }, (_, power) => base ** power);
  if (state.x === "width") {
    const ticks = values.length > WIDTHS_NAMED ? powers(2) : values;
    return { title, type: "log", tickvals: ticks, ticktext: ticks.map(number) };
  }
  const ticks = powers(10).flatMap((power) => (values.at(-1) / values[0] < FEW_DECADES ? [1, 2, 5] : [1]).map((first) => first * power));
  const short = new Intl.NumberFormat("en", { notation: "compact" });
  return { title, type: "log", tickvals: ticks, ticktext: ticks.map((value) => short.format(value)) };
}

function drawTables() {
  const found = shownScores();
  const shown = found.filter((row) => xOf(row) !== null);
  const models = Map.groupBy(shown, modelKey);
  const left = new Set(found.filter((row) => xOf(row) === null).map(modelKey)).size;
  const metric = payload.scores.metrics[state.metric];
  const traces = shown.length
    ? [...randomTraces(shown), ...referenceTraces(shown), ...scoreTraces(shown), chosenTrace(shown)] : [];
  const words = `${several(shown.length, "score")} of ${several(models.size, "model")} on ${state.task}, ${metric}`
    + (left ? `; ${several(left, "model")} left out, whose place on this axis is not known` : "");
  tell("tables-status", shown.length ? `${words}.` : "");
  tell("tables-empty", shown.length ? "" : emptyWords(left));
  plot("tables-plot", traces, layout(xAxis(shown), { title: metric, rangemode: "tozero" }),
    `${metric} against ${AXES[state.x]}: ${words}. The list of models below gives the numbers.`,
    (point) => point.customdata && choose(point.customdata));
  listModels(models);
  listRows();
}

function emptyWords(left) {
  if (!state.suite.size) return "No suite is ticked.";
  if (!state.variant.size) return "No variant is ticked.";
  if (left) return "Nothing can be drawn: the place of these models on this axis is not known.";
  return `Nothing to show: none of the suites and variants ticked was scored on ${state.task} with this metric and vector`
    + (state.search ? `, or no model's name contains “${state.search}”.` : ".");
}

function choose(key) {
  state.chosen = key;
  update();
  byId("rows-heading").scrollIntoView({ block: "nearest", behavior: "smooth" });
}

function listModels(models) {
  const first = (rows) => rows.toSorted((a, b) => allVariants.indexOf(a.label) - allVariants.indexOf(b.label))[0];
  const ranked = [...models.values()].map(first).sort((a, b) => b.value - a.value);
  const focused = byId("models").contains(document.activeElement) ? document.activeElement.value : null;
  byId("models").replaceChildren(...ranked.slice(0, MODELS_LISTED).map((row) => {
    const button = make("button",
      { type: "button", value: modelKey(row), "aria-pressed": String(modelKey(row) === state.chosen) },
      swatch(symbolOf(row.label), colourOf(row.suite, row.label)),
      make("span", { className: "name" }, row.model), make("span", { className: "score" }, interval(row)));
    button.addEventListener("click", () => choose(button.value));
    return make("li", {}, button);
  }));
  if (focused) [...byId("models").querySelectorAll("button")].find((button) => button.value === focused)?.focus();
  const more = ranked.length - MODELS_LISTED;
  tell("models-status", ranked.length === 0 ? "None."
    : `Best first, by the first variant that is ticked${more > 0 ? `; ${number(more)} more, type a part of a name to find them` : ""}.`);
}

function listRows() {
  const all = scores.where((get) => modelKey({ suite: get("suite"), model: get("model") }) === state.chosen);
  const rows = all.map((row) => scores.row(row)).filter((row) => row.task === state.task && row.metric === state.metric)
    .sort((a, b) => (a.step ?? Infinity) - (b.step ?? Infinity) || (a.label < b.label ? -1 : 1));
  byId("rows-box").hidden = rows.length === 0;
  if (!state.chosen) return tell("rows-status", "Choose a model, in the list or in the plot.");
  if (!all.length) {
    unknown.push(`model “${state.chosen}”`);
    delete state.chosen;
    return tell("rows-status", "");
  }
  tell("rows-status", `${state.chosen}: ${several(rows.length, "row")} of ${state.task} by ${payload.scores.metrics[state.metric]}, `
    + `${several(all.length, "row")} in all${rows.length > ROWS_LISTED ? `; the first ${ROWS_LISTED} are shown` : ""}.`);
  fillTable(byId("rows"),
    [figure("step"), word("variant"), figure("columns"), figure("score × 100 [95 % interval]"), figure("n"),
      word("vector of a text"), word("tokenizer"), word("table, SHA-256"), word("texts, SHA-256")],
    rows.slice(0, ROWS_LISTED).map((row) => [figure(row.step), word(row.label), figure(row.dim), figure(interval(row)),
      figure(number(row.n)), word(vectorsOf((name) => row[name])), word(row.tokenizer), word(row.table_sha256), word(row.data_sha256)]));
}

// Layers -----------------------------------------------------------------------------------------------

const NOT_MADE = {
  points: "Not shown: this page was made without hidden states on a plane.",
  confusion: "Not shown: this page was made without confusion counts.",
  accuracies: "Not shown: this page was made without results of classifiers.",
};
const POINT_KEYS = ["texts", "reduction", "scaling", "layers"];
const FIT_KEYS = ["texts", "classifier", "split", "input", "control", "trained_on"];
const caseKey = (get) => `${get("suite")}/${get("model")}${get("step") === null ? "" : `, step ${get("step")}`}`;

function offerLayers() {
  const parts = Object.values(layers).filter(Boolean);
  const cases = [...new Set(parts.flatMap((part) => part.distinct(caseKey)))];
  offer("model", cases.map((value) => ({ value, label: value })), cases.length ? "" : "No hidden states are part of this page.");
  offerFrom("texts", parts);
  POINT_KEYS.slice(1).forEach((key, i) => offerFrom(key, [layers.points], POINT_KEYS.slice(0, i + 1)));
  const names = layerNames();
  const options = names.map((value) => ({ value, label: value }));
  offer("layer", names.length ? [{ value: ALL_LAYERS, label: "all layers" }, ...options] : [],
    names.length ? "" : layers.points ? "There are no such points of this model." : NOT_MADE.points);
  const pair = state.layer !== ALL_LAYERS;
  offer("other", pair ? options : [], names.length && !pair ? "All layers are shown." : "", names.at(-1));
  FIT_KEYS.slice(1).forEach((key, i) => offerFrom(key, [layers.confusion, layers.accuracies], FIT_KEYS.slice(0, i + 1)));
  if (document.activeElement !== byId("token")) byId("token").value = state.token ?? "";
}

// The values of a column; those that the chosen model lacks, given the choices before it, can be seen, not chosen.
function offerFrom(key, parts, before = []) {
  const there = parts.filter((part) => part?.has(key));
  const values = [...new Set(there.flatMap((part) => part.levels(key)))];
  const own = new Set(there.flatMap((part) => part.levels(key, part.where(fits(part, before)))));
  offer(key, values.map((value) => ({ value, label: value || "not said", off: own.has(value) ? "" : "not run" })),
    there.length ? "" : "The rows of this page do not tell it.");
}

const fits = (part, keys) => (get) =>
  caseKey(get) === state.model && keys.every((key) => !part.has(key) || get(key) === state[key]);

function layerNames() {
  if (!layers.points) return [];
  const rows = layers.points.where(fits(layers.points, POINT_KEYS)).map((row) => layers.points.row(row));
  return [...new Map(rows.sort((a, b) => a.layer_index - b.layer_index).map((row) => [row.layer, true])).keys()];
}

function shade(index, count) {
  const shades = payload.design.shades[matchMedia("screen and (prefers-color-scheme: dark)").matches ? "dark" : "light"];
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
  const found = rows.filter(marked);
  const words = `${several(rows.length, "vector")} of ${several(traces.length, "layer")}, ${state.reduction} of ${state.scaling} vectors`
    + (rows.length ? `, trustworthiness ${rows[0].trustworthiness.toFixed(2)}` : "")
    + (rows[0]?.explained1 ? "; the axes tell their share of the variance" : "")
    + (wanted ? `; ${several(found.length, "vector")} of ${several(new Set(found.map((row) => row.token)).size, "token")} marked` : "");
  tell("points-status", rows.length ? `${words}.` : "");
  tell("points-empty", rows.length ? "" : part ? "Not run: there are no such points of this model." : NOT_MADE.points);
  const axis = (order, share) => ({ showticklabels: false,
    title: share === null ? `${order} coordinate` : `${order} component, ${(share * PERCENT).toFixed(0)} %` });
  const [{ explained1, explained2 }] = rows.length ? rows : [{ explained1: null, explained2: null }];
  plot("points-plot", traces, layout(axis("first", explained1), axis("second", explained2)),
    `Hidden states on a plane: ${words}.`);
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
  tell("confusion-empty", there ? "" : part ? "Not run: there are no such counts of this model." : NOT_MADE.confusion);
  byId("confusion-words").hidden = !there;
  fillTable(byId("confusion-rows"), [word("layer"), ...names.map((name) => figure(`taken for ${name}`))],
    names.map((name, i) => [word(name), ...counts[i].map((count) => figure(number(count)))]));
  plot("confusion-plot", traces,
    layout({ title: "taken for", type: "category", showgrid: false }, { title: "layer", type: "category", autorange: "reversed", showgrid: false }),
    `Confusion matrix, in percent of the vectors of each layer: ${words}. The table below gives the counts.`);
}

function listAccuracies() {
  const part = layers.accuracies;
  const rows = part ? part.where(fits(part, FIT_KEYS)).map((row) => part.row(row)) : [];
  byId("accuracy-box").hidden = rows.length === 0;
  tell("accuracy-status", part ? (rows.length ? "" : "Not run: there are no such results of this model.") : NOT_MADE.accuracies);
  const short = (value) => (value === null ? "not known" : value.toPrecision(4));
  fillTable(byId("accuracy-rows"), [word("metric"), figure("value"), figure("95 % interval over texts"), figure("n")],
    rows.map((row) => [word(row.metric.replaceAll("_", " ")), figure(short(row.value)),
      figure(`${short(row.ci_low)} to ${short(row.ci_high)}`), figure(number(row.n))]));
}

// All together -----------------------------------------------------------------------------------------

function update() {
  unknown = [];
  for (const view of ["tables", "layers"]) {
    byId(`view-${view}`).hidden = state.view !== view;
    byId(`to-${view}`).toggleAttribute("aria-current", state.view === view);
    if (state.view === view) byId(`to-${view}`).setAttribute("aria-current", "page");
  }
  if (state.view === "tables") {
    offerTables();
    drawTables();
  } else {
    offerLayers();
    drawPoints();
    drawConfusion();
    listAccuracies();
  }
  tell("unknown", unknown.length ? `The address asks for what this study does not have: ${unknown.join(", ")}.` : "");
  asked.clear();
  for (const view of ["tables", "layers"]) byId(`to-${view}`).href = address(view);
  history.replaceState(null, "", address(state.view));
}

async function loadLibrary() {
  const bytes = Uint8Array.from(atob(byId("library").textContent), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
  library = window.Plotly;
  update();
}

function start() {
  fillTable(byId("made-from"), [word("file"), word("SHA-256")],
    payload.made_from.map(({ file, sha256 }) => [word(file), word(sha256)]));
  document.querySelectorAll("select").forEach((select) => select.addEventListener("change", () => {
    state[select.id] = select.value;
    update();
  }));
  document.querySelectorAll('input[type="search"]').forEach((input) => input.addEventListener("input", () => {
    state[input.id] = input.value;
    update();
  }));
  document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
  addEventListener("hashchange", () => { readAddress(); update(); });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", update);
  readAddress();
  update();
  // The words and controls first: unpacking the library takes longer than all the rest.
  const load = () => loadLibrary().catch((error) =>
    tell("unknown", `The plots cannot be drawn in this browser (${error.message}); the lists work without them.`));
  if (document.hidden) load(); else requestAnimationFrame(() => setTimeout(load));
}

start();
