// Moves a page through what is recorded: the slider, and play. Without JavaScript the links and the form beside it do.
"use strict";
{
  const bar = document.getElementById("moment");
  const slide = bar?.querySelector("#slide"), play = bar?.querySelector(".play");
  let playing = 0;
  const at = () => new Date((Number(bar.dataset.origin) + 60 * slide.value) * 1000);

  // show puts the page of another moment in place of this one, with its links.
  async function show() {
    history.replaceState(null, "", bar.dataset.pattern.replace("TIME", at().toISOString().slice(0, 19) + "Z"));
    await renew((next) => {
      const head = next.getElementById("moment");
      if (!head) return;
      for (const part of [".replay", ".pick"]) if (head.querySelector(part)) bar.querySelector(part).replaceWith(head.querySelector(part));
      bar.querySelector("[name=time]").value = head.querySelector("[name=time]").value;
      bar.dataset.pattern = head.dataset.pattern;
      document.querySelector("nav").replaceWith(next.querySelector("nav"));
    });
  }

  function stop() {
    clearTimeout(playing);
    playing = 0;
    play.textContent = "play";
  }

  async function step() {
    if (Number(slide.value) >= Number(slide.max)) return stop();
    if (!document.hidden) {
      slide.value = Math.min(Number(slide.value) + 30, Number(slide.max));
      await show();
    }
    if (playing) playing = setTimeout(step, 700);
  }

  if (slide) {
    slide.hidden = play.hidden = false;
    slide.addEventListener("input", () => { slide.title = at().toLocaleString(); });
    slide.addEventListener("change", show);
    play.addEventListener("click", () => {
      if (playing) return stop();
      play.textContent = "pause";
      if (Number(slide.value) >= Number(slide.max)) slide.value = 0;
      playing = setTimeout(step, 0);
    });
  }
}
