"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const MACHINES = DATA.models.map((model) => model.machine && machineOf(model.machine));
const LIVE = MACHINES.every(Boolean); // whether the page runs strings that are typed
const SECONDS = 1; // between steps, at speed 1
const LEGIBLE = 15; // pixels that a symbol needs to be written into its cell
const NUMBERED = 34; // pixels that a cell across needs for its strength, too
const THINNEST = 21; // pixels of a strength of 1, at least
const THICKEST = 46; // and at most
const MAX_HEIGHT = 340; // pixels of a stack; of one that holds more, the rest can be scrolled to
const MANY = 3; // more memories than this are drawn smaller
const FEW = 4; // more signals than this stand in columns
const MAX_LISTED = 3; // the most rows of a memory that a sentence lists, from the end where it is used
const THEMES = ["system", "light", "dark"];
const ASIDES = {
  "bottom first": "",
  "front first": "front at the left",
  "left to right": "the head is outlined",
};

const byId = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const state = { place: 0, last: 0, timer: null, views: [] };

/** An element with classes and contents: elements, and texts, which are never markup. */
function element(tag, classes = "", ...contents) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  made.append(...contents);
  return made;
}

const number = (value) => value.toFixed(2);
const share = (part, whole) => `${Math.min(100, (100 * part) / whole)}%`;

/** The hue of a symbol; null of what is no symbol of a string. */
function hue(symbol) {
  const place = DATA.colors.indexOf(symbol);
  return place < 0 ? null : Math.round(200 + 137.508 * place) % 360;
}

function colored(made, symbol) {
  const own = hue(symbol);
  made.classList.toggle("colored", own !== null);
  made.style.setProperty("--hue", own ?? 0);
  return made;
}

/** A shown model, which draws itself at a step, or at its last where it has fewer. */
function viewOf(model) {
  const title = element("h2", "", model.name);
  const about = element("p", "about", model.about);
  const lines = linesOf(model);
  const parts = model.parts.map((part, which) => partOf(model, part, which));
  const memory = element("div", "memory", ...parts.map((part) => part.figure));
  const across = model.parts.some((part) => part.order !== "bottom first");
  memory.classList.toggle("wide", across || model.parts.length > MANY);
  memory.classList.toggle("single", model.parts.length === 1);
  const signals = signalsOf(model);
  const reads = readsOf(model);
  const side = element("div", "side", signals.box, reads.box);
  const body = element("div", "body", memory, side);
  const verdict = element("p", "verdict");
  const rules = rulesOf(model);
  const view = element("article", "model", title, about, lines.box, body, rules.list, verdict);
  byId("models").append(view);

  function draw(place, moving) {
    const at = Math.min(place, model.steps.length - 1);
    const step = model.steps[at];
    lines.draw(at, moving);
    signals.draw(step);
    reads.draw(step);
    rules.draw(step);
    parts.forEach((part) => part.draw(step, moving));
    const over = place > at ? `ended at step ${at + 1}; ` : "";
    verdict.textContent = at === model.steps.length - 1 ? over + model.verdict : "";
    view.classList.toggle("ended", place > at);
    const words = wordsOf(model, at);
    return DATA.models.length > 1 ? `${model.name}: ${words}` : words;
  }
  return { draw };
}

/** Inputs and answers, a column a step, with the current one marked. */
function linesOf(model) {
  const rows = ["input", "answer"].map((name) => {
    const head = element("th", "", name);
    head.scope = "row";
    return element("tr", "", head);
  });
  const columns = model.steps.map((step, at) => {
    const input = colored(element("td", "symbol", step.input), step.input);
    const output = colored(element("td", "symbol"), step.output);
    output.classList.toggle("aside", step.output !== null && !step.scored);
    for (const cell of [input, output]) cell.addEventListener("click", () => go(at));
    rows[0].append(input);
    rows[1].append(output);
    return [input, output];
  });
  const box = element("div", "lines", element("table", "", ...rows));
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `Input and answer of ${model.name}`);

  function draw(place, moving) {
    columns.forEach(([input, output], at) => {
      // What is answered later is not known yet.
      output.textContent = at <= place ? (model.steps[at].output ?? "") : "";
      for (const cell of [input, output]) {
        cell.classList.toggle("now", at === place);
        cell.classList.toggle("later", at > place);
        if (at === place) cell.setAttribute("aria-current", "step");
        else cell.removeAttribute("aria-current");
      }
    });
    const current = columns[place][0];
    const middle = current.offsetLeft - (box.clientWidth - current.offsetWidth) / 2;
    box.scrollTo({ left: middle, behavior: moving && !calm.matches ? "smooth" : "auto" });
  }
  return { box, draw };
}

/** The rules of a machine, of which the one that applies is marked. */
function rulesOf(model) {
  const items = model.rules.map(([when, action]) =>
    element("li", "", element("span", "when", when), element("span", "action", action)),
  );
  const list = element("ol", "rules", ...items);
  list.tabIndex = 0;
  list.setAttribute("aria-label", `Rules of ${model.name}`);
  list.hidden = !model.rules.length;
  function draw(step) {
    items.forEach((item, at) => {
      item.classList.toggle("applied", at + 1 === step.rule);
      if (at + 1 !== step.rule) item.removeAttribute("aria-current");
      else item.setAttribute("aria-current", "step");
    });
    const applied = items[step.rule - 1];
    if (applied) list.scrollTop = applied.offsetTop - (list.clientHeight - applied.offsetHeight) / 2;
  }
  return { list, draw };
}

/** A step in sentences: input, output, rule or operations, and the contents of the memory after it. */
function wordsOf(model, at) {
  const step = model.steps[at];
  const isMachine = model.rules.length > 0; // which names what it has, without numbers
  const sentences = [`step ${at + 1} of ${model.steps.length}`, `reads ${step.input}`];
  if (step.rule) sentences.push(`rule ${step.rule}: ${model.rules[step.rule - 1].join(": ")}`);
  else if (isMachine) sentences.push("no rule applies");
  if (step.output !== null) {
    const probability = isMachine ? "" : ` with probability ${number(step.probability)}`;
    const aside = step.scored ? "" : ", which is not scored";
    sentences.push(`answers ${step.output}${probability}${aside}`);
  }
  if (step.state) sentences.push(`state ${step.state}`);
  const listed = (shares) =>
    shares.map(([symbol, , share]) => (isMachine ? symbol : `${symbol} ${number(share)}`)).join(", ");
  if (!isMachine) {
    if (!model.actions.length) {
      sentences.push(model.signals.map((name, which) => `${name} ${number(step.signals[which])}`).join(", "));
    }
    model.ends.forEach((end, which) => {
      sentences.push(`read ${end}: ${listed(step.reads[which]) || "nothing"}`);
    });
  }
  step.contents.forEach((cells, which) => {
    const { name, order } = model.parts[which];
    const action = isMachine || !model.actions.length ? "" : `${likeliest(model, step, which)}, `;
    if (cells.length && !cells[0][0]) {
      sentences.push(`${name}: ${action}${cells.length} ${cells.length === 1 ? "cell" : "cells"}`);
      return;
    }
    const nearest = order === "bottom first" ? [...cells].reverse() : cells;
    const from = { "bottom first": "from the top", "front first": "from the front" }[order] ?? order;
    const more = cells.length > MAX_LISTED ? `, and ${cells.length - MAX_LISTED} more` : "";
    const contents = cells.length ? `${from} ${listed(nearest.slice(0, MAX_LISTED))}${more}` : "empty";
    sentences.push(`${name}: ${action}${contents}`);
  });
  return `${sentences
    .filter(Boolean)
    .map((each) => each[0].toUpperCase() + each.slice(1))
    .join(". ")}.`;
}

/** The most probable action of a stack or list, with its probability. */
function likeliest(model, step, which) {
  const first = model.actions.slice(0, which).reduce((sum, actions) => sum + actions.length, 0);
  const actions = model.actions[which];
  const signals = step.signals.slice(first, first + actions.length);
  const best = Math.max(...signals);
  return `${actions[signals.indexOf(best)]} ${number(best)}`;
}

/** The most that any part of a memory holds at any step, at least 1. */
function mostOf(model) {
  if (model.most) return model.most;
  const sum = (cells) => cells.reduce((all, [, , strength]) => all + strength, 0);
  return Math.max(1, ...model.steps.flatMap((step) => step.contents.map(sum)));
}

/** A queue, stack, deque or list: its cells, each as thick as its strength. */
function partOf(model, part, which) {
  const upright = part.order === "bottom first";
  const cells = element("div", "cells");
  const name = element("span", "name", part.name);
  const aside = element("span", "order", ASIDES[part.order]);
  const caption = element("figcaption", "", name, aside);
  const figure = element("figure", `part ${upright ? "upright" : "across"}`, cells, caption);
  const most = mostOf(model);
  const tallest = model.parts.length > MANY ? MAX_HEIGHT / 2 : MAX_HEIGHT;
  const thickest = model.parts.length > MANY ? THICKEST / 2 : THICKEST;
  // Room for all that is held at any step, so that nothing moves but the cells.
  const room = upright ? Math.min(tallest, thickest * most) : Math.max(THICKEST * most, 160);
  cells.style.setProperty("--room", `${Math.ceil(room) + 6}px`);
  const there = new Map();

  /** How many pixels a strength of 1 has. */
  function unit() {
    const fitting = (upright ? room : cells.clientWidth - 6) / most;
    return Math.min(Math.max(fitting, THINNEST), upright ? thickest : THICKEST);
  }

  function draw(step, moving) {
    const kept = new Set();
    const order = upright ? [...step.contents[which]].reverse() : step.contents[which];
    const seen = new Map();
    let before = null;
    for (const row of order) {
      // Two rows of a deque may be of one step; cells of a stack have no step, but a place.
      const [, pushed] = row;
      const again = seen.get(pushed) ?? 0;
      seen.set(pushed, again + 1);
      const key = `${pushed}.${!pushed && upright ? order.length - again : again}`;
      kept.add(key);
      const cell = there.get(key) ?? newCell(moving);
      there.set(key, cell);
      if (before ? before.nextSibling !== cell : cells.firstChild !== cell) {
        cells.insertBefore(cell, before ? before.nextSibling : cells.firstChild);
      }
      fill(cell, ...row);
      before = cell;
    }
    for (const [key, cell] of there) {
      if (kept.has(key)) continue;
      there.delete(key);
      leave(cell, moving);
    }
    cells.classList.toggle("empty", order.length === 0);
  }

  function newCell(moving) {
    const contents = ["stripe from-first", "stripe from-last", "text", "number"];
    const cell = element("div", "cell", ...contents.map((classes) => element("span", classes)));
    cell.style.setProperty("--thick", "0px");
    if (moving) cell.classList.add("entering");
    return cell;
  }

  function fill(cell, symbol, pushed, strength, fromFirst, fromLast, head) {
    const thick = unit() * strength;
    colored(cell, symbol);
    cell.style.setProperty("--length", Math.max(symbol.length, 1));
    cell.dataset.symbol = symbol;
    cell.dataset.step = pushed;
    cell.dataset.strength = number(strength);
    cell.classList.toggle("head", Boolean(head));
    cell.title = pushed
      ? `${symbol}, pushed at step ${pushed}, strength ${number(strength)}`
      : `${symbol || "a cell"}, full to ${number(strength)}`;
    const [first, last, text, figure] = cell.children;
    first.style.setProperty("--share", share(fromFirst, strength));
    last.style.setProperty("--share", share(fromLast, strength));
    text.textContent = thick >= LEGIBLE ? symbol : "";
    figure.textContent = thick >= (upright ? LEGIBLE : NUMBERED) ? number(strength) : "";
    // A cell that has just been put there grows from nothing.
    if (cell.classList.contains("entering")) void cell.offsetHeight;
    cell.classList.remove("entering");
    cell.style.setProperty("--thick", `${Math.max(thick, 1.5)}px`);
  }

  function leave(cell, moving) {
    if (!moving || calm.matches) {
      cell.remove();
      return;
    }
    cell.classList.add("leaving");
    cell.setAttribute("aria-hidden", "true");
    cell.style.setProperty("--thick", "0px");
    setTimeout(() => cell.remove(), 300);
  }
  return { figure, draw };
}

/** A bar for each signal. */
function signalsOf(model) {
  const box = element("dl", "signals");
  box.classList.toggle("many", model.signals.length > FEW);
  // As wide as the longest name, so that all bars begin at one place.
  const longest = Math.max(0, ...model.signals.map((name) => name.length));
  box.style.setProperty("--longest", `${longest}ch`);
  const bars = model.signals.map((name) => {
    const bar = element("span", "bar");
    const value = element("dd", "value");
    box.append(element("div", "signal", element("dt", "", name), bar, value));
    return { bar, value };
  });
  function draw(step) {
    bars.forEach(({ bar, value }, at) => {
      bar.style.setProperty("--long", `${100 * step.signals[at]}%`);
      value.textContent = number(step.signals[at]);
    });
  }
  return { box, draw };
}

/** The symbols that each read is made of. */
function readsOf(model) {
  const box = element("div", "reads");
  const lists = model.ends.map((end) => {
    const list = element("ul", "read");
    box.append(element("h3", "", `read ${end}`), list);
    return list;
  });
  function draw(step) {
    lists.forEach((list, at) => {
      const items = step.reads[at].map(([symbol, pushed, weight]) => {
        const name = colored(element("span", "symbol", symbol), symbol);
        const push = element("span", "pushed", `@${pushed}`);
        return element("li", "", name, push, element("span", "weight", number(weight)));
      });
      list.replaceChildren(...(items.length ? items : [element("li", "nothing", "nothing")]));
    });
  }
  return { box, draw };
}

function go(place) {
  const before = state.place;
  state.place = Math.min(Math.max(place, 0), state.last);
  const moving = Math.abs(state.place - before) === 1;
  const words = state.views.map((view) => view.draw(state.place, moving));
  byId("words").replaceChildren(...words.map((said) => element("p", "", said)));
  byId("step").value = state.place + 1;
  byId("step").setAttribute("aria-valuetext", `step ${state.place + 1} of ${state.last + 1}`);
  byId("count").textContent = `${state.place + 1} / ${state.last + 1}`;
  byId("first").disabled = byId("back").disabled = state.place === 0;
  byId("last").disabled = byId("on").disabled = state.place === state.last;
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  shown();
}

function play() {
  if (state.place === state.last) go(0);
  clearInterval(state.timer);
  state.timer = setInterval(() => {
    go(state.place + 1);
    if (state.place === state.last) pause();
  }, (1000 * SECONDS) / Number(byId("speed").value));
  shown();
}

function shown() {
  const playing = state.timer !== null;
  byId("play").textContent = playing ? "Pause" : "Play";
  // While it plays, nobody could listen to every step.
  byId("words").setAttribute("aria-live", playing ? "off" : "polite");
}

function jump(place) {
  pause();
  go(place);
}

function toggle() {
  if (state.timer === null) play();
  else pause();
}

const ACTIONS = {
  first: () => jump(0),
  back: () => jump(state.place - 1),
  on: () => jump(state.place + 1),
  last: () => jump(state.last),
  play: toggle,
};
const KEYS = { ArrowRight: "on", ArrowLeft: "back", Home: "first", End: "last", " ": "play" };

document.addEventListener("keydown", (event) => {
  const action = ACTIONS[KEYS[event.key]];
  if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
  const { id, tagName } = event.target;
  // What a control does with a key by itself, it does.
  if (id === "string" || tagName === "SELECT" || (tagName === "BUTTON" && event.key === " ")) return;
  event.preventDefault();
  action();
});

for (const [id, action] of Object.entries(ACTIONS)) byId(id).addEventListener("click", action);
byId("step").addEventListener("input", (event) => jump(Number(event.target.value) - 1));
byId("speed").addEventListener("change", () => state.timer !== null && play());
byId("theme").addEventListener("click", (event) => {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  root.dataset.theme = next;
  event.target.textContent = `Theme: ${next}`;
});

/** Show models from their first step on. */
function show(models) {
  byId("models").replaceChildren();
  state.views = models.map(viewOf);
  state.last = Math.max(...models.map((model) => model.steps.length)) - 1;
  byId("step").max = state.last + 1;
  jump(0);
}

/** Run all machines over a string; one that they cannot read leaves the steps as they are. */
function type(text) {
  byId("trouble").textContent = "";
  byId("string").removeAttribute("aria-invalid");
  try {
    // The first string has a verdict that takes its right answer into account.
    show(
      DATA.models.map((model, at) => ({
        ...traced(model, MACHINES[at], text),
        ...(text === DATA.text && model.verdict ? { verdict: model.verdict } : {}),
      })),
    );
  } catch (error) {
    byId("trouble").textContent = error.message;
    byId("string").setAttribute("aria-invalid", "true");
  }
}

byId("string").addEventListener("input", (event) => type(event.target.value));
byId("string").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.target.blur();
  play();
});

byId("source").textContent = DATA.source;
byId("source").hidden = LIVE;
byId("typed").hidden = !LIVE;
byId("string").value = DATA.text;
byId("strengths").hidden = !DATA.models.some((model) => model.strengths);
byId("cells").hidden = !DATA.models.some((model) => model.cells);
if (DATA.models.length > 1) document.body.classList.add("several");
addEventListener("resize", () => go(state.place));
if (LIVE) type(DATA.text);
else show(DATA.models);
