"use strict";
// The trajectory browser. Whatever comes from a run is put in as text, never as HTML.

async function wmrlUnpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function wmrlFail(error) {
  const place = document.getElementById("failure");
  place.hidden = false;
  place.textContent = typeof DecompressionStream === "undefined"
    ? "This browser is too old to unpack the charts and trajectories: it needs Chrome 80, Firefox 113, Safari 16.4 or newer."
    : `Part of this page could not be shown: ${error.message || error}`;
}

(async () => {
  const PAGE = 200;
  let data;
  try {
    data = JSON.parse(await wmrlUnpack("trajectories-packed"));
  } catch (error) {
    return wmrlFail(error);
  }
  if (!data.trajectories.length) return;

  const find = (id) => document.getElementById(id);
  const list = find("list"), detail = find("detail"), more = find("more");
  let chosen = null, matching = [], shown = 0;

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    return fill(node, ...children);
  }
  function fill(node, ...children) {
    node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }
  const number = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits) : "–");
  const words = (name) => String(name).replaceAll("_", " ");
  const gap = (one) => (one.predicted === null || one.executed === null ? null : one.predicted - one.executed);

  // ---- filters -----------------------------------------------------------------------------------------------------

  const KINDS = {
    all: () => true,
    executed: (one) => one.anchor,
    suspected: (one) => one.suspicions.length > 0,
    unscored: (one) => one.reward === null,
  };
  const KEYS = {
    disagreement: (one) => (gap(one) === null ? null : Math.abs(gap(one))),
    overrated: gap,
    underrated: (one) => (gap(one) === null ? null : -gap(one)),
    best: (one) => one.reward,
    worst: (one) => (one.reward === null ? null : -one.reward),
  };

  function options(select, pairs) {
    select.replaceChildren(...pairs.map(([value, label]) => make("option", { value }, label)));
  }

  function filter() {
    const run = find("filter-run").value, task = find("filter-task").value;
    const from = Number(find("filter-from").value) || 1, to = Number(find("filter-to").value) || Infinity;
    const kind = KINDS[find("filter-kind").value], key = KEYS[find("filter-order").value];
    matching = data.trajectories.filter((one) =>
      (run === "" || one.run === Number(run)) && (task === "" || one.task === task)
      && one.step + 1 >= from && one.step + 1 <= to && kind(one));
    if (key) {
      matching = matching.map((one) => [key(one), one]).filter(([value]) => value !== null)
        .sort((a, b) => b[0] - a[0]).map(([, one]) => one);
    }
    const plural = matching.length === 1 ? "trajectory" : "trajectories";
    find("count").textContent = `${matching.length} ${plural} of ${data.trajectories.length}`;
    shown = 0;
    list.replaceChildren();
    extend();
    choose(matching[0] || null);
  }

  // ---- the list ----------------------------------------------------------------------------------------------------

  function extend() {
    const next = matching.slice(shown, shown + PAGE);
    shown += next.length;
    list.append(...next.map(item));
    more.hidden = shown >= matching.length;
  }

  function item(one) {
    const scores = [`reward ${number(one.reward, 2)}`, `predicted ${number(one.predicted, 2)}`];
    if (one.anchor) scores.push(`executed ${number(one.executed, 2)}`);
    const button = make("button", { type: "button" },
      `${one.suspicions.length ? "⚠ " : ""}step ${one.step + 1}, ${one.task}, no. ${one.index + 1}`,
      make("small", {}, scores.join(" · ")),
      data.runs.length > 1 ? make("small", {}, data.runs[one.run].name) : null);
    button.addEventListener("click", () => {
      choose(one);
      detail.focus({ preventScroll: true });
      if (detail.getBoundingClientRect().top > innerHeight * 0.6) detail.scrollIntoView();
    });
    return make("li", {}, button);
  }

  function buttonOf(one) {
    const index = matching.indexOf(one);
    while (index >= shown && shown < matching.length) extend();
    return list.children[index] && list.children[index].firstChild;
  }

  function choose(one) {
    for (const button of list.querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    chosen = one;
    if (one === null) {
      fill(detail, make("p", { class: "nothing" }, "No trajectory fits these filters."));
      return;
    }
    const button = buttonOf(one);
    if (button) button.setAttribute("aria-current", "true");
    show(one);
  }

  function move(by, focus) {
    const index = matching.indexOf(chosen) + by;
    if (index < 0 || index >= matching.length) return;
    choose(matching[index]);
    const button = buttonOf(chosen);
    button.scrollIntoView({ block: "nearest" });
    if (focus) button.focus({ preventScroll: true });
  }

  // ---- one trajectory ----------------------------------------------------------------------------------------------

  function facts(pairs) {
    return make("dl", { class: "facts" }, ...pairs.filter(Boolean).map(([name, value]) =>
      make("div", {}, make("dt", {}, name), " ", make("dd", {}, String(value)))));
  }

  function show(one) {
    const run = data.runs[one.run];
    const before = make("button", { type: "button" }, "← previous"), after = make("button", { type: "button" }, "next →");
    before.addEventListener("click", () => move(-1));
    after.addEventListener("click", () => move(1));
    const difference = gap(one);
    fill(detail,
      make("h3", {}, `Step ${one.step + 1}, ${one.task}, trajectory ${one.index + 1}`),
      make("div", { class: "moves" }, before, after),
      facts([
        ["run", run.name], ["group", one.group],
        ["stream", one.anchor ? "anchor: really executed" : "world model only"],
        ["propensity", number(one.propensity)], ["group weight", number(one.weight)],
        ["predicted", number(one.predicted)], ["executed", number(one.executed)],
        difference === null ? null : ["predicted minus executed", (difference > 0 ? "+" : "") + number(difference)],
        ["reward", number(one.reward)], ["advantage", number(one.advantage)],
      ]),
      one.suspicions.length ? make("div", { class: "suspicion" },
        make("b", {}, "Suspected gaming of the world model"),
        make("ul", {}, ...one.suspicions.map((text) => make("li", {}, text)))) : null,
      folded("What the agent was told at first", data.openings[one.opening] || ""),
      ...one.turns.map(turn));
    detail.scrollTop = 0;
  }

  function folded(title, text, open = false) {
    return make("details", { open }, make("summary", {}, title), make("pre", { tabindex: "0" }, text));
  }

  function turn(one, index) {
    const sides = [side("World model", one.predicted), side("Real execution", one.executed)].filter(Boolean);
    if (one.predicted && one.predicted.source === "environment") {
      sides.splice(0, sides.length, side("Judged by the environment", one.predicted));
    }
    return make("section", { class: "turn" },
      make("h3", {}, `Turn ${one.number || index + 1}${one.finished ? "" : " (cut at the token limit)"}`),
      one.observation === null ? null : folded("What the agent was told", one.observation),
      one.film ? film(one) : null,
      one.script === null ? null : code(one.script, faultLine(one)),
      one.answer === null || one.film ? null : folded(one.script === null ? "Answer without a script" : "The whole answer",
        one.answer, one.script === null),
      make("div", { class: "sides" }, ...sides));
  }

  // An episode as pictures: a strip of it, and on demand the whole of it moving.
  function film(one) {
    const { film: { frames, instruction, shown, strip, animation, leftOut }, predicted, executed } = one;
    const scores = [predicted && `predicted ${number(predicted.score, 2)}`, executed && `true ${number(executed.score, 2)}`];
    const about = [`${frames} frames`, ...scores].filter(Boolean).join(" · ");
    const caption = make("figcaption", {}, instruction ? make("b", {}, instruction) : null, make("span", {}, about));
    if (!strip) {
      const why = leftOut ? "Its pictures are left out to keep this page small." : "Its pictures were not recorded.";
      return make("figure", { class: "film" }, caption, make("p", { class: "nothing" }, why));
    }
    const still = picture("jpeg", strip, `${shown.length} of ${frames} frames, from the first to the last`);
    const moving = make("details", { class: "moving" }, make("summary", {}, "Play"));
    moving.addEventListener("toggle", () => fill(moving, moving.firstChild,
      moving.open ? picture("gif", animation, "The episode, playing in a loop") : null));
    return make("figure", { class: "film" }, caption, make("div", { class: "scroll", tabindex: "0" }, still), moving);
  }

  function picture(kind, packed, alt) {
    return make("img", { src: `data:image/${kind};base64,${packed}`, alt });
  }

  function faultLine(one) {
    const told = one.executed && one.executed.source === "execution" ? one.executed : one.predicted;
    return told && told.details.line;
  }

  function code(script, fault) {
    const lines = script.replace(/\n$/, "").split("\n");
    return make("ol", { class: "code", tabindex: "0", "aria-label": "The script" },
      ...lines.map((line, i) => make("li", { class: i + 1 === fault ? "fault" : null }, line || " ")));
  }

  function side(title, outcome) {
    if (!outcome) return null;
    const d = outcome.details;
    const short = (value) => ["number", "boolean"].includes(typeof value) || (typeof value === "string" && value.length <= 40);
    const extra = Object.keys(d).filter((name) => short(d[name]))
      .map((name) => [words(name), typeof d[name] === "number" && name !== "line" ? number(d[name]) : d[name]]);
    const rest = Object.entries(d).filter(([name]) => !extra.some(([label]) => label === words(name)));
    return make("div", { class: "side" },
      make("h3", {}, title),
      facts([["status", words(outcome.status)], ["score", number(outcome.score)],
        ["seconds", number(outcome.seconds)], ...extra]),
      outcome.verdicts ? make("ul", { class: "checks" }, ...outcome.verdicts.map(verdict)) : null,
      outcome.feedback ? make("pre", { tabindex: "0" }, outcome.feedback) : null,
      rest.length ? folded("More", rest.map(([name, value]) =>
        `${words(name)}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n")) : null);
  }

  function verdict(one) {
    const [kind, said] = one.passed === true ? ["passed", "passed"]
      : one.passed === false ? ["failed", "failed"] : ["open", "no opinion"];
    const about = [
      one.exception && (one.second ? `${one.exception}, or ${one.second}` : one.exception),
      one.line && `line ${one.line}`,
      typeof one.confidence === "number" && kind !== "open" && `confidence ${number(one.confidence, 2)}`,
    ].filter(Boolean).join(", ");
    return make("li", { class: kind }, make("b", {}, words(one.check)), ` ${said}`,
      about ? make("small", {}, ` (${about})`) : null,
      one.reason ? `: ${one.reason}` : null,
      one.feedback && kind === "failed" ? make("pre", {}, one.feedback) : null);
  }

  // ---- begin -------------------------------------------------------------------------------------------------------

  const tasks = [...new Set(data.trajectories.map((one) => one.task))].sort();
  options(find("filter-run"), [["", "all"], ...data.runs.map((run, i) => [String(i), run.name])]);
  options(find("filter-task"), [["", "all"], ...tasks.map((task) => [task, task])]);
  document.querySelector("[data-filter=run]").hidden = data.runs.length < 2;
  find("filters").addEventListener("input", filter);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", extend);
  list.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      move(by, true);
    }
  });
  find("browser").hidden = false;
  filter();
})();
