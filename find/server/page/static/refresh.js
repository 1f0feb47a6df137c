// Looks at the same view again, and puts it in the place of the old one if it is another. Without it the page is the same,
// until somebody loads it again.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const seconds = Number(main().dataset.refresh);
  // Nothing moves below the hands of somebody who is at it.
  const busy = () => document.hidden || (document.activeElement !== document.body && main().contains(document.activeElement)) ||
    main().querySelector("details[open]") || String(document.getSelection());
  const look = async () => {
    if (busy()) return;
    try {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (next && !busy() && next.innerHTML !== main().innerHTML) {
        main().replaceWith(document.adoptNode(next));
      }
    } catch {
      // The server is away, or the session is over: the next load says so.
    }
  };
  setInterval(look, seconds * 1000);
})();
