// The interactive view: particles of a 2-D target at every t, over the target's contours, with what was measured.
// Data: the JSON element "views" (see page.py). Everything a run wrote goes to the page as text, never as markup.
"use strict";
(() => {
  const MASSES = [0.95, 0.8, 0.6, 0.4, 0.2];
  const FLOOR = 60; // log-densities this far below the highest are all the same: nothing
  const views = JSON.parse(document.getElementById("views").textContent);
  const $ = (id) => document.getElementById(id);
  const stage = $("stage");
  const slider = $("t");
  const play = $("play");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const state = { path: views.paths[0], frame: 0, shown: 0, tween: 0, timer: 0 };

  // Numbers ------------------------------------------------------------------------------------------------------

  const known = (v) => typeof v === "number" && Number.isFinite(v);
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

  function print(v, decimals = Math.abs(v) < 100 ? 3 : 1) {
    if (!known(v)) return "–";
    const text = Math.abs(v) >= 1e6 ? v.toPrecision(3) : v.toFixed(decimals);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  }

  // A few round values inside [low, high].
  function ticks(low, high, wanted) {
    if (!(high > low)) return [];
    const raw = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
    const values = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(k * step);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    if (values.length < 2 && wanted < 20) return ticks(low, high, 2 * wanted);
    return values.map((value) => ({ value, text: print(value, decimals) }));
  }

  // Contours -----------------------------------------------------------------------------------------------------

  // Log-densities above which lies each share of the grid's mass: the edges of highest-density regions.
  function massLevels(grid) {
    const sorted = Float64Array.from(grid).sort().reverse();
    const total = sorted.reduce((sum, v) => sum + Math.exp(v), 0);
    return MASSES.map((mass) => {
      let sum = 0;
      return sorted.find((v) => (sum += Math.exp(v)) >= mass * total) ?? sorted[sorted.length - 1];
    });
  }

  // Marching squares, linked: closed rings in grid coordinates around where the grid is at least `level`.
  // A border of "nothing" around the grid closes rings that leave it, one cell outside.
  function rings(grid, nx, ny, level) {
    const at = (i, j) => (i < 0 || j < 0 || i >= nx || j >= ny ? -Infinity : grid[i * ny + j]);
    const next = new Map(); // crossed edge -> the crossed edge after it, the inside on the left
    const points = new Map();
    const cross = (a, b) => {
      const [low, high] = a[0] < b[0] || a[1] < b[1] ? [a, b] : [b, a];
      const id = 2 * ((low[0] + 1) * (ny + 2) + low[1] + 1) + (low[0] === high[0] ? 1 : 0);
      const [u, v] = [at(...low), at(...high)];
      const w = u === -Infinity ? 0 : v === -Infinity ? 1 : (level - u) / (v - u);
      points.set(id, [low[0] + w * (high[0] - low[0]), low[1] + w * (high[1] - low[1])]);
      return id;
    };
    for (let i = -1; i < nx; i++) {
      for (let j = -1; j < ny; j++) {
        const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
        const inside = corners.map((c) => at(...c) >= level);
        const exits = [];
        const entries = [];
        for (let k = 0; k < 4; k++) {
          const l = (k + 1) % 4;
          if (inside[k] === inside[l]) continue;
          (inside[k] ? exits : entries).push(cross(corners[k], corners[l]));
        }
        if (exits.length === 1) next.set(exits[0], entries[0]);
        if (exits.length === 2) {
          // A saddle: the middle decides whether the two inside corners are joined or apart.
          const joined = corners.reduce((sum, c) => sum + at(...c), 0) / 4 >= level;
          const inOrder = joined === inside[0];
          next.set(exits[0], entries[inOrder ? 0 : 1]);
          next.set(exits[1], entries[inOrder ? 1 : 0]);
        }
      }
    }
    const found = [];
    while (next.size) {
      const ring = [];
      for (let edge = next.keys().next().value; next.has(edge); ) {
        const after = next.get(edge);
        ring.push(points.get(edge));
        next.delete(edge);
        edge = after;
      }
      found.push(ring);
    }
    return found;
  }

  const contours = new Map();
  function contoursOf(name) {
    if (!contours.has(name)) {
      const { box, shape, logdensity } = views.targets[name];
      const top = logdensity.reduce((most, v) => (known(v) && v > most ? v : most), -Infinity);
      const grid = logdensity.map((v) => (known(v) ? Math.max(v - top, -FLOOR) : -FLOOR));
      const place = ([i, j]) => [
        box[0][0] + (i / (shape[0] - 1)) * (box[0][1] - box[0][0]),
        box[1][0] + (j / (shape[1] - 1)) * (box[1][1] - box[1][0]),
      ];
      const placed = (level) => rings(grid, ...shape, level).map((ring) => ring.map(place));
      contours.set(name, massLevels(grid).map(placed));
    }
    return contours.get(name);
  }

  // The stage ----------------------------------------------------------------------------------------------------

  // The box of the target at one scale in x and y, widened where the canvas has room.
  function lens(width, height, box) {
    const area = { left: 34, top: 1, right: width - 1, bottom: height - 24 };
    const [w, h] = [area.right - area.left, area.bottom - area.top];
    const scale = Math.min(w / (box[0][1] - box[0][0]), h / (box[1][1] - box[1][0]));
    const middle = box.map(([low, high]) => (low + high) / 2);
    return {
      area,
      x: (v) => area.left + w / 2 + (v - middle[0]) * scale,
      y: (v) => area.top + h / 2 - (v - middle[1]) * scale,
      reach: [w, h].map((size, axis) => [middle[axis] - size / scale / 2, middle[axis] + size / scale / 2]),
    };
  }

  let backdrop = null; // contours and axes, drawn once for a target, a size and a colour scheme

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["paper", "raised", "soft", "rule", "target", "ensemble"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  function sized() {
    const ratio = devicePixelRatio || 1;
    const { width, height } = stage.getBoundingClientRect();
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (stage.width !== w || stage.height !== h) [stage.width, stage.height] = [w, h];
    return { ratio, width, height };
  }

  function drawBackdrop() {
    const { ratio, width, height } = sized();
    const colour = colours();
    const eye = lens(width, height, views.targets[state.path.target].box);
    const { left, top, right, bottom } = eye.area;
    const layer = document.createElement("canvas");
    [layer.width, layer.height] = [stage.width, stage.height];
    const pen = layer.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = colour.raised;
    pen.fillRect(left, top, right - left, bottom - top);

    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top);
    pen.clip();
    pen.lineJoin = "round";
    for (const level of contoursOf(state.path.target)) {
      const shape = new Path2D();
      for (const ring of level) {
        ring.forEach(([x, y], k) => shape[k ? "lineTo" : "moveTo"](eye.x(x), eye.y(y)));
        shape.closePath();
      }
      pen.fillStyle = pen.strokeStyle = colour.target;
      pen.globalAlpha = 0.13;
      pen.fill(shape, "evenodd");
      pen.globalAlpha = 0.5;
      pen.lineWidth = 0.9;
      pen.stroke(shape);
    }
    pen.restore();

    pen.strokeStyle = colour.rule;
    pen.lineWidth = 1;
    pen.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
    pen.fillStyle = colour.soft;
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textAlign = "center";
    for (const { value, text } of ticks(...eye.reach[0], 6)) {
      if (eye.x(value) > right - 8) continue;
      pen.fillRect(Math.round(eye.x(value)), bottom + 1, 1, 4);
      pen.fillText(text, eye.x(value), bottom + 18);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const { value, text } of ticks(...eye.reach[1], 6)) {
      if (eye.y(value) < top + 6) continue;
      pen.fillRect(left - 5, Math.round(eye.y(value)), 4, 1);
      pen.fillText(text, left - 9, eye.y(value));
    }
    backdrop = { layer, eye, colour, ratio };
  }

  // Particles at a time between frames, on the straight line from one to the next.
  function positions(time) {
    const { x, y } = state.path;
    const before = clamp(Math.floor(time), 0, x.length - 1);
    const after = Math.min(before + 1, x.length - 1);
    const w = time - before;
    if (w === 0 || x[before].length !== x[after].length) return [x[before], y[before]];
    const between = (a, b) => a.map((v, k) => (known(v) && known(b[k]) ? v + w * (b[k] - v) : null));
    return [between(x[before], x[after]), between(y[before], y[after])];
  }

  function drawStage() {
    if (backdrop.ratio !== (devicePixelRatio || 1)) drawBackdrop();
    const { layer, eye, colour, ratio } = backdrop;
    const { left, top, right, bottom } = eye.area;
    const pen = stage.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, stage.width, stage.height);
    pen.drawImage(layer, 0, 0);
    pen.scale(ratio, ratio);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top);
    pen.clip();
    const [x, y] = positions(state.shown);
    const radius = clamp(((right - left) / 240) * Math.sqrt(500 / Math.max(x.length, 1)), 0.9, 3.2);
    const disc = (size) => {
      pen.beginPath();
      for (let k = 0; k < x.length; k++) {
        if (!known(x[k]) || !known(y[k])) continue;
        const [u, v] = [eye.x(x[k]), eye.y(y[k])];
        pen.moveTo(u + size, v);
        pen.arc(u, v, size, 0, 2 * Math.PI);
      }
      pen.fill();
    };
    pen.fillStyle = colour.raised;
    pen.globalAlpha = 0.6;
    disc(radius + 0.8);
    pen.fillStyle = colour.ensemble;
    pen.globalAlpha = 0.9;
    disc(radius);
    pen.restore();
  }

  // Charts -------------------------------------------------------------------------------------------------------

  function drawChart(svg, column, reference) {
    const { path, frame } = state;
    const { width, height } = svg.getBoundingClientRect();
    const values = path[column].filter(known);
    svg.replaceChildren();
    svg.style.display = values.length ? "" : "none";
    if (!values.length || !width) return;
    const add = (tag, attributes, text) => {
      const element = document.createElementNS(svg.namespaceURI, tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      if (text !== undefined) element.textContent = text;
      svg.append(element);
    };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);

    const all = known(reference) ? [...values, reference] : values;
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (column === "distance") low = 0;
    const pad = (high - low || Math.abs(high) || 1) * 0.1;
    high += pad;
    if (column !== "distance") low -= pad;
    const [left, right, top, bottom] = [40, width - 8, 6, height - 18];
    const span = [timeAt(path, 0), timeAt(path, path.steps.length - 1)];
    const toX = (t) => left + (span[1] > span[0] ? (t - span[0]) / (span[1] - span[0]) : 0) * (right - left);
    const toY = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    const line = (of) => {
      let [text, command] = ["", "M"];
      of[column].forEach((v, k) => {
        const t = timeAt(of, k);
        const visible = known(v) && t >= span[0] && t <= span[1];
        if (visible) text += `${command}${toX(t)} ${toY(clamp(v, low, high))}`;
        command = visible ? "L" : "M";
      });
      return text;
    };

    for (const { value, text } of ticks(low, high, 3)) {
      add("line", { class: "base", x1: left, x2: right, y1: toY(value), y2: toY(value) });
      add("text", { x: left - 8, y: toY(value) + 4, "text-anchor": "end" }, text);
    }
    for (const { value, text } of ticks(...span, 5)) {
      if (Number.isInteger(value)) add("text", { x: toX(value), y: height - 3, "text-anchor": "middle" }, text);
    }
    for (const other of siblings()) if (other !== path) add("path", { class: "other", d: line(other) });
    if (known(reference)) {
      const y = toY(reference);
      add("line", { class: "truth", x1: left, x2: right, y1: y, y2: y });
    }
    const x = toX(timeAt(path, frame));
    add("line", { class: "here", x1: x, x2: x, y1: top, y2: bottom });
    add("path", { class: "trace", d: line(path) });
    const here = path[column][frame];
    if (known(here)) add("circle", { cx: x, cy: toY(here), r: 5 });
    svg.frameAt = (u) => {
      const gaps = path.steps.map((_, k) => Math.abs(toX(timeAt(path, k)) - u));
      return gaps.indexOf(Math.min(...gaps));
    };
  }

  const siblings = () => views.paths.filter((path) => path.target === state.path.target);
  const timeAt = (path, frame) => (path.steps.every(known) ? path.steps[frame] : frame);

  // Readouts -----------------------------------------------------------------------------------------------------

  function say(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }

  function drawReadouts() {
    const { path, frame } = state;
    const target = views.targets[path.target];
    const last = path.steps.length - 1;
    const exact = target.expected_logdensity;
    const energy = path.expected_logdensity[frame];
    const distance = path.distance[frame];
    const floor = path.noise_floor;
    const acceptance = path.acceptance[frame];
    const [error, ratio] = [energy - exact, distance / floor];

    say("energy", print(energy));
    const off = known(energy) ? `, error ${error > 0 ? "+" : ""}${print(error)}` : "";
    say("energy-aside", known(exact) ? `exact ${print(exact)}${off}` : "exact value not known");
    say("distance", print(distance));
    const times = known(distance) && floor > 0 ? `, ratio ${print(ratio, ratio < 10 ? 1 : 0)}` : "";
    say("distance-aside", known(floor) ? `noise floor ${print(floor)}${times}` : "noise floor not known");
    say("acceptance", print(acceptance));
    const missing = frame ? "not recorded" : "no transition yet";
    say("acceptance-aside", known(acceptance) ? `mean over particles, transition ${path.steps[frame]}` : missing);

    slider.max = last;
    slider.value = frame;
    slider.style.setProperty("--filled", `${last ? (100 * frame) / last : 0}%`);
    slider.setAttribute("aria-valuetext", `t = ${path.steps[frame]} of ${path.steps[last]}`);
    say("now", String(path.steps[frame]));
    const widest = Math.max(...path.steps.map((label) => String(label).length));
    $("clock").style.minWidth = `calc(${widest + String(path.steps[last]).length}ch + 3.4rem)`; // so the track stays
    $("others").hidden = siblings().length < 2;
    say("last", String(path.steps[last]));

    const [x, y] = [path.x[frame], path.y[frame]];
    const [[x0, x1], [y0, y1]] = backdrop.eye.reach;
    const within = (v, low, high) => known(v) && v >= low && v <= high;
    const away = x.filter((_, k) => !within(x[k], x0, x1) || !within(y[k], y0, y1)).length;
    say("particles", `${x.length} particle${x.length === 1 ? "" : "s"}${away ? `, ${away} outside the picture` : ""}`);
    const title = target.title || path.target;
    const scene = `${title}, ${path.method}, t = ${path.steps[frame]}`;
    stage.setAttribute("aria-label", `${scene}: ${x.length} particles over the target's contours`);
    drawChart($("energy-chart"), "expected_logdensity", exact);
    drawChart($("distance-chart"), "distance", floor);
  }

  // Moving through time ------------------------------------------------------------------------------------------

  function goTo(frame, duration = 260) {
    state.frame = clamp(frame, 0, state.path.steps.length - 1);
    drawReadouts();
    cancelAnimationFrame(state.tween);
    const [from, began] = [state.shown, performance.now()];
    const move = (now) => {
      const s = still.matches || duration <= 0 ? 1 : clamp((now - began) / duration, 0, 1);
      const eased = s < 0.5 ? 2 * s * s : 1 - 2 * (1 - s) ** 2;
      state.shown = s === 1 ? state.frame : from + eased * (state.frame - from);
      drawStage();
      if (s < 1) state.tween = requestAnimationFrame(move);
    };
    move(began);
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = 0;
    play.removeAttribute("data-playing");
    play.setAttribute("aria-label", "Play");
    for (const readout of document.querySelectorAll(".readout")) readout.setAttribute("aria-live", "polite");
  }

  function start() {
    const last = state.path.steps.length - 1;
    const pace = clamp(9000 / Math.max(last, 1), 90, 750);
    // While it plays a screen reader would only hear half-read numbers.
    for (const readout of document.querySelectorAll(".readout")) readout.setAttribute("aria-live", "off");
    play.setAttribute("data-playing", "");
    play.setAttribute("aria-label", "Pause");
    if (state.frame >= last) goTo(0);
    state.timer = setInterval(() => {
      goTo(state.frame + 1, pace * 0.85);
      if (state.frame >= last) stop();
    }, pace);
  }

  // Menus --------------------------------------------------------------------------------------------------------

  function fill(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  function show(path) {
    stop();
    const before = state.path;
    const label = before.steps[state.frame];
    const share = state.frame / Math.max(before.steps.length - 1, 1);
    const same = state.frame === before.steps.length - 1 ? -1 : path.steps.indexOf(label);
    state.path = path;
    state.frame = state.shown = same >= 0 ? same : Math.round(share * (path.steps.length - 1));
    const number = (one) => String(views.paths.indexOf(one));
    fill($("method"), siblings().map((one) => [number(one), one.method]), number(path));
    redraw();
  }

  function redraw() {
    drawBackdrop();
    goTo(state.frame, 0);
  }

  const names = Object.keys(views.targets).filter((name) => views.paths.some((path) => path.target === name));
  fill($("target"), names.map((name) => [name, views.targets[name].title || name]), state.path.target);
  $("target").addEventListener("change", (event) => {
    const own = views.paths.filter((path) => path.target === event.target.value);
    show(own.find((path) => path.method === state.path.method) || own[0]);
  });
  $("method").addEventListener("change", (event) => show(views.paths[Number(event.target.value)]));
  slider.addEventListener("input", () => {
    stop();
    goTo(Number(slider.value));
  });
  play.addEventListener("click", () => (state.timer ? stop() : start()));
  for (const svg of document.querySelectorAll(".chart")) {
    const follow = (event) => {
      stop();
      goTo(svg.frameAt(event.clientX - svg.getBoundingClientRect().left));
    };
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointermove", (event) => event.buttons && follow(event));
  }
  dark.addEventListener("change", redraw);
  show(state.path);
  new ResizeObserver(redraw).observe(stage);
})();
