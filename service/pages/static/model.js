// The handle on the precision-recall curve. Numbers come from GET /models/{id}/thresholds; what a threshold promises is
// asked of the server when the handle rests, as the form without script does.
const place = document.getElementById("curve");
const handle = document.getElementById("handle");
const wish = document.getElementById("wish");
const share = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });
let found = null;
let plot = null;
let resting = 0;
let asked = 0;

const put = (id, text) => { document.getElementById(id).textContent = text; };
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const range = (each, format) => (each ? `${format.format(each.low)} to ${format.format(each.high)}` : "");

function show(index) {
  const point = found.points[index];
  const rows = found.positives + found.negatives;
  const flagged = point.true_positives + point.false_positives;
  const of = (count) => Math.round((1000 * count) / rows).toLocaleString();
  put("precision", point.precision ? share.format(point.precision.value) : "–");
  put("precision-range", range(point.precision, share));
  put("recall", point.recall ? share.format(point.recall.value) : "–");
  put("recall-range", range(point.recall, share));
  document.getElementById("cost-fact").hidden = !point.cost;
  put("cost", point.cost ? plain.format(point.cost.value) : "");
  put("cost-range", range(point.cost, plain));
  const words = `Of 1,000 rows: ${of(flagged)} flagged, ${of(point.false_positives)} of them wrong, ${of(found.positives - point.true_positives)} missed.`;
  put("thousand", words);
  handle.setAttribute("aria-valuetext", words);
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

function wishFor(index) {
  const point = found.points[index];
  const kind = wish.elements.kind.value === "recall" ? "recall" : "precision";
  const measured = point[kind];
  if (!measured || measured.value === 0) return;
  wish.elements.kind.value = kind;
  // Rounded down, so that the point itself reaches it.
  wish.elements.target.value = Math.floor(measured.value * 10000) / 100;
  wish.elements.at.value = point.threshold;
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
    document.getElementById("preview").replaceWith(fresh);
    sayElsewhere();
    if (plot) plot.redraw(false);
    history.replaceState(null, "", address);
  } catch {
    // The button is still there.
  }
}

function draw() {
  const of = (pick) => found.points.map((point) => pick(point) ?? null);
  const data = [
    of((point) => point.recall?.value),
    of((point) => point.precision?.value),
    of((point) => point.precision?.low),
    of((point) => point.precision?.high),
  ];
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, values: (_, all) => all.map((each) => share.format(each)) };
  const mark = (u) => {
    const point = found.points[Number(handle.value)];
    if (!point.precision || !point.recall) return;
    const at = [u.valToPos(point.recall.value, "x", true), u.valToPos(point.precision.value, "y", true)];
    const ends = [u.valToPos(point.precision.low, "y", true), u.valToPos(point.precision.high, "y", true)];
    const sides = [u.valToPos(point.recall.low, "x", true), u.valToPos(point.recall.high, "x", true)];
    u.ctx.save();
    u.ctx.strokeStyle = u.ctx.fillStyle = color("--focus");
    u.ctx.lineWidth = 2 * devicePixelRatio;
    u.ctx.beginPath();
    u.ctx.moveTo(at[0], ends[0]);
    u.ctx.lineTo(at[0], ends[1]);
    u.ctx.moveTo(sides[0], at[1]);
    u.ctx.lineTo(sides[1], at[1]);
    u.ctx.stroke();
    u.ctx.beginPath();
    u.ctx.arc(at[0], at[1], 6 * devicePixelRatio, 0, 2 * Math.PI);
    u.ctx.fill();
    const chosen = chosenPlace();
    const other = chosen === null ? null : found.points[chosen];
    if (other?.precision && other.recall) {
      const half = 6 * devicePixelRatio;
      u.ctx.strokeStyle = color("--ink");
      u.ctx.strokeRect(u.valToPos(other.recall.value, "x", true) - half, u.valToPos(other.precision.value, "y", true) - half, 2 * half, 2 * half);
    }
    u.ctx.restore();
  };
  if (plot) plot.destroy();
  place.replaceChildren();
  plot = new uPlot({
    width: place.clientWidth,
    height: Math.max(260, Math.min(360, place.clientWidth * 0.7)),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    legend: { show: false },
    scales: { x: { time: false, range: [0, 1] }, y: { range: [0, 1.02] } },
    axes: [{ ...axis, label: "Recall", labelSize: 22 }, { ...axis, label: "Precision", labelSize: 22, size: 56 }],
    series: [{}, { stroke: color("--accent"), width: 2, points: { show: false } }, ...[1, 2].map(() => ({ stroke: "transparent", points: { show: false } }))],
    bands: [{ series: [3, 2], fill: color("--accent-soft") }],
    hooks: { draw: [mark] },
  }, data, place);
  plot.over.addEventListener("click", () => {
    // uPlot's index is that of the nearest recall.
    if (plot.cursor.idx !== null) { handle.value = plot.cursor.idx; show(plot.cursor.idx); wishFor(plot.cursor.idx); }
  });
}

async function begin() {
  const answer = await fetch(place.dataset.thresholds);
  if (!answer.ok) return;
  found = await answer.json();
  handle.value = nearest(found.threshold);
  document.getElementById("moving").hidden = false;
  draw();
  show(Number(handle.value));
  sayElsewhere();
  handle.addEventListener("input", () => { show(Number(handle.value)); wishFor(Number(handle.value)); });
  wish.addEventListener("change", () => {
    wish.elements.at.value = "";
    clearTimeout(resting);
    resting = setTimeout(look, 250);
  });
  new ResizeObserver(() => { if (plot && plot.width !== place.clientWidth) draw(); }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

begin();
