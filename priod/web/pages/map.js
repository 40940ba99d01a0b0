// Draws each GPU of the cluster on a canvas: nodes as tiles, coloured by what their jobs are.
"use strict";
const clustermap = (() => {
  let root, data, tiles = [], size = 10, chosen = null, kept = false, groups = [];
  const setting = (name) => root.querySelector(`select[name=${name}]`).value;
  const hours = (s) => s <= 0 ? "over" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h" : Math.round(s / 86400) + " days";
  const seconds = (text) => Date.parse(text) / 1000;

  // prefix is a node's name without the number at its end, as racks and kinds of nodes are told.
  const prefix = (name) => name.replace(/[-_.]?[a-z]{0,4}\d+$/i, "") || name;
  const groupOf = { type: (n) => n.gpu_type || "no type", name: (n) => prefix(n.name), state: (n) => n.state.split("+")[0].toLowerCase() };

  const looks = ["solid", "hatch", "back", "dots", "bars", "cross"];

  // paints give each GPU in use its name, pattern and colour, and name the entries of the legend.
  function paints(by) {
    const { css, colour } = charts;
    const ranked = (of) => {
      const gpus = new Map();
      for (const j of data.jobs) gpus.set(of(j), (gpus.get(of(j)) ?? 0) + j.gpus);
      return [...gpus].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
    };
    const named = (of) => {
      const names = ranked(of), at = new Map(names.map((name, i) => [name, i])), other = ["others", "solid", css("--dim")];
      const look = (i) => [names[i], looks[Math.floor(i / 6) % looks.length], colour(i % 6)];
      return { of: (j) => at.get(of(j)) < 18 ? look(at.get(of(j))) : other, key: [...names.slice(0, 18).map((_, i) => look(i)), ...(names.length > 18 ? [other] : [])] };
    };
    switch (by) {
      case "user": return named((j) => j.user);
      case "account": return named((j) => j.account);
      case "type": {
        const types = [...new Set(data.nodes.map((n) => n.gpu_type ?? ""))].sort(), look = (i) => [types[i] || "no type", looks[i % looks.length], colour(i)];
        return { of: (j, n) => look(types.indexOf(n.gpu_type ?? "")), key: types.map((_, i) => look(i)) };
      }
      case "left": {
        const steps = [[3600, "ends within 1 h", "dots", 2], [14400, "within 4 h", "hatch", 5], [86400, "within a day", "back", 0], [Infinity, "later", "solid", 3]].map(([s, ...x]) => [s, [x[0], x[1], colour(x[2])]]), none = ["no end known", "cross", css("--dim")];
        const now = seconds(data.at);
        return { of: (j) => { const end = j.end ?? j.limit; return end ? steps.find(([s]) => end - now < s)[1] : none; }, key: [...steps.map(([, x]) => x), none] };
      }
      case "health": {
        const good = ["in use", "solid", css("--good")], slow = ["slow node", "hatch", colour(1)], down = ["in use on a node that drains", "cross", css("--bad")];
        return { of: (j, n) => n.down ? down : n.slow_factor ? slow : good, key: [good, slow, down] };
      }
    }
    const te = ["trial (TE)", "hatch", colour(1)], be = ["best-effort (BE)", "solid", colour(0)], other = ["not seen to start", "dots", css("--dim")], leaves = ["told to leave", "cross", css("--bad")], idle = ["held without work", "dots", css("--bad")];
    return { of: (j) => j.leaves_for ? leaves : j.idle ? idle : j.class === "te" ? te : j.class === "be" ? be : other, key: [te, be, idle, leaves, other] };
  }

  const states = () => {
    const { css } = charts;
    return { free: ["free", "outline", css("--dim")], stranded: ["stranded", "cross", css("--stranded")], down: ["down or drained", "back", css("--bad")], vacated: ["being vacated", "dots", css("--c2")], reserved: ["reserved", "hatch", css("--c3")], headroom: ["kept for trials", "bars", css("--c1")], unknown: ["in use, job not known", "bars", css("--dim")] };
  };

  const wide = (n) => n <= 4 ? n : Math.ceil(n / 2); // GPUs of a node stand in two rows

  function layout(width) {
    const only = root.dataset.type, nodes = data.nodes.filter((n) => !only || n.gpu_type === only), of = groupOf[setting("group")];
    const gpus = nodes.reduce((sum, n) => sum + n.gpus, 0);
    size = gpus <= 300 ? 16 : gpus <= 2000 ? 11 : gpus <= 12000 ? 7 : 4;
    const gap = size > 10 ? 8 : size > 6 ? 4 : 2, label = size > 10 ? 14 : 0;
    const by = new Map();
    for (const n of nodes) (by.get(of(n)) ?? by.set(of(n), []).get(of(n))).push(n);
    tiles = []; groups = [];
    const tile = (n) => [Math.max(wide(n.gpus) * size, label ? Math.min(n.name.length, 12) * 7 : 0) + gap, (n.gpus > 4 ? 2 : 1) * size + gap + label];
    let left = 0, top = 0, lowest = 0; // groups stand side by side where they are narrow
    for (const name of [...by.keys()].sort()) {
      const all = by.get(name), need = Math.max(all.reduce((sum, n) => sum + tile(n)[0], 0), 8 * (name.length + 12));
      if (left > 0 && left + need > width) { left = 0; top = lowest; }
      groups.push({ name, x: left, y: top, nodes: all.length });
      let x = left, y = top + 20, high = 0;
      for (const n of all) {
        const [w, h] = tile(n);
        if (x + w > width && x > left) { x = left; y += high; high = 0; }
        tiles.push({ n, x, y: y + label, w: w - gap, h: h - gap - label, label });
        x += w;
        high = Math.max(high, h);
      }
      lowest = Math.max(lowest, y + high + 8);
      left += need + 24;
    }
    return Math.max(lowest, 20);
  }

  const cell = (t, i) => [t.x + (i % wide(t.n.gpus)) * size, t.y + Math.floor(i / wide(t.n.gpus)) * size];

  function draw() {
    if (!data) return;
    const canvas = root.querySelector("canvas[tabindex]"), width = root.clientWidth, height = layout(width), px = devicePixelRatio;
    canvas.width = width * px;
    canvas.height = height * px;
    canvas.style.height = height + "px";
    const ctx = canvas.getContext("2d"), { css, pattern } = charts, paint = paints(setting("colour")), state = states(), used = new Set(), inner = size > 6 ? size - 2 : size - 1;
    ctx.scale(px, px);
    ctx.font = "600 13px system-ui, sans-serif";
    ctx.fillStyle = css("--ink");
    for (const g of groups) ctx.fillText(g.name + ", " + g.nodes + (g.nodes === 1 ? " node" : " nodes"), g.x, g.y + 13);
    ctx.font = "11px system-ui, sans-serif";
    for (const t of tiles) {
      if (!t.label) continue;
      ctx.fillStyle = css("--dim");
      ctx.fillText(t.n.name.length > 12 ? "…" + t.n.name.slice(-11) : t.n.name, t.x, t.y - 3);
    }
    const todo = new Map(); // by look, as a canvas is fast with
    for (const t of tiles) {
      const held = t.n.held ?? [];
      for (let i = 0; i < t.n.gpus; i++) {
        const look = i < held.length ? paint.of(data.jobs[held[i]], t.n) : i < t.n.gpus_in_use ? state.unknown : t.n.down ? state.down : t.n.vacated_for ? state.vacated : t.n.headroom ? state.headroom : /RESERVED|MAINT/.test(t.n.state) ? state.reserved : t.n.stranded ? state.stranded : state.free;
        const name = look.join();
        (todo.get(name) ?? todo.set(name, { look, at: [] }).get(name)).at.push(cell(t, i));
      }
    }
    for (const { look, at } of todo.values()) {
      used.add(look[0]);
      const plain = size <= 6 && look[1] !== "outline"; // no pattern can be told at that size
      ctx.fillStyle = plain ? look[2] : pattern(ctx, look[1], look[2]);
      ctx.strokeStyle = look[2];
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (const [x, y] of at) ctx.rect(x + 0.5, y + 0.5, inner, inner);
      if (look[1] !== "outline") ctx.fill();
      if (!plain) ctx.stroke();
    }
    const frames = { down: ["frame: down or drained", "outline", css("--bad")], slow: ["frame: slow", "outline", charts.colour(1)] }, framed = new Set();
    ctx.lineWidth = 2;
    for (const t of tiles) {
      const frame = t.n.down ? frames.down : t.n.slow_factor ? frames.slow : null;
      if (!frame) continue;
      framed.add(frame);
      ctx.strokeStyle = frame[2];
      ctx.strokeRect(t.x - 1, t.y - 1, wide(t.n.gpus) * size + 2, t.h + 2);
    }
    if (chosen) {
      const t = tiles.find((t) => t.n.name === chosen.name);
      if (t) {
        const [x, y] = cell(t, chosen.gpu);
        ctx.strokeStyle = css("--ink");
        ctx.strokeRect(x - 0.5, y - 0.5, size, size);
      }
    }
    const sum = (of) => data.nodes.reduce((n, x) => n + of(x), 0), count = (look, gpus) => look[0] + " (" + gpus + ")";
    const gpus = new Map();
    for (const { look, at } of todo.values()) gpus.set(look[0], at.length);
    charts.legend(root.querySelector(".key"), [...paint.key, ...Object.values(state)].filter((x) => used.has(x[0])).map((x) => [count(x, gpus.get(x[0])), x[1], x[2]]).concat([...framed]));
    canvas.setAttribute("aria-label", `each GPU of the cluster: ${sum((n) => n.gpus_in_use)} of ${sum((n) => n.gpus)} in use; ${[...gpus].map(([name, n]) => name + " " + n).join(", ")}`);
  }

  function tell() {
    const tip = root.querySelector(".tip");
    if (!chosen) return;
    const n = data.nodes.find((n) => n.name === chosen.name);
    if (!n) return;
    const job = data.jobs[n.held?.[chosen.gpu]], parts = [`${n.name} (${n.gpu_type || "no type"}, ${n.state.toLowerCase()}), ${n.gpus_in_use} of ${n.gpus} GPUs in use`];
    if (n.slow_factor) parts.push(`slow: jobs run ${n.slow_factor.toFixed(1)} times as long`);
    if (n.vacated_for) parts.push(`being vacated for job ${n.vacated_for}`);
    if (n.headroom) parts.push("kept for trials");
    if (n.stranded) parts.push(`free GPUs stranded: ${n.stranded}`);
    tip.replaceChildren(parts.join("; ") + ". ");
    if (job && !job.job) tip.append(`A job of ${job.user}.`); // whose jobs this viewer may not see
    else if (job) {
      const link = document.createElement("a"), now = seconds(data.at), end = job.end ?? job.limit;
      link.href = "job?id=" + encodeURIComponent(job.job);
      link.textContent = "Job " + job.job;
      tip.append(link, ` of ${job.user} (${job.account}), ${job.class ?? "class not known"}, ${job.gpus} ${job.gpus === 1 ? "GPU" : "GPUs"}, runs for ${hours(now - job.start)}` + (end ? `, ${job.end ? "expected to end" : "limit"} in ${hours(end - now)}` : "") + (job.idle ? `, without work: ${job.idle}` : "") + (job.leaves_for ? `, evicted for job ${job.leaves_for}` : ""));
    } else if (chosen.gpu >= n.gpus_in_use) tip.append("This GPU is free.");
  }

  function find(event) {
    const { left, top } = event.target.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
    const t = tiles.find((t) => x >= t.x - 1 && x <= t.x + wide(t.n.gpus) * size && y >= t.y - 1 && y <= t.y + t.h);
    if (!t) return null;
    const gpu = Math.min(wide(t.n.gpus) - 1, Math.max(0, Math.floor((x - t.x) / size))) + wide(t.n.gpus) * Math.max(0, Math.floor((y - t.y) / size));
    return gpu < t.n.gpus ? { name: t.n.name, gpu } : null;
  }

  function choose(at, keep) {
    if (!at || (!keep && kept)) return;
    chosen = at;
    kept = keep;
    tell();
    if (keep) draw();
  }

  async function renew() {
    if (!root?.isConnected) return;
    const answer = await fetch(root.dataset.src);
    if (!answer.ok) return;
    data = (await answer.json()).map;
    draw();
    if (kept) tell();
  }

  function begin() {
    root = document.querySelector(".map");
    if (!root) return;
    const asked = new URLSearchParams(location.search);
    for (const name of ["colour", "group"]) {
      const select = root.querySelector(`select[name=${name}]`);
      if ([...select.options].some((o) => o.value === asked.get(name))) select.value = asked.get(name);
      select.addEventListener("change", () => {
        const address = new URL(location.href);
        address.searchParams.set(name, select.value);
        history.replaceState(null, "", address);
        draw();
      });
    }
    const canvas = root.querySelector("canvas[tabindex]");
    canvas.addEventListener("mousemove", (event) => choose(find(event), false));
    canvas.addEventListener("click", (event) => {
      const at = find(event);
      if (!at) { kept = false; return; }
      choose(at, true);
    });
    canvas.addEventListener("dblclick", () => root.querySelector(".tip a")?.click());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter") root.querySelector(".tip a")?.click();
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step || tiles.length === 0) return;
      event.preventDefault();
      let t = Math.max(0, tiles.findIndex((t) => t.n.name === chosen?.name)), gpu = chosen ? chosen.gpu : 0;
      if (!chosen) return choose({ name: tiles[0].n.name, gpu: 0 }, true);
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") gpu += step; else { t += step; gpu = 0; }
      if (gpu < 0) { t--; gpu = 0; }
      if (tiles[t] && gpu >= tiles[t].n.gpus) { t++; gpu = 0; }
      if (tiles[t]) choose({ name: tiles[t].n.name, gpu }, true);
    });
    new ResizeObserver(draw).observe(root);
    renew();
  }

  addEventListener("DOMContentLoaded", begin);
  document.addEventListener("colours", draw);
  return { begin, renew };
})();
