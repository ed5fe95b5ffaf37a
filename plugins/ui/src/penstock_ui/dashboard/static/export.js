// Exports of the Gantt chart: as SVG, as PNG in the colours of the theme, and as data. Works in a report from a disk, too.
"use strict";
(() => {
  const LABEL = 110, WIDTH = 900, ROW = 20, NS = "http://www.w3.org/2000/svg";

  function save(name, address) {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
  }
  const data_url = (type, text) => `data:${type};charset=utf-8,${encodeURIComponent(text)}`;

  // The colour of a phase: that of its mark in the key.
  function color(phase) {
    const probe = document.createElement("span");
    probe.className = phase;
    document.body.append(probe);
    const found = getComputedStyle(probe).getPropertyValue("--part").trim();
    probe.remove();
    return found || "#888";
  }

  function drawing(chart) {
    const rows = JSON.parse(chart.dataset.rows), names = JSON.parse(chart.dataset.names);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim(), surface = style.getPropertyValue("--surface").trim();
    const length = Math.max(1, ...rows.flatMap((row) => row.phases.map((phase) => phase.end - row.batchTime)));
    const height = (rows.length + 2) * ROW;
    const svg = document.createElementNS(NS, "svg");
    const add = (name, attributes, text) => {
      const element = document.createElementNS(NS, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      if (text !== undefined) element.textContent = text;
      svg.append(element);
    };
    for (const [key, value] of Object.entries({ xmlns: NS, width: LABEL + WIDTH, height, "font-family": "sans-serif", "font-size": 12 })) svg.setAttribute(key, value);
    add("rect", { width: "100%", height: "100%", fill: surface });
    rows.forEach((row, number) => {
      const y = number * ROW;
      const time = new Date(row.batchTime).toISOString().slice(11, 23);
      add("text", { x: 6, y: y + 14, fill: ink }, time + (row.failed ? " failed" : ""));
      for (const phase of row.phases) {
        const x = LABEL + (WIDTH * (phase.start - row.batchTime)) / length;
        add("rect", { x, y: y + 3, width: Math.max((WIDTH * (phase.end - phase.start)) / length, 1), height: ROW - 6, fill: color(phase.phase) });
      }
    });
    let x = LABEL;
    for (const phase of new Set(rows.flatMap((row) => row.phases.map((each) => each.phase)))) {
      add("rect", { x, y: height - 16, width: 10, height: 10, fill: color(phase) });
      add("text", { x: x + 15, y: height - 7, fill: ink }, names[phase] ?? phase);
      x += 30 + 7 * (names[phase] ?? phase).length;
    }
    add("text", { x: 6, y: height - 7, fill: ink }, `${length} ms, UTC`);
    return { text: new XMLSerializer().serializeToString(svg), width: LABEL + WIDTH, height };
  }

  function png(drawn) {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * drawn.width;
      canvas.height = 2 * drawn.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save("batches.png", canvas.toDataURL("image/png"));
    };
    image.src = data_url("image/svg+xml", drawn.text);
  }

  document.addEventListener("click", (event) => {
    const kind = event.target.closest?.("[data-export]")?.dataset.export;
    const chart = document.getElementById("gantt-chart");
    if (kind === undefined || chart === null) return;
    if (kind === "json") save("batches.json", data_url("application/json", chart.dataset.rows));
    else if (kind === "svg") save("batches.svg", data_url("image/svg+xml", drawing(chart).text));
    else png(drawing(chart));
  });
})();
