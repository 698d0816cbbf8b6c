// Opens the dashboard of a running gateway in Chromium. `make test-dashboard` runs it.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { connect, createServer } from "node:net";
import { chromium } from "playwright-core";

const { OPEN, GATEWAY, ADMIN_TOKEN, KEY, FIRST, FAILED_OVER, SHOTS } = process.env;
mkdirSync(SHOTS, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
});

// Between the browser and the gateway, to break their connections.
const gateway = new URL(process.env.ADMIN), ends = new Set();
let broken = false;
const between = createServer((near) => {
  if (broken) return near.destroy();
  const far = connect(gateway.port, gateway.hostname);
  for (const it of [near, far]) {
    ends.add(it);
    it.on("error", () => {});
    it.on("close", () => { ends.delete(it); near.destroy(); far.destroy(); });
  }
  near.pipe(far).pipe(near);
});
await new Promise((done) => between.listen(0, "127.0.0.1", done));
const ADMIN = `http://127.0.0.1:${between.address().port}`;
const breakOff = () => {
  broken = true;
  ends.forEach((it) => it.destroy());
};

const ask = async (orders = "", model = "model-001") => {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  if (orders) headers["x-sim"] = orders;
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Say something nice." }] });
  const answer = await fetch(`${GATEWAY}/v1/chat/completions`, { method: "POST", headers, body });
  await answer.text();
  served += 1;
  return answer.headers.get("x-request-id");
};

// The cells of the row of a table that begins with a text.
const row = async (page, table, name) => {
  const found = page.locator(`#${table} tbody tr`).filter({ has: page.locator("th", { hasText: new RegExp(`^${name}$`) }) });
  await found.first().waitFor({ timeout: 6000 }).catch(() => assert.fail(`${table} has no row ${name}`));
  return found.first().locator("th, td").allTextContents();
};
// What a request cost and took in the last minute: numbers that come from the traffic of this test.
const millis = (text) => parseFloat(text) * (text.endsWith(" ms") ? 1 : 1000);
const isPositive = (text) => assert.ok(parseFloat(text) > 0, text);

// The requests that were sent before, and those of this file.
let served = 206;

const narrow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

try {
  for (const width of [1440, 360]) {
    for (const colorScheme of ["light", "dark"]) {
      const name = `${width}-${colorScheme}`;
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce" });
      const page = await context.newPage();
      const faults = [];
      page.on("pageerror", (it) => faults.push(`${it}`));
      page.on("console", (it) => ["error", "warning"].includes(it.type()) && faults.push(it.text()));
      page.on("request", (it) => [ADMIN, OPEN].some((at) => it.url().startsWith(`${at}/`)) || faults.push(`another host: ${it.url()}`));
      page.on("dialog", (it) => { faults.push(`dialog: ${it.message()}`); it.dismiss(); });

      // Sign in by keyboard alone.
      await page.goto(`${ADMIN}/`);
      await page.getByLabel("Admin token").waitFor();
      assert.equal(await page.evaluate(() => document.activeElement.id), "token");
      await page.screenshot({ path: `${SHOTS}/sign-in-${name}.png` });
      await page.keyboard.type("wrong");
      await page.keyboard.press("Enter");
      await page.getByText("the admin token is not valid").waitFor();
      // The browser reports the refused request itself.
      assert.deepEqual(faults.splice(0).filter((it) => !it.includes("401")), []);
      await page.getByLabel("Admin token").fill("");
      await page.keyboard.type(ADMIN_TOKEN);
      await page.keyboard.press("Enter");
      await page.getByText("Live, version").waitFor();
      assert.deepEqual(await context.cookies(), []);

      // A live update.
      await page.locator("#models tbody tr").first().waitFor();
      // A plot names its last values.
      const plotted = [["requests", "all [1-9]"], ["first", "p50 0.[2-9].*p99 0.[2-9]"], ["tokens", "input [1-9].*output [1-9]"], ["cost", "cost [0-9.]*[1-9]"]]
        .map((it) => page.waitForFunction(([id, wanted]) => new RegExp(wanted).test(document.getElementById(`plot-${id}`).getAttribute("aria-label")), it, { timeout: 15000 }));
      for (let times = 0; times < 3; times += 1) await ask("delay-300ms", "slow");
      await Promise.all(plotted);
      await page.waitForTimeout(4500);
      assert.ok(await narrow(page), `${name}: the overview is wider than the window`);
      assert.ok(await page.locator("#models tbody tr").count() <= 20);
      assert.equal(await page.locator("#plot-requests canvas").count(), 1);
      await page.getByLabel("Search models").fill("model-199");
      await page.locator("#models tbody tr").filter({ hasText: "model-199" }).waitFor();
      assert.equal(await page.locator("#models tbody tr").count(), 1);
      await page.getByLabel("Search models").fill("");

      // Each part has the numbers of the traffic that was sent.
      const tile = (name) => page.locator("#tiles div").filter({ has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) }).locator("dd").textContent();
      assert.equal(await tile("Requests since start"), `${served}`);
      isPositive(await tile("Open breakers"));
      for (const it of ["Requests/min", "Tokens/min", "Cost/min"]) isPositive(await tile(it));
      for (const it of ["p50", "p95", "p99"]) {
        const first = millis(await tile(`First token ${it}`));
        assert.ok(first >= 250 && first < 5000, `${it}: ${first} ms`);
      }
      const busy = await row(page, "models", "slow");
      [1, 6, 7].forEach((column) => isPositive(busy[column]));
      [3, 4, 5].forEach((column) => assert.ok(millis(busy[column]) >= 250, busy.join()));
      const provider = await row(page, "providers", "c");
      [1, 5, 6].forEach((column) => isPositive(provider[column]));
      for (const [table, name, since] of [["errors", "invalid model", 1], ["errors", "quota exhausted", 1], ["errors", "rate limit exceeded", 1],
        ["faults", "a: server error", 1], ["limits", "key: requests", 1], ["limits", "key: balance tokens", 1]]) {
        const cells = await row(page, table, name);
        assert.equal(cells[2], `${since}`, `${table}: ${cells}`);
      }
      const breaker = await row(page, "breakers", "a/m");
      assert.deepEqual(breaker.slice(1, 4), ["deployment", "open", "server error"]);
      assert.match(breaker[5], / min$/);
      assert.ok(await page.getByText("Rates are of the last").isVisible());
      // The legends show every series, whatever the length of their numbers.
      const cut = await page.evaluate(() => {
        for (const value of document.querySelectorAll(".u-value")) value.textContent = "123,456.7K";
        return [...document.querySelectorAll(".plot")].some((it) => getComputedStyle(it).overflowY !== "visible" && it.scrollHeight > it.clientHeight);
      });
      assert.ok(!cut, `${name}: a legend is cut off`);
      await page.waitForTimeout(2500);
      await page.screenshot({ path: `${SHOTS}/overview-${name}.png` });
      await page.screenshot({ path: `${SHOTS}/overview-${name}-full.png`, fullPage: true });

      // The last requests and one of them, by keyboard.
      await page.getByRole("link", { name: "Requests" }).focus();
      await page.keyboard.press("Enter");
      const id = await ask();
      const button = page.getByRole("button", { name: id });
      await button.waitFor({ timeout: 6000 });
      const recent = await row(page, "recent", id);
      assert.deepEqual([...recent.slice(2, 6), recent[8]], ["200", "model-001", "b", "1", "15"]);
      assert.ok(await page.locator("#recent tbody tr").count() <= 100);
      await page.screenshot({ path: `${SHOTS}/requests-${name}.png` });
      await button.focus();
      await page.waitForTimeout(2500);
      assert.equal(await page.evaluate(() => document.activeElement.textContent), id, "an update has taken the focus");
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").getByText("Record in the ledger").waitFor();
      assert.ok(await narrow(page), `${name}: a request is wider than the window`);
      await page.screenshot({ path: `${SHOTS}/request-${name}.png` });
      await page.keyboard.press("Escape");
      // One that failed over: its attempts, its candidates and why each was asked or not.
      await page.getByLabel("Request by id").fill(FAILED_OVER);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").getByText("Failed attempts").first().waitFor();
      const one = await page.getByRole("dialog").innerText();
      for (const it of [/Attempts\s+2/, /a\/m\s+server error\s+500/, /Route\s+b\/m .*: only one of its rank/, /charged\s+15/]) assert.match(one, it);
      await page.goBack();
      await page.getByRole("dialog").waitFor({ state: "hidden" });
      await page.goForward();
      await page.getByLabel("Request by id").fill(FIRST);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").getByText("Not one of the last 100 requests").waitFor();
      await page.keyboard.press("Escape");
      const failing = await ask("", "failing");
      await page.getByLabel("Request by id").fill(failing);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");

      await page.getByRole("link", { name: "Keys" }).click();
      await page.locator("#exhausted tbody tr").first().waitFor();
      assert.equal(await page.locator("#exhausted tbody tr").count(), 50);
      const emptiest = await row(page, "exhausted", "customer 9990");
      assert.deepEqual(emptiest.slice(2), [" 99.9%", "1,000", "1M"]);
      // A name that is markup stays text.
      assert.ok(await page.getByText("<img src=x onerror=alert(1)>").count() > 0);
      assert.equal(await page.locator("img, table script").count(), 0);
      assert.ok(await narrow(page), `${name}: keys are wider than the window`);
      await page.screenshot({ path: `${SHOTS}/keys-${name}.png` });

      // Any key is found by its name, by its id and by how it begins; the whole key does not leave the page.
      const find = async (text) => {
        await page.getByLabel("Find a key").fill(text);
        await page.keyboard.press("Enter");
      };
      await find("customer 4321");
      await page.locator("#found tbody tr").filter({ hasText: "customer 4321" }).waitFor();
      assert.equal(await page.locator("#found tbody tr").count(), 1);
      await find("customer");
      await page.getByText("More keys match").waitFor();
      await find("key_00000000000000004321");
      await page.locator("#found tbody tr").filter({ hasText: "customer 4321" }).waitFor();
      const sent = page.waitForRequest((it) => it.url().includes("/api/v1/keys/sk-"));
      await find(KEY);
      assert.ok(!(await sent).url().includes(KEY));
      await page.locator("#found tbody tr").filter({ hasText: KEY.slice(0, 11) }).waitFor();
      assert.ok(await narrow(page), `${name}: found keys are wider than the window`);
      await page.screenshot({ path: `${SHOTS}/found-${name}.png` });
      await page.locator("#found tbody button").first().focus();
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").getByRole("heading", { name: "Grants" }).waitFor();
      assert.ok(await narrow(page), `${name}: a key is wider than the window`);
      await page.screenshot({ path: `${SHOTS}/key-${name}.png` });
      await page.keyboard.press("Escape");
      await find("no such customer");
      await page.getByText("No key matches.").waitFor();

      await page.getByRole("link", { name: "Explain" }).click();
      await page.getByLabel("Key", { exact: true }).fill(KEY);
      await page.getByLabel("Body").fill(JSON.stringify({ model: "model-001", messages: [{ role: "user", content: "Hi" }] }));
      await page.getByRole("button", { name: "Explain" }).click();
      await page.getByRole("heading", { name: "Candidates" }).waitFor();
      const explained = await page.locator("#answer").innerText();
      for (const it of [/It is sent to b\./, /b\s+model-001\s+\S+\s+yes\s+priority 0/, /quota\s+passes/]) assert.match(explained, it);
      assert.ok(await narrow(page), `${name}: explain is wider than the window`);
      await page.screenshot({ path: `${SHOTS}/explain-${name}.png` });

      // Every control has a name.
      const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea, a")]
        .filter((it) => !(it.textContent.trim() || it.ariaLabel || it.labels?.length)).map((it) => it.outerHTML));
      assert.deepEqual(nameless, []);
      await page.getByRole("button", { name: "Theme" }).click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");

      // Without a connection, a search of the last event does not look live.
      await page.getByRole("link", { name: "Requests" }).click();
      breakOff();
      await page.getByText("No connection, retrying").waitFor();
      await page.getByLabel("Search requests").fill("model-001");
      assert.equal(await page.locator("#state").textContent(), "No connection, retrying");
      broken = false;
      await page.getByText("Live, version").waitFor();
      // The browser reports the broken connections itself.
      assert.deepEqual(faults.splice(0).filter((it) => !it.includes("net::ERR_")), []);

      // At a sign-out, also one that the gateway causes, everything that needed the token goes.
      await page.getByRole("button", { name: /^req_/ }).first().click();
      await page.getByRole("dialog").waitFor();
      await page.route("**/api/v1/dashboard/stream", (it) => it.fulfill({ status: 401, json: { error: { message: "the token has changed" } } }));
      breakOff();
      await page.getByText("the token has changed").waitFor();
      broken = false;
      assert.ok(!await page.getByRole("dialog").isVisible());
      const left = await page.evaluate(() => ["one", "answer", "recent", "found", "exhausted", "models"].map((it) => document.getElementById(it).textContent).join("") + document.getElementById("ask-body").value);
      assert.ok(!/req_|key_|model-|customer|Hi/.test(left), left);
      await page.unroute("**/api/v1/dashboard/stream");
      await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
      await page.keyboard.press("Enter");
      await page.getByText("Live, version").waitFor();
      assert.deepEqual(faults.splice(0).filter((it) => !/net::ERR_|401/.test(it)), []);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Admin token").waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.length), 0);
      assert.deepEqual(faults, [], name);

      // Where the overview is open, nothing else is.
      await page.goto(`${OPEN}/#keys`);
      await page.getByText("Live, version").waitFor();
      await page.locator("#tiles dd").first().waitFor();
      assert.ok(await page.locator("#overview").isVisible());
      for (const it of ["#nav", "#requests", "#keys", "#explain", "#leave"]) assert.ok(!await page.locator(it).isVisible(), it);
      await page.screenshot({ path: `${SHOTS}/open-${name}.png` });
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "Keys" }).waitFor();
      assert.deepEqual(faults, [], name);
      await context.close();
      console.log(`${name}: ok`);
    }
  }
} finally {
  await browser.close();
  between.close();
}
