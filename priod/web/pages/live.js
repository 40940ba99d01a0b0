// Shows each new cycle without a reload; without JavaScript the page is whole, and still.
"use strict";
const stream = new EventSource("events");
let shown = "";
stream.addEventListener("cycle", async (event) => {
  const cycle = event.data.split(" ")[0];
  const time = document.getElementById("last");
  if (time && event.data.includes(" ")) time.textContent = event.data.slice(cycle.length + 1);
  if (shown !== "" && cycle !== shown && !document.querySelector("main :focus")) {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (next) document.querySelector("main").replaceWith(next);
  }
  shown = cycle;
});
