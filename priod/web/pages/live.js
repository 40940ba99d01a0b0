// Shows each new cycle without a reload and without a flicker: figures stay and take the new numbers.
// Without JavaScript the page is whole, and still.
"use strict";
let shown = document.getElementById("last")?.dataset.cycle ?? "", pending = null;

function renew(also) {
  if (document.hidden || document.querySelector("main :is(select, input):focus")) return;
  if (pending) return typeof also === "function" ? pending.then(() => renew(also)) : undefined; // the address has changed since
  return pending = fetched(also).finally(() => { pending = null; });
}

async function fetched(also) {
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"), next = page.querySelector("main"), main = document.querySelector("main");
    if (!next) return;
    if (typeof also === "function") also(page);
    const focused = document.activeElement?.closest("figure.chart, .map")?.id;
    for (const figure of next.querySelectorAll("figure.chart")) {
      const old = document.getElementById(figure.id);
      if (!old) continue;
      charts.update(old, figure);
      figure.replaceWith(old);
    }
    const map = next.querySelector(".map"), old = main.querySelector(".map");
    if (map && old) {
      map.replaceWith(old);
      clustermap.renew();
    }
    main.replaceChildren(...next.childNodes);
    for (const figure of main.querySelectorAll("figure.chart")) if (!figure.querySelector(".plot").hasChildNodes()) charts.draw(figure);
    if (!old) clustermap.begin();
    if (focused) document.getElementById(focused)?.querySelector("[tabindex]")?.focus({ preventScroll: true });
  } catch {
    // The daemon is away; the stream tells when it is back.
  }
}

function say(text) {
  const last = document.getElementById("last");
  if (last) last.textContent = text;
}

const stream = document.getElementById("moment") ? new EventTarget() : new EventSource("events"); // a moment stays as it is
stream.addEventListener("cycle", (event) => {
  const [cycle] = event.data.split(" "), at = event.data.slice(cycle.length + 1);
  if (at) say(at);
  if (event.data !== shown) renew();
  shown = event.data;
});
stream.addEventListener("error", () => {
  say(shown.slice(shown.indexOf(" ") + 1) + " (priod does not answer now)");
  if (stream.readyState === EventSource.CLOSED) setInterval(renew, 30000); // no place in the stream: look now and then
});
document.addEventListener("visibilitychange", renew);
document.addEventListener("change", (event) => event.target.closest("form.filters")?.requestSubmit());
