// Draws the figures of a page with uPlot: curves, bars and lines of time. What is drawn stands in the
// page as JSON, its numbers in a table, so that a page without JavaScript is whole.
"use strict";
const charts = (() => {
  let colours = {};
  const css = (name) => colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (i) => css("--c" + i % 7);
  const dashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
  const font = "12px system-ui, sans-serif";
  const two = (n) => String(n).padStart(2, "0");
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  // number has three digits, and no more than tell it.
  const number = (v) => Math.abs(v) >= 100 ? String(Math.round(v)) : String(+v.toPrecision(3));

  // at is a time in s as a date whose UTC fields are those of the host's clock: zone lists [from, offset] in s.
  const at = (zone, t) => {
    let offset = 0;
    for (const [from, s] of zone ?? []) if (t >= from) offset = s;
    return new Date((t + offset) * 1000);
  };
  const clock = (d) => two(d.getUTCHours()) + ":" + two(d.getUTCMinutes());
  const day = (d) => months[d.getUTCMonth()] + " " + d.getUTCDate();
  const moment = (zone, t) => day(at(zone, t)) + " " + clock(at(zone, t));

  // ticks are at whole minutes, hours or days of the host's clock.
  const steps = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const ticks = (zone) => (u, axis, min, max) => {
    let step = steps.find((s) => (max - min) / s <= Math.max(2, u.bbox.width / devicePixelRatio / 75)) ?? 2592000;
    while ((max - min) / step > 20) step *= 2;
    const all = [], offset = at(zone, min).getTime() / 1000 - min;
    for (let t = Math.ceil((min + offset) / step) * step - offset; t <= max; t += step) all.push(t);
    return all;
  };
  const tickTexts = (zone) => (u, splits) => splits.map((t, i) => {
    const d = at(zone, t);
    if (clock(d) === "00:00" && splits.length > 1 && splits[1] - splits[0] >= 86400) return day(d);
    return i === 0 || clock(d) === "00:00" ? clock(d) + "\n" + day(d) : clock(d);
  });

  const axis = (label, more) => ({
    label: label || undefined, stroke: () => css("--dim"), font, labelFont: font, labelSize: label ? 20 : 0,
    grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 }, ...more,
  });
  const widest = (u, texts) => 22 + 7 * Math.max(3, ...(texts ?? []).map((t) => String(t ?? "").length));

  // key moves and zooms the x axis.
  const key = (u, event) => {
    const { min, max } = u.scales.x, all = u.data[0], [first, last] = u.extent ?? [all[0], all[all.length - 1]];
    const step = (max - min) / 4;
    const to = { "+": [min + step, max - step], "-": [min - step, max + step], ArrowLeft: [min - step, max - step], ArrowRight: [min + step, max + step], 0: [first, last], Escape: [first, last] }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    u.setScale("x", { min: Math.max(first, to[0]), max: Math.min(last, to[1]) });
  };

  // curveData has all curves at the same x, from the first to the last of the figure's range; the last step goes on to its end.
  function curveData(f) {
    const data = f.curves.length > 1 ? uPlot.join(f.curves.map((c) => [c.x, c.y])) : [[...f.curves[0].x], [...f.curves[0].y]];
    if (!f.range) return data;
    const [xs, ...ys] = data, [from, until] = f.range;
    if (xs[0] > from) { xs.unshift(from); ys.forEach((y) => y.unshift(null)); }
    if (xs.at(-1) < until) { xs.push(until); ys.forEach((y) => y.push(f.steps ? y.at(-1) : null)); }
    return data;
  }

  // stack has each curve on top of the earlier ones, the topmost first, so that the lower ones are painted over it.
  function stack(data) {
    const sums = [], [xs, ...ys] = data;
    ys.forEach((y, i) => sums.push(y.map((v, k) => v == null ? (i ? sums[i - 1][k] : null) : v + (i ? sums[i - 1][k] ?? 0 : 0))));
    return [xs, ...sums.reverse()];
  }

  function curves(box, f) {
    const plain = curveData(f), n = f.curves.length, paint = (i) => f.stacked ? n - 1 - i : i;
    const text = f.times ? (t) => moment(f.zone, t) : number;
    const x = f.times ? { splits: ticks(f.zone), values: tickTexts(f.zone), size: 54 } : { values: (u, all) => all.map((v) => v == null ? "" : number(v)) };
    const u = new uPlot({
      width: box.clientWidth, height: 300, pxAlign: 0,
      cursor: { drag: { x: true, y: false }, sync: f.times ? { key: "times", setSeries: false } : undefined },
      scales: {
        x: { time: false, distr: f.log_x ? 3 : 1 },
        y: { range: (u, lo, hi) => lo == null ? [0, 1] : f.scatter ? uPlot.rangeNum(lo, hi, 0.1, false) : [Math.min(lo, 0), hi > 0 ? hi * 1.05 : 1] },
      },
      axes: [axis(f.x_label, x), axis(f.y_label, { size: widest, values: (u, all) => all.map(number) })],
      series: [{ label: f.x_label || "x", value: (u, v) => v == null ? "" : text(v) }, ...(f.stacked ? f.curves.toReversed() : f.curves).map((c, i) => ({
        label: c.name, stroke: () => colour(paint(i)), fill: f.stacked ? () => paint(i) < 7 ? colour(paint(i)) : css("--paper") : undefined,
        width: f.scatter ? 0 : f.stacked ? 1 : f.beneath ? 2 + 1.5 * (n - 1 - i) : 2, dash: f.stacked ? [] : dashes[i % dashes.length], spanGaps: !f.stacked,
        paths: f.scatter ? () => null : f.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: { show: !!(f.points || f.scatter || c.x.length === 1), size: f.scatter ? 9 : 6, width: 2, fill: () => f.scatter && i % 2 ? css("--paper") : colour(i), stroke: () => colour(i) },
        value: (u, v, s, k) => (v = f.stacked && k != null ? plain[n + 1 - s][k] : v) == null ? "" : number(v),
      }))],
    }, f.stacked ? stack(plain) : plain, box);
    return u;
  }

  const spark = (box, f) => new uPlot({
    width: box.clientWidth, height: 40, pxAlign: 0, legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false }, y: { range: (u, lo, hi) => [Math.min(lo ?? 0, 0), hi > 0 ? hi * 1.1 : 1] } },
    axes: [{ show: false }, { show: false }], series: [{}, { stroke: () => colour(0), width: 2, points: { show: false } }],
  }, curveData(f), box);

  function bars(box, f) {
    const names = f.bars.map((b) => b.name), xs = names.map((_, i) => i);
    const turned = box.clientWidth / names.length < 9 * Math.max(...names.map((n) => n.length));
    return new uPlot({
      width: box.clientWidth, height: turned ? 340 : names.length < 4 ? 180 : 280, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, range: [-0.6, names.length - 0.4] }, y: { range: (u, lo, hi) => [Math.min(lo ?? 0, 0), hi > 0 ? hi * 1.05 : 1] } },
      axes: [
        axis("", { splits: () => xs, values: () => names, grid: { show: false }, rotate: turned ? -35 : 0, size: turned ? 90 : 30 }),
        axis(f.y_label, { size: widest, values: (u, all) => all.map(number) }),
      ],
      series: [{ label: f.x_label || "", value: (u, v) => names[v] ?? "" }, {
        label: f.y_label || "value", stroke: () => colour(0), fill: () => colour(0), paths: uPlot.paths.bars({ size: [0.6, 60] }), points: { show: false }, value: (u, v) => v == null ? "" : number(v),
      }],
    }, [xs, f.bars.map((b) => b.value)], box);
  }

  // pattern is a fill that is told by more than its colour.
  const made = new Map();
  function pattern(ctx, kind, paint) {
    if (kind === "solid") return paint;
    const name = kind + paint, size = 8;
    if (made.has(name)) return made.get(name);
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const c = tile.getContext("2d");
    c.strokeStyle = c.fillStyle = paint;
    c.lineWidth = 2;
    if (kind !== "outline") {
      c.globalAlpha = 0.3;
      c.fillRect(0, 0, size, size);
      c.globalAlpha = 1;
    }
    const line = (...p) => { c.beginPath(); c.moveTo(p[0], p[1]); c.lineTo(p[2], p[3]); c.stroke(); };
    if (kind === "hatch" || kind === "cross") for (const d of [-size, 0, size]) line(d, size, d + size, 0);
    if (kind === "back" || kind === "cross") for (const d of [-size, 0, size]) line(d, 0, d + size, size);
    if (kind === "dots") c.fillRect(2, 2, 3, 3);
    if (kind === "bars") line(2, 0, 2, size);
    const fill = ctx.createPattern(tile, "repeat");
    made.set(name, fill);
    return fill;
  }

  // key of colours and patterns: [name, pattern, colour] each.
  function legend(list, entries) {
    list.replaceChildren(...entries.map(([name, kind, paint]) => {
      const item = document.createElement("li"), sample = document.createElement("canvas");
      sample.width = 22; sample.height = 14;
      const c = sample.getContext("2d");
      c.fillStyle = pattern(c, kind, paint);
      c.fillRect(0, 0, 22, 14);
      c.strokeStyle = paint;
      c.strokeRect(0.5, 0.5, 21, 13);
      item.append(sample, " " + name);
      return item;
    }));
  }

  const kinds = {
    be: ["runs, best-effort", "solid", "--c0"], te: ["runs, trial (TE)", "hatch", "--c1"], tail: ["one of ten still runs", "dots", "--c5"],
    start: ["starts: median to nine of ten", "back", "--c4"], "next-be": ["expected run, best-effort", "bars", "--c0"], "next-te": ["expected run, trial (TE)", "bars", "--c1"],
    waited: ["waited", "dots", "--c4"], left: ["told to leave", "cross", "--bad"], room: ["others leave for it", "back", "--c2"], wrote: ["priod wrote", "solid", "--ink"], reserved: ["reservation", "hatch", "--c3"],
  };

  function timeline(box, f) {
    const high = 22, n = f.rows.length, tip = document.createElement("p");
    tip.className = "tip";
    tip.setAttribute("aria-live", "polite");
    let chosen = null;
    const short = (s) => s.length > 18 ? s.slice(0, 17) + "…" : s;
    const tell = (row, bar) => {
      chosen = row;
      tip.textContent = !row ? "" : row.label + (bar ? ": " + bar.words + " (" + moment(f.zone, bar.from) + (bar.until > bar.from ? " to " + moment(f.zone, bar.until) : "") + ")" : "");
    };
    const u = new uPlot({
      width: box.clientWidth, height: n * high + 60, pxAlign: 0, legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { show: false } },
      scales: { x: { time: false, range: (u, lo, hi) => [lo, hi] }, y: { range: () => [0, n], dir: -1 } },
      axes: [
        axis("", { side: 0, splits: ticks(f.zone), values: tickTexts(f.zone), size: 48 }),
        axis("", { splits: () => f.rows.map((_, i) => i + 0.5), values: () => f.rows.map((r) => short(r.label)), grid: { show: false }, size: (u, texts) => Math.min(widest(u, texts), box.clientWidth / 3) }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(u) => {
          const { ctx, bbox } = u, px = devicePixelRatio;
          ctx.save();
          ctx.beginPath();
          ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
          ctx.clip();
          f.rows.forEach((row, i) => {
            const top = u.valToPos(i, "y", true) + 3 * px, height = (high - 6) * px;
            for (const b of row.bars) {
              const [, kind, paint] = kinds[b.kind] ?? kinds.be, x = u.valToPos(b.from, "x", true), width = Math.max(2 * px, u.valToPos(b.until, "x", true) - x);
              ctx.fillStyle = pattern(ctx, kind, css(paint));
              ctx.fillRect(x, top, width, height);
              ctx.strokeStyle = css(paint);
              ctx.lineWidth = px;
              ctx.strokeRect(x, top, width, height);
            }
          });
          if (f.now >= u.scales.x.min && f.now <= u.scales.x.max) {
            const x = u.valToPos(f.now, "x", true);
            ctx.fillStyle = css("--ink");
            ctx.fillRect(x, bbox.top, 2 * px, bbox.height);
          }
          ctx.restore();
        }],
        setCursor: [(u) => {
          const { left, top } = u.cursor;
          if (left < 0) return;
          const row = f.rows[Math.floor(u.posToVal(top, "y"))], t = u.posToVal(left, "x"), near = 3 * (u.scales.x.max - u.scales.x.min) / u.over.clientWidth;
          tell(row, row?.bars.findLast((b) => t >= b.from - near && t <= b.until + near));
        }],
      },
    }, [[f.from, f.until], [null, null]], box);
    u.extent = [f.from, f.until];
    u.over.addEventListener("click", () => { if (chosen?.job) location.href = "job?id=" + encodeURIComponent(chosen.job); });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.key === "Enter" && chosen?.job) location.href = "job?id=" + encodeURIComponent(chosen.job);
      if (!step) return;
      event.preventDefault();
      const row = f.rows[Math.max(0, Math.min(n - 1, f.rows.indexOf(chosen) + step))];
      tell(row, row?.bars.at(-1));
    });
    const list = document.createElement("ul");
    list.className = "key";
    const used = new Set(f.rows.flatMap((r) => r.bars.map((b) => b.kind)));
    legend(list, Object.keys(kinds).filter((k) => used.has(k)).map((k) => [kinds[k][0], kinds[k][1], css(kinds[k][2])]));
    box.append(list, tip);
    return u;
  }

  const drawn = new Map(); // by the box

  const jsonOf = (figure) => figure.querySelector("script").textContent;

  function draw(figure) {
    const box = figure.querySelector(".plot"), text = jsonOf(figure), f = JSON.parse(text);
    drawn.get(box)?.plot.destroy();
    box.replaceChildren();
    const plot = (f.rows ? timeline : f.bars ? bars : f.spark ? spark : curves)(box, f);
    if (!drawn.has(box)) {
      box.addEventListener("keydown", (event) => key(drawn.get(box).plot, event));
      new ResizeObserver(() => {
        const { plot } = drawn.get(box);
        if (box.clientWidth > 0 && box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: plot.height });
      }).observe(box);
    }
    drawn.set(box, { plot, f, text });
  }

  // update draws what another page has of a figure, and keeps the part of it that a reader has chosen.
  function update(figure, next) {
    const text = jsonOf(next);
    for (const part of ["script", "details"]) {
      const [was, is] = [figure.querySelector(part), next.querySelector(part)];
      if (was && is) {
        if (part === "details") is.open = was.open;
        was.replaceWith(is);
      }
    }
    const box = figure.querySelector(".plot"), now = drawn.get(box);
    if (!now || now.text === text) return;
    const f = JSON.parse(text), { min, max } = now.plot.scales.x, all = now.plot.extent ?? [now.plot.data[0][0], now.plot.data[0].at(-1)], zoomed = min > all[0] || max < all[1];
    if (f.curves && now.f.curves?.length === f.curves.length && f.curves.every((c, i) => c.name === now.f.curves[i].name)) {
      now.plot.setData(curveData(f), !zoomed);
      Object.assign(now, { f, text });
    } else draw(figure);
  }

  const all = () => document.querySelectorAll("figure.chart");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = {};
    made.clear();
    all().forEach(draw);
    document.dispatchEvent(new Event("colours"));
  });
  addEventListener("DOMContentLoaded", () => all().forEach(draw));
  return { css, colour, pattern, legend, draw, update, moment };
})();
