// The handle on the curves: precision and recall, ROC, cost. Numbers come from GET /models/{id}/thresholds; what a
// threshold promises is asked of the server when the handle rests, as the form without script does.
const place = document.getElementById("curve");
const handle = document.getElementById("handle");
const wish = document.getElementById("wish");
const language = document.documentElement.dataset.numbers; // as the server writes numbers
const tick = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
const formats = new Map();

// A share in percent, as the server rounds it (solver/percents.py): what is near 0 or 1 reads as neither, what is proven
// is rounded to the safe side.
function percent(value, roundingMode = "halfEven") {
  const left = Math.min(value, 1 - value);
  const maximumFractionDigits = left > 1e-12 && left < 0.01 ? Math.ceil(-Math.log10(100 * left) - 1e-9) + 1 : 1;
  const key = `${roundingMode} ${maximumFractionDigits}`;
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits, roundingMode }));
  return formats.get(key).format(Number(value.toFixed(12)));
}

const share = { format: (value) => percent(value) };
const plain = new Intl.NumberFormat(language, { maximumSignificantDigits: 4 });
let found = null;
let plot = null;
let resting = 0;
let asked = 0;

const put = (id, text) => { document.getElementById(id).textContent = text; };
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const range = (each, format) => (each ? `${format.format(each.low)} to ${format.format(each.high)}` : "");
const rows = () => found.positives + found.negatives;
const flagged = (point) => point.true_positives + point.false_positives;
const sure = (value) => ({ value, low: value, high: value });

// What each picture has to the right and upwards, with intervals where there are some. With room beyond 100 %, or what
// lies there would be hidden under the edge.
const VIEWS = {
  pr: {
    x: (point) => point.recall,
    y: (point) => point.precision,
    names: ["Recall: found, of what is there", "Precision: right, of what is flagged"],
  },
  roc: {
    x: (point) => point.false_positive_rate,
    y: (point) => point.recall,
    names: ["False alarms, of all that is not so", "Recall: found, of what is there"],
    guide: true,
  },
  cost: {
    x: (point) => sure(flagged(point) / rows()),
    y: (point) => point.cost,
    names: ["Flagged, of all rows", "Mean cost of a row"],
    free: true,
  },
};
const shown = () => document.querySelector("#views input:checked")?.value ?? "pr";
const view = () => VIEWS[shown()];

const MEASURES = { precision: "a precision of at least", recall: "a recall of at least", false_positive_rate: "false alarms of at most", cost: "a mean cost of at most" };

// What is proven of the threshold at a place of the curve. What is proven of one alone is shown at the place nearest to it.
function provenAt(index) {
  const { threshold } = found.points[index];
  return found.proven.filter(({ lowest, highest }) => (lowest !== null && highest !== null
    ? index === nearest(highest) : (lowest === null || threshold >= lowest) && (highest === null || threshold <= highest)));
}

function sayProven(index) {
  const place = document.getElementById("proven-here");
  if (!place) return;
  const said = provenAt(index).map(({ measure, bound, confidence }) => `${MEASURES[measure]} ${measure === "cost" ? plain.format(bound) : percent(bound, measure === "false_positive_rate" ? "ceil" : "floor")}, with a confidence of ${share.format(confidence)}`);
  place.textContent = said.length > 0 ? `Proven of this threshold: ${said.join("; ")}.` : "Nothing is proven of this threshold.";
}

// How many unlabelled rows lie above the threshold, by how their scores are spread, those of one part taken to lie evenly
// in it; of the threshold in use the server knows it better.
function sayUnlabelled(index) {
  const place = document.getElementById("unlabelled");
  if (!place) return;
  const { rows: all, least, greatest, counts, inUse, isAbout } = place.dataset;
  const parts = counts.split(" ").map(Number);
  const at = (found.points[index].threshold - least) / ((greatest - least) / parts.length);
  const sum = (pick) => parts.reduce((total, count, part) => total + pick(count, part), 0);
  const above = sum((count, part) => count * Math.min(1, Math.max(0, part + 1 - at))) / sum((count) => count);
  const isInUse = index === nearest(found.threshold);
  const count = isInUse ? Number(inUse) : Math.round(all * above);
  const about = isInUse && !isAbout ? "" : "about ";
  place.textContent = `Of the training’s ${Number(all).toLocaleString(language)} unlabelled rows, ${about}${count.toLocaleString(language)} lie above it.`;
}

function show(index) {
  const point = found.points[index];
  const of = (count) => Math.round((1000 * count) / rows()).toLocaleString(language);
  put("precision", point.precision ? share.format(point.precision.value) : "–");
  put("precision-range", range(point.precision, share));
  put("recall", point.recall ? share.format(point.recall.value) : "–");
  put("recall-range", range(point.recall, share));
  document.getElementById("alarms-fact").hidden = shown() !== "roc";
  put("alarms", point.false_positive_rate ? share.format(point.false_positive_rate.value) : "–");
  put("alarms-range", range(point.false_positive_rate, share));
  document.getElementById("cost-fact").hidden = !point.cost || !(shown() === "cost" || wish.elements.kind.value === "cost");
  put("cost", point.cost ? plain.format(point.cost.value) : "");
  put("cost-range", range(point.cost, plain));
  const words = `Of ${(1000).toLocaleString(language)} rows: ${of(flagged(point))} flagged, ${of(point.false_positives)} of them wrong, ${of(found.positives - point.true_positives)} missed.`;
  put("thousand", words);
  handle.setAttribute("aria-valuetext", words);
  sayUnlabelled(index);
  sayProven(index);
  if (plot) plot.redraw(false);
}

// The place on the curve of the threshold that "Use this" would apply: that under the handle, or, where what must hold
// was written, the one that the rule for it chooses; null while nothing was looked at.
function chosenPlace() {
  const said = document.getElementById("preview").dataset.threshold;
  const threshold = said === undefined ? NaN : Number(said);
  return Number.isNaN(threshold) ? null : nearest(threshold);
}

function nearest(threshold) {
  const distance = (point) => Math.abs(point.threshold - threshold);
  return found.points.reduce((best, point, index) => (distance(point) < distance(found.points[best]) ? index : best), 0);
}

function sayElsewhere() {
  const place = document.getElementById("elsewhere");
  if (!place || !found) return;
  const chosen = chosenPlace();
  place.hidden = chosen === null || chosen === Number(handle.value);
  const isTarget = ["precision", "recall", "false_positive_rate", "ham_loss"].includes(wish.elements.kind.value);
  const why = isTarget ? " It is chosen so that it is likely to hold for other rows, too." : "";
  place.textContent = `That is not where the handle is: on the curve it is the square.${why} Move the handle for the threshold under it.`;
}

// The button that uses the threshold under the handle stands below the handle, where one looks; that of what must hold
// stays with what is said of it. While the service is asked what the threshold promises there is none.
function placeUse(isAsked = false) {
  const here = document.getElementById("use-here");
  if (!here) return; // who may only read
  const form = wish.elements.at.value ? document.getElementById("use") : null;
  const words = isAsked ? "Looking at what it promises …" : "The button that uses a threshold comes once the handle is moved.";
  here.replaceChildren(isAsked || !form ? Object.assign(document.createElement("p"), { className: "quiet small", textContent: words }) : form);
}

// The handle moves the threshold and nothing else: what must hold stays as it is written.
function move(index) {
  show(index);
  // Between two rows each threshold decides alike: back at the place of the one in use, nothing is chosen anew.
  wish.elements.at.value = index === nearest(found.threshold) ? found.threshold : found.points[index].threshold;
  placeUse(true);
  clearTimeout(resting);
  resting = setTimeout(look, 250);
}

async function look() {
  const mine = ++asked;
  const address = new URL(location.href);
  address.search = new URLSearchParams(new FormData(wish));
  try {
    const answer = await fetch(address, { redirect: "error", cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
    if (mine !== asked || !fresh) return;
    document.getElementById("use-here")?.replaceChildren(); // of what was asked before
    document.getElementById("preview").replaceWith(fresh);
    placeUse();
    sayElsewhere();
    if (plot) plot.redraw(false);
    history.replaceState(null, "", address);
  } catch {
    // The button is still there.
  }
}

function mark(u) {
  const { x, y } = view();
  const spot = (point) => [u.valToPos(x(point).value, "x", true), u.valToPos(y(point).value, "y", true)];
  const point = found.points[Number(handle.value)];
  const across = x(point);
  const up = y(point);
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = color("--focus");
  u.ctx.lineWidth = 2 * devicePixelRatio;
  u.ctx.setLineDash([]);
  if (across && up) {
    const at = spot(point);
    u.ctx.beginPath();
    u.ctx.moveTo(at[0], u.valToPos(up.low, "y", true));
    u.ctx.lineTo(at[0], u.valToPos(up.high, "y", true));
    u.ctx.moveTo(u.valToPos(across.low, "x", true), at[1]);
    u.ctx.lineTo(u.valToPos(across.high, "x", true), at[1]);
    u.ctx.stroke();
    u.ctx.beginPath();
    u.ctx.arc(at[0], at[1], 6 * devicePixelRatio, 0, 2 * Math.PI);
    u.ctx.fill();
  }
  const chosen = chosenPlace();
  const other = chosen === null ? null : found.points[chosen];
  if (other && x(other) && y(other)) {
    const half = 6 * devicePixelRatio;
    const at = spot(other);
    u.ctx.strokeStyle = color("--ink");
    u.ctx.strokeRect(at[0] - half, at[1] - half, 2 * half, 2 * half);
  }
  u.ctx.restore();
}

function draw() {
  const { x, y, names, guide, free } = view();
  const of = (pick) => found.points.map((point) => pick(point) ?? null);
  const across = of((point) => x(point)?.value);
  // The line last, or the band of its intervals would be drawn over it.
  const data = [across, of((point) => y(point)?.low), of((point) => y(point)?.high), of((point) => y(point)?.value)];
  data.push(found.points.map((point, index) => (provenAt(index).length > 0 ? y(point)?.value ?? null : null)));
  if (guide) data.push(across);
  const top = free ? 1.05 * Math.max(...data[2].filter((each) => each !== null), Number.MIN_VALUE) : 1.05;
  const axis = (label, format, more) => ({
    stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") },
    values: (_, all) => all.map((each) => format.format(each)), label, labelSize: 22, ...more,
  });
  const hidden = { stroke: "transparent", points: { show: false } };
  if (plot) plot.destroy();
  place.replaceChildren();
  place.setAttribute("aria-label", `${names[1]}, against ${names[0]}, for every threshold`);
  plot = new uPlot({
    width: place.clientWidth,
    height: Math.max(260, Math.min(360, place.clientWidth * 0.7)),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    legend: { show: false },
    scales: { x: { time: false, range: [-0.02, 1.03] }, y: { range: [0, top] } },
    axes: [axis(names[0], tick), axis(names[1], free ? plain : tick, { size: 56 })],
    series: [
      {}, hidden, hidden, { stroke: color("--accent"), width: 2, points: { show: false } },
      { stroke: color("--good"), fill: "transparent", width: 6, points: { show: true, size: 18, fill: color("--good"), stroke: color("--good") } },
      ...(guide ? [{ stroke: color("--quiet"), dash: [6, 5], points: { show: false } }] : []),
    ],
    bands: [{ series: [2, 1], fill: color("--accent-soft") }],
    hooks: { draw: [mark] },
  }, data, place);
  plot.over.addEventListener("click", ({ offsetX, offsetY }) => {
    const far = (point) => (x(point) && y(point)
      ? Math.hypot(plot.valToPos(x(point).value, "x") - offsetX, plot.valToPos(y(point).value, "y") - offsetY) : Infinity);
    const best = found.points.reduce((near, point, index) => (far(point) < far(found.points[near]) ? index : near), 0);
    handle.value = best;
    move(best);
  });
}

// Costs that somebody writes are those of the picture, too.
async function load() {
  const address = new URL(place.dataset.thresholds, location.href);
  for (const [name, field] of [["false_negative", "missed"], ["false_positive", "alarm"]]) {
    const cost = Number(wish.elements[field].value);
    if (cost > 0 && cost <= 1e12) address.searchParams.set(name, cost);
  }
  const answer = await fetch(address);
  if (!answer.ok) return false;
  found = await answer.json();
  return true;
}

async function begin() {
  if (!(await load())) return;
  // An address that names the threshold under the handle shows it there again.
  const named = new URLSearchParams(location.search).get("at");
  const at = named ? chosenPlace() : null;
  handle.value = at ?? nearest(found.threshold);
  document.getElementById("moving").hidden = false;
  draw();
  show(Number(handle.value));
  sayElsewhere();
  wish.elements.at.value = at === null ? "" : named;
  placeUse();
  handle.addEventListener("input", () => move(Number(handle.value)));
  document.getElementById("views").addEventListener("change", () => { draw(); show(Number(handle.value)); });
  wish.addEventListener("change", async ({ target }) => {
    wish.elements.at.value = "";
    placeUse();
    clearTimeout(resting);
    resting = setTimeout(look, 250);
    if (["missed", "alarm"].includes(target.id) && (await load()) && shown() === "cost") draw();
    show(Number(handle.value));
  });
  new ResizeObserver(() => { if (plot && plot.width !== place.clientWidth) draw(); }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

begin();
