// Stacked bars over a row of places, drawn by uPlot: one bar per request or per day. By keyboard it is a slider whose
// value is told in words; a table of the same figures stands beside every chart.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { short } from "./format.js";
import { useWidth } from "./parts.js";

const MARK_ROOM = 22, MOST_BAR_PIXELS = 46;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

/** Turns with every change between light and dark: what is drawn on a canvas does not follow the style sheet. */
function useScheme() {
  const [isDark, setIsDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setIsDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isDark;
}

/** Sums from the bottom up: the last layer is the whole. */
function stacked(layers) {
  const sums = [];
  for (const { values } of layers) {
    const below = sums[sums.length - 1];
    sums.push(values.map((value, index) => (value || 0) + (below ? below[index] : 0)));
  }
  return sums;
}

function drawLines(plot, lines) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  for (const line of lines) {
    const y = Math.round(plot.valToPos(line.value, "y", true)) + 0.5;
    if (y < bbox.top - 1 || y > bbox.top + bbox.height) continue;
    const stroke = (style, width) => {
      ctx.strokeStyle = color(style); ctx.lineWidth = width * ratio;
      ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
    };
    // A light edge, so that it is seen on bars too.
    ctx.setLineDash([]); ctx.globalAlpha = 0.75; stroke("card", 3); ctx.globalAlpha = 1;
    ctx.setLineDash([5 * ratio, 4 * ratio]); stroke(line.color, 1);
    ctx.fillStyle = color(line.color);
    ctx.textAlign = "left"; ctx.textBaseline = "bottom";
    ctx.strokeStyle = color("card"); ctx.lineWidth = 4 * ratio; ctx.setLineDash([]); ctx.lineJoin = "round";
    ctx.strokeText(line.label, bbox.left + 6 * ratio, y - 3 * ratio);
    ctx.fillText(line.label, bbox.left + 6 * ratio, y - 3 * ratio);
  }
  ctx.restore();
}

function drawMarks(plot, marks) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `600 ${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  ctx.textAlign = "center"; ctx.textBaseline = "middle";
  let free = Infinity;
  for (const mark of [...marks].reverse()) {
    const x = Math.round(plot.valToPos(mark.at, "x", true)) + 0.5;
    if (x < bbox.left - 2 || x > bbox.left + bbox.width + 2) continue;
    const top = bbox.top - (MARK_ROOM - 10) * ratio;
    ctx.strokeStyle = ctx.fillStyle = color(mark.isFaint ? "soft" : "accent");
    ctx.setLineDash(mark.isFaint ? [3 * ratio, 3 * ratio] : []);
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    // Labels of compactions close to each other stand side by side.
    const middle = Math.min(x, free);
    free = middle - 20 * ratio;
    ctx.beginPath(); ctx.arc(middle, top, 9 * ratio, 0, 7); ctx.fill();
    ctx.fillStyle = color("paper");
    ctx.fillText(mark.label, middle, top + 0.5 * ratio);
  }
  ctx.restore();
}

function optionsFor({ width, height, layers, lines, marks, tops, nameOf, figureOf, onPlace }) {
  const bars = uPlot.paths.bars({ size: [0.86, MOST_BAR_PIXELS], gap: 0, align: 0 });
  const axis = { stroke: color("soft"), font: '12px system-ui, "DejaVu Sans", sans-serif', ticks: { show: false } };
  // The whole is drawn first and the lowest layer last, each from the ground up.
  const series = layers.map((layer) => ({ fill: color(layer.color), width: 0, paths: bars, points: { show: false } })).reverse();
  const size = tops.length, inRange = lines.filter((line) => line.isInRange);
  return {
    width, height, padding: [marks.length ? MARK_ROOM : 8, marks.length ? 12 : 8, 0, 0], legend: { show: false },
    scales: {
      x: { time: false, range: [-0.6, Math.max(size - 0.4, 0.6)] },
      y: { range: (_, __, highest) => [0, Math.max(highest * 1.06, ...inRange.map((line) => line.value * 1.08)) || 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 70, incrs: STEPS, values: (_, places) => places.map((at) => (at in tops ? nameOf(at) : "")) },
      { ...axis, grid: { stroke: color("line"), width: 1 }, size: 58, values: (_, values) => values.map(figureOf) },
    ],
    series: [{}, ...series],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    hooks: {
      draw: [(plot) => { drawLines(plot, lines); drawMarks(plot, marks); }],
      setCursor: [(plot) => onPlace(plot.cursor.left < 0 ? null : plot.cursor.idx)],
    },
  };
}

/** `layers`: from the ground up, `{values, color}`. `marks`: `{at, label}` between places. `tell(place)`: it in words. */
export function Chart({ layers, lines = [], marks = [], height = 260, label, tell, nameOf, figureOf = short, version = "" }) {
  const [holder, width] = useWidth();
  const target = useRef(null), plot = useRef(null);
  const isDark = useScheme();
  const size = layers[0].values.length;
  const [place, setPlace] = useState(null);
  const [chosen, setChosen] = useState(Math.max(0, size - 1));
  useLayoutEffect(() => {
    if (!width || !size) return undefined;
    const sums = stacked(layers), tops = sums[sums.length - 1];
    const data = [tops.map((_, index) => index), ...sums.reverse()];
    const options = optionsFor({ width, height, layers, lines, marks, tops, nameOf, figureOf, onPlace: setPlace });
    plot.current = new uPlot(options, data, target.current);
    return () => { plot.current.destroy(); plot.current = null; };
  }, [width, height, isDark, version, size]);
  const point = (at) => {
    setChosen(at);
    if (plot.current) plot.current.setCursor({ left: plot.current.valToPos(at, "x"), top: 10 });
  };
  const keys = (event) => {
    const far = Math.max(1, Math.round(size / 10));
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point(Math.max(0, Math.min(size - 1, chosen + step)));
  };
  const leave = () => plot.current && plot.current.setCursor({ left: -10, top: -10 });
  const at = Math.min(chosen, size - 1);
  return html`<div class="chart" ref=${holder}>
    <div ref=${target} class="plot" role="slider" tabindex="0" aria-label=${label} aria-valuemin="0" aria-valuemax=${Math.max(0, size - 1)}
      aria-valuenow=${at} aria-valuetext=${size ? tell(at) : "nothing yet"} onKeyDown=${keys} onBlur=${leave}></div>
    <p class="tell" aria-hidden="true">${place === null || place >= size ? html`<span class="soft">${label}. Point at a bar to read it.</span>` : tell(place)}</p>
  </div>`;
}

/** Figures as a table: the first of a row is its name. Long ones come in pages. */
export function FiguresTable({ caption = "", label = caption, heads, rows, page = 100 }) {
  const [shown, setShown] = useState(page);
  const left = rows.length - shown;
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>
    <table>${caption && html`<caption>${caption}</caption>`}
      <thead><tr>${heads.map((head, index) => html`<th scope="col" class=${index ? "num" : ""}>${head}</th>`)}</tr></thead>
      <tbody>${rows.slice(0, shown).map(([name, ...figures]) => html`<tr>
        <th scope="row">${name}</th>${figures.map((figure) => html`<td class="num">${figure}</td>`)}</tr>`)}</tbody></table>
    ${left > 0 && html`<p class="show-more">
      <button type="button" onClick=${() => setShown(shown + page)}>Show ${Math.min(page, left)} more</button>
      <span class="soft">${shown} of ${rows.length}</span></p>`}</div>`;
}
