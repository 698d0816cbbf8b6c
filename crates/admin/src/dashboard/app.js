// The dashboard. All text that comes from data goes through textContent.
"use strict";
(() => {
  const TOKEN = "tollgate-token", THEME = "tollgate-theme";
  const KEPT = 300; // Points of a plot: ten minutes.
  const SHOWN = 20; // Rows of a table before a search.
  const $ = (id) => document.getElementById(id);
  const el = (tag, text, cls) => {
    const it = document.createElement(tag);
    if (text !== undefined && text !== null) it.textContent = text;
    if (cls) it.className = cls;
    return it;
  };

  // Numbers.
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const count = (it) => (it >= 10000 ? compact : number).format(it);
  const money = (it) => it === 0 ? "0" : it < 0.01 ? it.toPrecision(2) : it.toFixed(it < 100 ? 2 : 0);
  const span = (s) => s == null ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : s < 120 ? `${s.toFixed(2)} s` : `${Math.round(s / 60)} min`;
  const percent = (part, whole) => whole > 0 ? `${number.format(100 * part / whole)}%` : "–";
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
  const words = (it) => it.replaceAll("_", " ");

  // Themes.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = localStorage.getItem(THEME) || "system";
  const applyTheme = () => {
    const is = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
    document.documentElement.dataset.theme = is;
    $("theme").textContent = `Theme: ${theme}`;
    plots.forEach((it) => it.rebuild());
  };
  const plots = [];
  $("theme").onclick = () => {
    theme = { system: "light", light: "dark", dark: "system" }[theme] || "system";
    localStorage.setItem(THEME, theme);
    applyTheme();
  };
  dark.addEventListener("change", applyTheme);

  // Requests to the admin API. The token is a header, never a cookie.
  let token = sessionStorage.getItem(TOKEN);
  let leaving = null;
  class Refused extends Error {
    constructor(status, message) { super(message); this.status = status; }
  }
  const ask = async (path, options = {}) => {
    const headers = token ? { authorization: `Bearer ${token}`, ...options.headers } : options.headers;
    const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => null);
    throw new Refused(answer.status, body?.error?.message || `the gateway answered ${answer.status}`);
  };

  const showState = (text, cls) => {
    // Screen readers read changes only.
    if ($("state").textContent !== text) $("state").textContent = text;
    $("state").className = `state ${cls}`;
  };

  const signOut = (fault = "") => {
    leaving?.abort();
    leaving = null;
    token = null;
    sessionStorage.removeItem(TOKEN);
    // Data that the token gave access to must not stay.
    last = null;
    $("one").close();
    for (const it of ["one-title", "one-body", "answer"]) $(it).replaceChildren();
    for (const fill of Object.values(tables)) fill([]);
    $("found-card").hidden = true;
    for (const it of ["find-request", "find-key", "ask"]) $(it).reset();
    $("ask-body").value = EXAMPLE;
    for (const it of document.querySelectorAll(".view")) it.hidden = true;
    $("nav").hidden = $("leave").hidden = $("enter").hidden = true;
    $("sign-in").hidden = false;
    $("sign-in-fault").textContent = fault;
    showState("", "");
    $("token").focus();
  };

  // The stream: server-sent events over fetch, because EventSource sends no header.
  const listen = async () => {
    const mine = leaving = new AbortController();
    let pause = 1000;
    while (leaving === mine) {
      try {
        const answer = await ask("/api/v1/dashboard/stream", { signal: mine.signal });
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const it of events.filter((it) => it.startsWith("data: "))) {
            const data = JSON.parse(it.slice(6));
            showState(`Live, version ${data.version}`, "live");
            show(data);
          }
          pause = 1000;
        }
      } catch (fault) {
        if (leaving !== mine) return;
        if (fault.status === 401 || fault.status === 403) return signOut(fault.message);
        showState(fault.status ? fault.message : "No connection, retrying", "lost");
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 15000);
    }
  };

  const enter = () => {
    $("sign-in").hidden = true;
    $("nav").hidden = $("leave").hidden = !token;
    $("enter").hidden = !!token;
    showState("Connecting", "");
    listen();
    route();
  };
  $("sign-in").onsubmit = async (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    try {
      await ask("/api/v1/health");
    } catch (fault) {
      return signOut(fault.status ? fault.message : "the gateway cannot be reached");
    }
    $("token").value = "";
    sessionStorage.setItem(TOKEN, token);
    enter();
  };
  $("leave").onclick = () => signOut();
  $("enter").onclick = () => signOut();
  // Without a token: the overview, if it is open.
  const begin = async () => {
    if (token) return enter();
    const { overview } = await ask("/api/v1/dashboard/access").then((it) => it.json()).catch(() => ({}));
    if (overview) enter(); else signOut();
  };

  // Views.
  const views = ["overview", "requests", "keys", "explain"];
  const route = () => {
    if (!leaving && !token) return;
    const named = token ? location.hash.slice(1) : "overview";
    const view = views.includes(named) ? named : views.find((it) => !$(it).hidden) || "overview";
    for (const it of views) $(it).hidden = it !== view;
    for (const it of $("nav").children) {
      if (it.hash === `#${view}`) it.setAttribute("aria-current", "page");
      else it.removeAttribute("aria-current");
    }
    if (view === "keys") showKeys();
    if (last) show(last);
  };
  addEventListener("hashchange", () => { $("one").close(); route(); scrollTo(0, 0); });

  // Tables: rows keep their elements, so that focus and selection survive an update.
  const table = (id, caption, columns, key) => {
    const root = $(id);
    root.append(el("caption", caption, "unseen"));
    const head = root.createTHead().insertRow();
    for (const [title, , cls] of columns) {
      const th = el("th", title, cls);
      th.scope = "col";
      head.append(th);
    }
    const body = root.createTBody();
    const known = new Map();
    return (rows) => {
      root.hidden = rows.length === 0;
      const used = new Set();
      rows.forEach((row, place) => {
        const name = key(row);
        used.add(name);
        let tr = known.get(name);
        if (!tr) {
          tr = el("tr");
          columns.forEach(([, , cls], column) => {
            const cell = el(column === 0 ? "th" : "td", null, cls);
            if (column === 0) cell.scope = "row";
            tr.append(cell);
          });
          known.set(name, tr);
        }
        columns.forEach(([, value], column) => {
          const cell = tr.children[column];
          const now = value(row, cell);
          if (now !== undefined && cell.textContent !== now) cell.textContent = now;
        });
        if (body.children[place] !== tr) body.insertBefore(tr, body.children[place] || null);
      });
      for (const [name, tr] of known) if (!used.has(name)) { tr.remove(); known.delete(name); }
    };
  };
  const named = (text, cell) => {
    cell.title = text;
    return text;
  };
  // An id that opens what is known of it.
  const linked = (id, cell, open) => {
    if (cell.firstChild) return;
    const button = el("button", id, "link mono");
    button.type = "button";
    button.onclick = () => open(id);
    cell.append(button);
  };
  const rated = (title, size) => [
    [title, (it, cell) => named(it.name, cell), "name"],
    ["Req/min", (it) => count(it.requests), "n"],
    ["Failed", (it, cell) => { cell.className = it.failed > 0 ? "n bad" : "n"; return percent(it.failed, it.requests); }, "n"],
    ["p50", (it) => span(it.first?.[0]), "n"],
    ["p95", (it) => span(it.first?.[1]), "n"],
    ...(size ? [["p99", (it) => span(it.first?.[2]), "n"]] : []),
    ["Tokens/min", (it) => count(sum(it.tokens)), "n"],
    ["Cost/min", (it) => money(it.cost), "n"],
  ];
  const byName = (it) => it.name;
  const counted = (title) => [
    [title, (it, cell) => named(words(it.name), cell), "name"],
    ["Last minute", (it) => count(it.count), "n"],
    ["Since start", (it) => count(it.all), "n"],
  ];
  const tables = {
    models: table("models", "Traffic by model in the last minute", rated("Model", true), byName),
    providers: table("providers", "Traffic by provider in the last minute", rated("Provider"), byName),
    errors: table("errors", "Errors by cause", counted("Code"), byName),
    faults: table("faults", "Failed attempts by provider and class", counted("Provider and class"), byName),
    limits: table("limits", "Limits that refused requests", counted("Limit"), byName),
    breakers: table("breakers", "Breakers that are not closed", [
      ["Name", (it, cell) => named(it.name, cell), "name"],
      ["Of", (it) => it.scope],
      ["State", (it, cell) => { cell.className = it.state === "open" ? "bad" : "warn"; return words(it.state); }],
      ["Reason", (it) => it.last_failure ? `${words(it.last_failure.class)}${it.asked_to_wait ? ", the provider asked to wait" : ""}` : "–"],
      ["Since", (it) => it.since ? clock(Date.parse(it.since)) : "–"],
      ["Next try in", (it) => it.cooldown_left_ms == null ? "–" : span(it.cooldown_left_ms / 1000), "n"],
    ], (it) => `${it.scope} ${it.name}`),
    recent: table("recent", "Last requests, newest first", [
      ["Request", (it, cell) => linked(it.id, cell, (id) => showOne(id)), "mono"],
      ["Ended", (it) => clock(it.at)],
      ["Status", (it, cell) => { cell.className = it.code || it.status >= 400 ? "bad" : "good"; return it.code ? `${it.status} ${words(it.code)}` : `${it.status}`; }],
      ["Model", (it, cell) => named(it.model || "–", cell), "name"],
      ["Provider", (it, cell) => named(it.provider || "–", cell), "name"],
      ["Attempts", (it, cell) => { cell.className = it.failed.length ? "n warn" : "n"; return `${it.attempts}`; }, "n"],
      ["First token", (it) => span(it.first_ms == null ? null : it.first_ms / 1000), "n"],
      ["Duration", (it) => span(it.ms / 1000), "n"],
      ["Tokens", (it) => it.usage ? count(sum(it.usage.slice(0, 4))) : "–", "n"],
      ["Cost", (it) => it.cost ?? "–", "n"],
      ["Key", (it, cell) => it.key ? linked(it.key, cell, (id) => showKey(id)) : "–", "mono"],
    ], (it) => it.id),
    exhausted: table("exhausted", "Keys by share of their valid grants that is used", [
      ["Name", (it, cell) => named(it.name, cell), "name"],
      ["Key", (it, cell) => linked(it.id, cell, (id) => showKey(id)), "mono"],
      ["Used", (it, cell) => {
        const share = shareUsed(it);
        if (!cell.firstChild) {
          const meter = el("meter");
          meter.high = 0.9; meter.low = 0.75; meter.optimum = 0;
          cell.append(meter, el("span"));
        }
        cell.firstChild.value = share;
        cell.firstChild.setAttribute("aria-label", "used");
        cell.lastChild.textContent = ` ${percent(share, 1)}`;
      }],
      ["Left", (it) => amounts(it.tokens - it.used, it.money - it.money_used, it), "n"],
      ["Granted", (it) => amounts(it.tokens, it.money, it), "n"],
    ], (it) => it.id),
    found: table("found", "Found keys", [
      ["Name", (it, cell) => named(it.name, cell), "name"],
      ["Key", (it, cell) => linked(it.id, cell, (id) => showKey(id)), "mono"],
      ["Begins with", (it) => it.prefix, "mono"],
      ["State", (it, cell) => { cell.className = it.state === "active" ? "good" : "bad"; return words(it.state); }],
      ["Plan", (it) => it.plan || "–"],
      ["Created", (it) => it.created_at.slice(0, 10)],
    ], (it) => it.id),
  };

  // The larger of the shares of tokens and of money that a key has used.
  function shareUsed(it) {
    return Math.max(it.used / Math.max(it.tokens, 1), it.money > 0 ? it.money_used / it.money : 0);
  }
  // Tokens and money of a key, as far as it has them.
  function amounts(tokens, money, it) {
    const all = [it.tokens > 0 && count(tokens), it.money > 0 && Number(money).toFixed(2)];
    return all.filter(Boolean).join(" and ") || "–";
  }

  // A table with the rows that match a search field, the first ones without a search.
  const search = (id, input, rows, text, further = 0, most = SHOWN) => {
    const wanted = input ? $(input).value.trim().toLowerCase() : "";
    const found = wanted ? rows.filter((it) => text(it).toLowerCase().includes(wanted)) : rows;
    tables[id](found.slice(0, most));
    const more = found.length - Math.min(found.length, most) + (wanted ? 0 : further);
    $(`${id}-more`).textContent = found.length === 0 ? (wanted ? "Nothing matches." : "None.")
      : more > 0 ? `${more} more${input ? "; search to find them" : ""}.` : "";
  };
  for (const it of ["find-model", "find-provider", "find-recent"]) $(it).oninput = () => last && show(last);

  // Plots.
  const plot = (id, what, series, format) => {
    const data = [[], ...series.map(() => [])];
    let chart = null;
    const root = $(id);
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const build = () => {
      chart?.destroy();
      chart = null;
      if (!root.clientWidth || typeof uPlot === "undefined") return;
      const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      chart = new uPlot({
        width: root.clientWidth, height: 122, pxAlign: false,
        cursor: { drag: { x: false, y: false }, points: { size: 5 } },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, space: 70, size: 24, values: (_, list) => list.map((it) => clock(it * 1000).slice(0, 5)) },
          { ...axis, size: 46, space: 30, values: (_, list) => list.map((it) => it == null ? "" : format(it)) }],
        series: [{ value: (_, it) => it == null ? "now" : clock(it * 1000) },
          ...series.map(([label, tone]) => ({ label, stroke: color(tone), width: 1.6, spanGaps: true, points: { show: false }, value: (_, it) => it == null ? "–" : format(it) }))],
      }, data, root);
    };
    const self = {
      rebuild: () => build(),
      add(at, values) {
        data[0].push(at);
        values.forEach((it, place) => data[place + 1].push(it));
        if (data[0].length > KEPT) data.forEach((it) => it.shift());
        root.setAttribute("aria-label", `${what}: ` + series.map(([label], place) => `${label} ${values[place] == null ? "none" : format(values[place])}`).join(", "));
      },
      draw() {
        if (chart && chart.width === root.clientWidth) chart.setData(data); else build();
        // Without a pointer the legend has the last values.
        if (chart && data[0].length > 0 && chart.cursor.idx == null) chart.setLegend({ idx: data[0].length - 1 });
      },
    };
    plots.push(self);
    return self;
  };
  const charts = {
    requests: plot("plot-requests", "Requests per minute", [["all", "--accent"], ["failed", "--bad"]], count),
    first: plot("plot-first", "Time to first token", [["p50", "--accent"], ["p95", "--second"], ["p99", "--third"]], (it) => it < 10 ? `${+it.toPrecision(2)}` : count(it)),
    tokens: plot("plot-tokens", "Tokens per minute", [["input", "--accent"], ["cached", "--third"], ["output", "--second"]], count),
    cost: plot("plot-cost", "Cost per minute", [["cost", "--accent"]], money),
  };
  addEventListener("resize", () => plots.forEach((it) => it.draw()));

  const tile = (() => {
    const known = new Map();
    return (name, value, cls = "") => {
      let dd = known.get(name);
      if (!dd) {
        const box = el("div");
        dd = el("dd");
        box.append(el("dt", name), dd);
        $("tiles").append(box);
        known.set(name, dd);
      }
      dd.textContent = value;
      dd.className = cls;
    };
  })();

  // An event.
  let last = null;
  const show = (data) => {
    if (data !== last && data.window > 0) {
      const { now } = data, at = data.at / 1000, [input, read, write, output] = now.tokens;
      charts.requests.add(at, [now.requests, now.failed]);
      charts.first.add(at, now.first || [null, null, null]);
      charts.tokens.add(at, [input, read + write, output]);
      charts.cost.add(at, [now.cost]);
    }
    last = data;
    if (!$("overview").hidden) {
      const all = data.total;
      tile("Requests/min", count(all.requests));
      tile("Failed", percent(all.failed, all.requests), all.failed > 0 ? "bad" : "");
      tile("First token p50", span(all.first?.[0]));
      tile("First token p95", span(all.first?.[1]));
      tile("First token p99", span(all.first?.[2]));
      tile("Tokens/min", count(sum(all.tokens)));
      tile("Cost/min", money(all.cost));
      tile("In flight", count(data.gauges.in_flight || 0));
      tile("Open streams", count(data.gauges.streams || 0));
      tile("Connections", count(data.gauges.connections || 0));
      tile("Memory", `${compact.format((data.gauges.memory || 0) / 1048576)} MiB`);
      tile("Running for", span(Math.max(0, data.at / 1000 - (data.gauges.started || data.at / 1000))));
      tile("Requests since start", count(all.all));
      tile("Open breakers", `${data.breakers.length + data.more_breakers}`, data.breakers.length ? "bad" : "");
      // Samples begin with the first viewer.
      $("window").textContent = data.window < 58 ? `Rates are of the last ${Math.round(data.window)} s: the gateway samples while a dashboard is open.` : "";
      Object.values(charts).forEach((it) => it.draw());
      $("breakers-none").hidden = data.breakers.length > 0;
      tables.breakers(data.breakers);
      search("models", "find-model", data.models, byName, data.more_models);
      search("providers", "find-provider", data.providers, byName, data.more_providers);
      search("errors", null, data.causes.filter((it) => it.kind === "error"), byName);
      search("faults", null, data.causes.filter((it) => it.kind === "upstream"), byName, data.more_causes);
      search("limits", null, data.causes.filter((it) => it.kind === "limit"), byName);
    }
    if (!$("requests").hidden) {
      const text = (it) => [it.id, it.model, it.provider, it.key, it.code, it.status].join(" ");
      search("recent", "find-recent", data.requests, text, 0, 100);
    }
  };

  // One request.
  const facts = (pairs) => {
    const list = el("dl", null, "facts");
    for (const [name, value] of pairs) if (value !== null && value !== undefined && value !== "") list.append(el("dt", name), el("dd", `${value}`));
    return list;
  };
  const plain = (caption, titles, rows) => {
    const box = el("div", null, "scroll"), it = el("table");
    box.tabIndex = 0;
    it.append(el("caption", caption, "unseen"));
    const head = it.createTHead().insertRow();
    titles.forEach((title) => { const th = el("th", title); th.scope = "col"; head.append(th); });
    const body = it.createTBody();
    for (const row of rows) { const tr = body.insertRow(); row.forEach((cell) => tr.append(el("td", cell == null ? "–" : `${cell}`))); }
    box.append(it);
    return box;
  };
  const flat = (value, path = "") => Object.entries(value).flatMap(([name, it]) => {
    const here = path ? `${path} ${words(name)}` : words(name);
    return it && typeof it === "object" ? flat(it, here) : [[here, it]];
  });
  const showDialog = (title, ...content) => {
    $("one-title").textContent = title;
    $("one-body").replaceChildren(...content);
    $("one").showModal();
  };
  const showOne = async (id) => {
    $("request-fault").textContent = "";
    let found;
    try {
      found = await (await ask(`/api/v1/dashboard/requests/${encodeURIComponent(id)}`)).json();
    } catch (fault) {
      $("request-fault").textContent = fault.message;
      return;
    }
    const body = el("div"), it = found.recent;
    if (it) {
      body.append(facts([
        ["Status", it.code ? `${it.status} ${it.code}` : it.status], ["Outcome", words(it.outcome)], ["Ended", new Date(it.at).toISOString()],
        ["Format", it.format], ["Key", it.key], ["Model", it.model], ["Why this model", it.reason], ["Provider", it.provider],
        ["Attempts", it.attempts], ["First token", it.first_ms == null ? null : `${it.first_ms} ms`], ["Duration", `${it.ms} ms`], ["Cost", it.cost],
        ["Route", it.route],
      ]));
      if (it.usage) body.append(el("h2", "Tokens"), plain("Tokens", ["Input", "Cache read", "Cache write", "Output", "of it reasoning"], [it.usage]));
      if (it.failed.length) body.append(el("h2", "Failed attempts"), plain("Failed attempts", ["Deployment", "Reason", "Status", "After"], it.failed.map((one) => [one.deployment, words(one.class), one.status, `${one.after_ms} ms`])));
    }
    else body.append(el("p", "Not one of the last 100 requests: its attempts are in the log, which tollgate logs searches.", "hint"));
    if (found.record) body.append(el("h2", "Record in the ledger"), facts(flat(found.record)));
    showDialog(id, body);
  };
  $("one-close").onclick = () => $("one").close();
  $("find-request").onsubmit = (event) => { event.preventDefault(); showOne($("request-id").value.trim()); };

  // Keys.
  const showKeys = async () => {
    $("keys-fault").textContent = "";
    try {
      const { data } = await (await ask("/api/v1/dashboard/keys")).json();
      search("exhausted", null, data, byName, 0, 50);
    } catch (fault) { $("keys-fault").textContent = fault.message; }
  };
  $("keys-again").onclick = showKeys;
  // By name, by id or by how it begins. Of a whole key only the beginning is sent.
  $("find-key").onsubmit = async (event) => {
    event.preventDefault();
    $("key-fault").textContent = "";
    const text = $("key-text").value.trim(), named = /^(key_|sk-)\w+$/.test(text);
    const one = text.startsWith("sk-") ? text.slice(0, 11) : text;
    let found = [], more = false;
    try {
      const answer = await (await ask(named ? `/api/v1/keys/${encodeURIComponent(one)}` : `/api/v1/keys?limit=50&name=${encodeURIComponent(text)}`)).json();
      [found, more] = named ? [[answer], false] : [answer.data, answer.has_more];
    } catch (fault) {
      if (fault.status !== 404) { $("key-fault").textContent = fault.message; return; }
    }
    $("found-card").hidden = false;
    tables.found(found);
    $("found-more").textContent = found.length === 0 ? "No key matches." : more ? "More keys match: give more of the name." : "";
  };
  const showKey = async (id) => {
    const fault = $($("requests").hidden ? "keys-fault" : "request-fault");
    fault.textContent = "";
    try {
      const path = `/api/v1/keys/${encodeURIComponent(id)}`;
      const [key, grants] = await Promise.all([ask(path), ask(`${path}/grants`)].map(async (it) => (await it).json()));
      const grant = (it) => [it.plan, amounts(it.tokens, it.money, it), amounts(it.used, it.money_used, it), it.valid_until || "from the first use"];
      showDialog(key.name, facts(flat(key)), el("h2", "Grants"), plain("Grants", ["Plan", "Granted", "Used", "Valid until"], grants.data.map(grant)));
    } catch (cause) { fault.textContent = cause.message; }
  };

  // Explain.
  const EXAMPLE = JSON.stringify({ model: "", messages: [{ role: "user", content: "Hello" }] }, null, 2);
  $("ask-body").value = EXAMPLE;
  $("ask").onsubmit = async (event) => {
    event.preventDefault();
    $("ask-fault").textContent = "";
    const box = $("answer");
    box.replaceChildren();
    try {
      const body = $("ask-body").value.trim();
      const request = body ? JSON.parse(body) : null;
      const order = { key: $("ask-key").value.trim(), path: $("ask-path").value.trim(), session: $("ask-session").value || null, request };
      const answer = await ask("/api/v1/explain", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(order) });
      const it = await answer.json(), card = el("div", null, "card"), what = it.outcome;
      const text = { sent: `It is sent to ${what.provider}.`, answered_here: "The gateway answers it.", refused: `It is refused: ${what.status} ${what.code}: ${what.message}` }[what.kind];
      card.append(el("h2", text, what.kind === "refused" ? "bad" : "good"));
      card.append(facts([["Key", `${it.key.name} (${it.key.id}), ${it.key.state}`], ["Plan", it.key.plan], ["Format", it.format],
        ["Model", it.model?.id], ["Why this model", it.model?.reason], ["Group", it.model?.group],
        ["Most tokens", it.bound?.tokens], ["Balance left", it.balance?.left], ["Balance reserved", it.balance?.held],
        ["Most cost", it.bound?.cost], ["Money left", it.balance?.money?.left]]));
      if (it.candidates.length) card.append(el("h2", "Candidates"), plain("Candidates", ["Provider", "Model", "Credential", "Asked", "Reason", "Priority", "Weight"], it.candidates.map((one) => [one.provider, one.model, one.credential, one.asked ? "yes" : "no", one.reason, one.priority, one.weight])));
      if (it.filters.length) card.append(el("h2", "Filters"), plain("Filters", ["Filter", "Result"], it.filters.map((one) => [one.name, one.refusal ? one.refusal.message : "passes"])));
      if (it.limits.length) card.append(el("h2", "Limits per minute"), plain("Limits", ["Limit", "Value", "Left", "Needed"], it.limits.map((one) => [words(one.name), one.limit, one.remaining, one.needed])));
      box.append(card);
    } catch (fault) {
      $("ask-fault").textContent = fault instanceof SyntaxError ? `the body is not valid JSON: ${fault.message}` : fault.message;
    }
  };

  applyTheme();
  begin();
})();
