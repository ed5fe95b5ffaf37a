// What a page does by itself: takes updated parts from the server, follows the theme, tells when the connection is lost.
"use strict";
(() => {
  const root = document.documentElement;
  let restyled = null;

  // Change only what differs: the focus, the selection and opened details stay.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
    // Whether details are open is the reader's choice.
    const is_kept = (name) => name === "open" && old.nodeName === "DETAILS";
    for (const { name, value } of [...fresh.attributes]) {
      if (!is_kept(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!is_kept(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    children(old, fresh);
  }
  function children(old, fresh) {
    const known = new Map([...old.children].filter((each) => each.dataset.key).map((each) => [each.dataset.key, each]));
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const same = next.dataset?.key ? known.get(next.dataset.key) : undefined;
      if (same !== undefined) {
        if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
        morph(same, next);
      } else if (at === null || at.dataset?.key || next.dataset?.key) {
        old.insertBefore(next, at);
      } else {
        const after = at.nextSibling;
        morph(at, next);
        at = after;
      }
    }
    while (at !== null) { const after = at.nextSibling; at.remove(); at = after; }
  }

  function update(parts) {
    const entries = parts instanceof Map ? parts.entries() : Object.entries(parts);
    for (const [name, html] of entries) {
      const part = document.getElementById(`part-${name}`);
      if (part === null) continue;
      const fresh = document.createElement("template");
      fresh.innerHTML = html;
      children(part, fresh.content);
    }
    root.dataset.updates = String(Number(root.dataset.updates ?? 0) + 1);
  }

  // Bokeh draws on a canvas, which CSS does not reach: a model's tags name the colours of its properties.
  function restyle() {
    const style = getComputedStyle(root);
    for (const model of restyled?.all_models ?? []) {
      for (const tag of model.tags) {
        if (typeof tag !== "string" || !tag.includes("=")) continue;
        const [property, variable] = tag.split("=");
        model.setv({ [property]: style.getPropertyValue(variable).trim() }, { sync: false });
      }
    }
  }

  function connection(state, text) {
    const shown = document.getElementById("connection");
    if (shown === null) return;
    shown.className = `connection ${state}`;
    shown.textContent = text;
  }

  // Connect the page to its session. All scripts are files, so that the page's policy can forbid any other.
  async function connect() {
    await Bokeh.embed.embed_items({}, [JSON.parse(document.getElementById("session").textContent)]);
    const shown = Bokeh.documents[0];
    if (shown === undefined) { lost(); return; }
    shown.on_event("connection_lost", () => lost());
    const parts = shown.get_model_by_name("update");
    parts.properties.parts.change.connect(() => update(parts.parts));
    const ready = () => {
      restyled = shown;
      restyle();
      connection("live", "live");
      // The server renders nothing for a page that nobody sees.
      const follow = () => { parts.is_ready = !document.hidden; };
      document.addEventListener("visibilitychange", follow);
      follow();
      root.dataset.ready = "true";
    };
    if (shown.is_idle) ready(); else shown.idle.connect(ready);
  }

  // The session of a server that went away cannot be resumed: load the page again once there is a server.
  async function lost() {
    if (document.getElementById("connection") === null) return;
    connection("lost", "connection lost");
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      try {
        const { ok, status } = await fetch("healthz", { cache: "no-store" });
        // A new run has a new token: the server's answer says where to find it.
        if (ok || status === 401) { location.reload(); return; }
      } catch { /* not yet */ }
    }
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const is_dark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  function label() {
    const button = document.querySelector("button.theme");
    if (button !== null) button.textContent = is_dark() ? "Light" : "Dark";
  }
  function remember(theme) { try { localStorage.setItem("penstock-theme", theme); } catch { /* private window */ } }
  function recall() { try { return localStorage.getItem("penstock-theme"); } catch { return null; } }
  const chosen = recall();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  dark.addEventListener("change", () => { label(); restyle(); });
  document.addEventListener("DOMContentLoaded", () => {
    label();
    document.querySelector("button.theme")?.addEventListener("click", () => {
      root.dataset.theme = is_dark() ? "light" : "dark";
      remember(root.dataset.theme);
      label();
      restyle();
    });
    connect();
  });
})();
