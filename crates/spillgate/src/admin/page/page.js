// The live page: asks /status once a second and shows it.
//
// Text from outside (paths, names) only ever becomes text nodes, never markup. The page's policy
// allows no inline style or script, and no request but to this address.

const POLL_MS = 1000;
const ANSWER_MS = 3000;
const HISTORY = 120;
/// A worker that does one thing for longer than this is shown in another colour.
const LONG_MS = 2000;

const ENDS = [
  ["successes", "answered"],
  ["shed", "shed: too much load"],
  ["refused", "refused by a rule"],
  ["failed", "failed"],
  ["abandoned", "abandoned: client left"],
];

const cards = new Map();
let last = null;

poll();

async function poll() {
  try {
    const answer = await fetch("status", { signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    fresh("live", false);
  } catch (error) {
    fresh(last ? `no answer since ${clock(last.at)}` : `no answer: ${error.message}`, true);
  }
  setTimeout(poll, POLL_MS);
}

function show(status) {
  const at = Date.now();
  const seconds = last ? (at - last.at) / 1000 : 0;
  byId("about").textContent =
    `version ${status.version} · up ${span(status.uptime_s)} · ${connections(status)}`;
  const present = new Set();
  const groups = status.pools.map((pool) => [`pool ${pool.name}`, pool]);
  groups.push(["", status.poolless]);
  for (const [key, group] of groups) {
    if (key === "" && group.arrivals === 0) continue;
    present.add(key);
    if (!cards.has(key)) cards.set(key, key === "" ? new EndsCard() : new PoolCard());
    cards.get(key).show(group, seconds);
  }
  for (const [key, card] of cards) {
    if (present.has(key)) continue;
    card.node.remove();
    cards.delete(key);
  }
  showProcess(status);
  last = { at };
}

function fresh(text, stale) {
  const node = byId("fresh");
  if (node.textContent !== text) node.textContent = text;
  node.classList.toggle("stale", stale);
  document.body.classList.toggle("is-stale", stale);
}

function connections(status) {
  const open = status.listeners.reduce((sum, listener) => sum + listener.connections, 0);
  return `${plural(open, "connection")} on ${plural(status.shards.length, "shard")}`;
}

/// One pool: its queue, its workers, its times and ends.
class PoolCard {
  constructor() {
    this.title = element("h2");
    this.note = element("p", "note");
    this.restart = element("p", "alarm");
    this.queue = bar();
    this.queueText = element("span");
    this.oldest = element("span", "note");
    this.waiting = element("ol", "waiting");
    this.workers = element("div", "workers");
    this.tiles = new Map();
    this.times = element("tbody");
    this.ends = new Ends();
    const left = element("div", "", [
      element("h3", "", ["Queue"]),
      this.queue,
      element("div", "under", [this.queueText, this.oldest]),
      this.waiting,
      element("h3", "", ["Workers"]),
      this.workers,
    ]);
    const right = element("div", "", [
      element("h3", "", ["Times"]),
      element("table", "", [head(["", "p50", "p90", "p99"]), this.times]),
      this.ends.node,
    ]);
    this.node = element("section", "card", [
      element("div", "top", [this.title, this.note, this.restart]),
      element("div", "columns", [left, right]),
    ]);
    byId("pools").append(this.node);
  }

  show(pool, seconds) {
    this.title.textContent = pool.name;
    const free = Math.max(0, pool.slots - pool.in_flight);
    this.note.textContent = `${pool.in_flight} of ${pool.slots} slots taken, ${free} free`;
    this.restart.textContent = pool.restart
      ? `rolling restart: worker ${pool.restart.worker}, ${pool.restart.done} done`
      : pool.slots === 0 ? "no worker can serve" : "";
    this.showQueue(pool);
    this.showWorkers(pool.workers);
    this.times.replaceChildren(times("wait", pool.wait), times("service", pool.service));
    this.ends.show(pool, seconds);
  }

  showQueue(pool) {
    fill(this.queue, pool.queue_len, pool.queue_len_max);
    this.queueText.textContent = `${count(pool.queue_len)} waiting, room for ${count(pool.queue_len_max)}`;
    const oldest = pool.waiting[0];
    this.oldest.textContent = oldest ? `longest wait ${millis(oldest.for_ms)}` : "nobody waits";
    this.waiting.replaceChildren(...pool.waiting.slice(0, 3).map(exchange));
  }

  showWorkers(workers) {
    const present = new Set(workers.map((worker) => worker.id));
    for (const [id, tile] of this.tiles) {
      if (present.has(id)) continue;
      tile.node.remove();
      this.tiles.delete(id);
    }
    for (const worker of workers) {
      if (!this.tiles.has(worker.id)) {
        const tile = new Tile();
        this.tiles.set(worker.id, tile);
        this.workers.append(tile.node);
      }
      this.tiles.get(worker.id).show(worker);
    }
  }
}

/// One worker and what it does.
class Tile {
  constructor() {
    this.name = element("b");
    this.state = element("span");
    this.slots = element("div", "slots");
    this.doing = element("ul");
    this.small = element("div", "small");
    const who = element("div", "who", [this.name, this.state]);
    this.node = element("div", "worker", [who, this.slots, this.doing, this.small]);
  }

  show(worker) {
    const up = worker.state === "up";
    const longest = worker.doing.length > 0 ? worker.doing[0].for_ms : 0;
    const paused = ["starting", "draining", "out: maint"].includes(worker.state);
    const kind = paused ? "paused"
      : !up || worker.stuck > 0 ? "off"
      : longest > LONG_MS ? "long"
      : worker.in_flight > 0 ? "busy" : "";
    this.node.className = `worker ${kind}`;
    this.name.textContent = `worker ${worker.id}`;
    this.state.textContent = this.stateText(worker, up);
    this.showSlots(worker);
    this.doing.replaceChildren(...worker.doing.slice(0, 4).map(exchange));
    this.small.textContent = [
      worker.endpoint,
      worker.pid ? `pid ${worker.pid}` : "",
      worker.restarts ? plural(worker.restarts, "crash", "es") : "",
      worker.last_end ? `last one ${worker.last_end}` : "",
      worker.failures_in_row ? `${plural(worker.failures_in_row, "failure")} in a row` : "",
      plural(worker.grants, "exchange"),
      this.limitText(worker),
      this.agentText(worker.agent),
    ].filter(Boolean).join(" · ");
  }

  stateText(worker, up) {
    if (!up) return `${worker.state} for ${span(worker.state_for_s)}`;
    if (worker.stuck > 0) return `${worker.stuck} stuck`;
    return worker.in_flight > 0 ? "busy" : "free";
  }

  /// Where a limit is learned: how many it may hold, and why.
  limitText(worker) {
    if (worker.learned === null) return "";
    const granted = worker.granted < worker.slots_max ? `, ${worker.granted} granted` : "";
    return `limit ${worker.slots} (${worker.learned} learned${granted}, ${worker.slots_max} configured)`;
  }

  /// What its agent says, as far as it makes a difference.
  agentText(agent) {
    if (!agent) return "";
    const said = [
      agent.admin !== "ready" ? agent.admin : "",
      agent.health !== "up" ? agent.health : "",
      agent.weight_percent !== 100 ? `${agent.weight_percent} %` : "",
      agent.maxconn ? `at most ${agent.maxconn}` : "",
      agent.outcome === "silent" ? "silent" : "",
    ].filter(Boolean);
    return said.length > 0 ? `agent: ${said.join(", ")}` : "";
  }

  /// With one slot the colour of the tile says it all.
  showSlots(worker) {
    this.slots.hidden = worker.slots < 2;
    if (worker.slots < 2) return this.slots.replaceChildren();
    const squares = [];
    for (let slot = 0; slot < Math.min(worker.slots, 64); slot++) {
      const kind = slot < worker.stuck ? "stuck" : slot < worker.in_flight ? "taken" : "";
      squares.push(element("i", kind));
    }
    this.slots.replaceChildren(...squares);
  }
}

/// How exchanges end: a picture of the last two minutes, a table with reasons, and the sum.
class Ends {
  constructor() {
    this.before = null;
    this.history = [];
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("viewBox", `0 0 ${HISTORY - 1} 100`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", "Ends per second over the last two minutes");
    this.areas = ENDS.map(([kind]) => {
      const area = document.createElementNS("http://www.w3.org/2000/svg", "path");
      area.setAttribute("class", kind);
      this.svg.append(area);
      return area;
    });
    this.peak = element("span");
    this.rows = element("tbody");
    this.sum = element("p", "note");
    this.node = element("div", "", [
      element("h3", "", ["Ends per second"]),
      this.svg,
      element("div", "axis", [element("span", "", ["2 minutes ago"]), this.peak, element("span", "", ["now"])]),
      element("table", "", [head(["", "per second", "since start"]), this.rows]),
      this.sum,
    ]);
  }

  show(group, seconds) {
    const totals = ENDS.map(([kind]) => total(group[kind]));
    const rate = (now, before) => (seconds > 0 ? Math.max(0, now - before) / seconds : 0);
    const rates = totals.map((now, index) => (this.before ? rate(now, total(this.before[ENDS[index][0]])) : 0));
    if (this.before) this.history.push(rates);
    if (this.history.length > HISTORY) this.history.shift();
    this.draw();
    const rows = [];
    ENDS.forEach(([kind, label], index) => {
      rows.push(endRow(kind, label, rates[index], totals[index]));
      for (const [reason, now] of Object.entries(group[kind])) {
        const before = this.before ? this.before[kind][reason] || 0 : now;
        rows.push(endRow("", words(reason), rate(now, before), now));
      }
    });
    this.rows.replaceChildren(...rows);
    const ended = totals.reduce((sum, now) => sum + now, 0);
    this.sum.textContent =
      `${plural(group.arrivals, "arrival")} = ${count(ended)} ended + ${count(group.in_progress)} in progress`;
    this.before = group;
  }

  /// Areas stacked from the bottom, scaled to the highest second.
  draw() {
    const sums = this.history.map((rates) => rates.reduce((sum, rate) => sum + rate, 0));
    const peak = Math.max(1, ...sums);
    this.peak.textContent = `highest ${count(Math.round(peak))} a second`;
    const start = HISTORY - this.history.length;
    const floor = this.history.map(() => 0);
    this.areas.forEach((area, kind) => {
      const low = floor.map((value, x) => `${start + x},${(100 - value).toFixed(2)}`);
      this.history.forEach((rates, x) => (floor[x] += (rates[kind] / peak) * 95));
      const high = floor.map((value, x) => `${start + x},${(100 - value).toFixed(2)}`);
      area.setAttribute("d", high.length > 1 ? `M${high.concat(low.reverse()).join("L")}Z` : "");
    });
  }
}

/// Exchanges that belong to no pool.
class EndsCard {
  constructor() {
    this.ends = new Ends();
    const top = element("div", "top", [
      element("h2", "", ["Without a pool"]),
      element("p", "note", ["replies of the configuration, and requests refused before their route was known"]),
    ]);
    this.node = element("section", "card", [top, this.ends.node]);
    byId("process").before(this.node);
  }

  show(group, seconds) {
    this.ends.show(group, seconds);
  }
}

function showProcess(status) {
  const budget = status.budget;
  const waiting = budget.waiting > 0 ? `bodies that wait for room: ${count(budget.waiting)}` : "nothing waits for room";
  const left = element("div", "", [
    ...usage("Buffer memory", budget.memory_used, budget.memory_max, waiting),
    element("p", "note", [`${bytes(budget.sockets)} in the kernel for clients that read slowly`]),
    ...(budget.spill_max > 0
      ? usage("Spill disk", budget.spill_used, budget.spill_max, "")
      : [element("p", "note", ["Nothing spills to disk."])]),
  ]);
  const listeners = status.listeners.map((listener) =>
    row([`${listener.name} ${listener.address}`, count(listener.connections)]));
  const shards = status.shards.map((shard) => row([`shard ${shard.id}`, count(shard.connections)]));
  const right = element("div", "", [
    element("h3", "", ["Client connections"]),
    element("table", "", [element("tbody", "", [...listeners, ...shards])]),
  ]);
  byId("process").replaceChildren(
    element("section", "card", [element("div", "columns", [left, right])]));
}

function usage(title, used, most, note) {
  const node = bar();
  fill(node, used, most);
  const text = element("span", "", [`${bytes(used)} of ${bytes(most)}`]);
  return [
    element("h3", "", [title]),
    node,
    element("div", "under", [text, element("span", "note", [note])]),
  ];
}

function exchange(doing) {
  const line = element("span", "path", [`${doing.method} ${doing.path}`]);
  line.title = line.textContent;
  return element("li", "", [line, element("span", "time", [`${doing.stage} ${millis(doing.for_ms)}`])]);
}

function times(label, of) {
  const cell = (value) => (of.samples > 0 ? millis(value) : "–");
  return row([label, cell(of.p50_ms), cell(of.p90_ms), cell(of.p99_ms)]);
}

function endRow(kind, label, rate, sum) {
  const node = row([label, rate > 0 ? rate.toFixed(rate < 10 ? 1 : 0) : "0", count(sum)]);
  if (kind) node.firstChild.prepend(element("i", `key ${kind}`));
  else node.className = "reason";
  return node;
}

function row(cells) {
  return element("tr", "", cells.map((text, index) => element(index === 0 ? "th" : "td", "", [text])));
}

function head(cells) {
  return element("thead", "", [element("tr", "", cells.map((text) => element("th", "", [text])))]);
}

function bar() {
  return element("div", "bar", [element("i")]);
}

function fill(node, used, most) {
  const share = most > 0 ? Math.min(1, used / most) : 0;
  node.firstChild.style.width = `${share * 100}%`;
  node.className = `bar ${share >= 1 ? "full" : share >= 0.7 ? "high" : ""}`;
}

function element(name, classes = "", children = []) {
  const node = document.createElement(name);
  if (classes) node.className = classes;
  node.append(...children);
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

function total(counts) {
  return Object.values(counts).reduce((sum, value) => sum + value, 0);
}

function words(reason) {
  return reason.replaceAll("_", " ");
}

function count(value) {
  return value.toLocaleString("en");
}

function plural(value, noun, ending = "s") {
  return `${count(value)} ${noun}${value === 1 ? "" : ending}`;
}

function millis(value) {
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  return span(value / 1000);
}

function span(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) {
    value /= 1024;
    index++;
  }
  return `${value < 10 && index > 0 ? value.toFixed(1) : Math.round(value)} ${units[index]}`;
}

function clock(at) {
  return new Date(at).toLocaleTimeString();
}
