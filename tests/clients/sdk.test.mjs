// The official JavaScript SDKs: the same ground as the Python tests, in fewer steps.
// Started by test_javascript.py, which says in the environment what to talk to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";

const { TOLLGATE_BASE_URL, TOLLGATE_KEYS, TOLLGATE_MODELS } = process.env;
const keys = JSON.parse(TOLLGATE_KEYS);
const models = JSON.parse(TOLLGATE_MODELS);
const cases = JSON.parse(readFileSync(new URL("errors.json", import.meta.url)));

const once = { maxRetries: 0, timeout: 20_000 };
const openaiWith = (apiKey) => new OpenAI({ baseURL: `${TOLLGATE_BASE_URL}/v1`, apiKey, ...once });
const anthropicWith = (apiKey) => new Anthropic({ baseURL: TOLLGATE_BASE_URL, apiKey, ...once });
const openai = openaiWith(keys.all);
const anthropic = anthropicWith(keys.all);

const say = (content) => [{ role: "user", content }];
const textOf = (message) => message.content.flatMap((block) => (block.type === "text" ? block.text : [])).join("");
const idsOf = async (list) => {
  const ids = [];
  for await (const model of list) ids.push(model.id);
  return ids;
};
const bounded = { timeout: 30_000 };
const city = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

test("both list the same catalog", bounded, async () => {
  const listed = await idsOf(openai.models.list());
  assert.ok(listed.includes("auto"));
  assert.deepEqual(await idsOf(anthropic.models.list({ limit: 7 })), listed);
  assert.equal((await openai.models.retrieve(models.chat)).id, models.chat);
});

test("chat completions: whole, streamed and by the helper", bounded, async () => {
  const ask = { model: models.chat, messages: say("hello there") };
  const whole = (await openai.chat.completions.create(ask)).choices[0].message.content;
  assert.match(whole, /hello there/);
  let streamed = "";
  for await (const chunk of await openai.chat.completions.create({ ...ask, stream: true })) {
    streamed += chunk.choices[0].delta.content ?? "";
  }
  assert.equal(streamed, whole);
  assert.equal(await openai.chat.completions.stream(ask).finalContent(), whole);
});

test("chat completions: the tool runner runs the whole loop", bounded, async () => {
  const tool = {
    type: "function",
    function: { name: "get_weather", description: "The weather of a city", parameters: city, parse: JSON.parse, function: () => "21 degrees" },
  };
  const ask = { model: models.chat, messages: say("Call get_weather for Paris"), tools: [tool] };
  assert.match(await openai.chat.completions.runTools(ask).finalContent(), /21 degrees/);
  assert.match(await openai.chat.completions.runTools({ ...ask, stream: true }).finalContent(), /21 degrees/);
});

test("responses: whole, streamed and by the helper, with a tool call", bounded, async () => {
  const ask = { model: models.responses, input: "hello there" };
  const whole = (await openai.responses.create(ask)).output_text;
  assert.match(whole, /hello there/);
  assert.equal((await openai.responses.stream(ask).finalResponse()).output_text, whole);
  const tools = [{ type: "function", name: "get_weather", description: "The weather of a city", parameters: city, strict: true }];
  const called = await openai.responses.stream({ ...ask, input: "Call get_weather for Paris", tools }).finalResponse();
  const call = called.output.find((item) => item.type === "function_call");
  assert.deepEqual(Object.keys(JSON.parse(call.arguments)), ["city"]);
});

test("messages: whole, streamed and counted", bounded, async () => {
  const ask = { model: models.messages, max_tokens: 1000, messages: say("hello there") };
  const whole = textOf(await anthropic.messages.create(ask));
  assert.match(whole, /hello there/);
  assert.equal(await anthropic.messages.stream(ask).finalText(), whole);
  const { input_tokens } = await anthropic.messages.countTokens({ model: ask.model, messages: ask.messages });
  assert.ok(input_tokens > 0);
});

test("messages: a tool is called and its answer used", bounded, async () => {
  const ask = {
    model: models.messages,
    max_tokens: 1000,
    tools: [{ name: "get_weather", description: "The weather of a city", input_schema: city }],
  };
  const turns = say("Call get_weather for Paris");
  const { content } = await anthropic.messages.stream({ ...ask, messages: turns }).finalMessage();
  const { id: tool_use_id, input } = content.find((block) => block.type === "tool_use");
  assert.deepEqual(Object.keys(input), ["city"]);
  const result = { type: "tool_result", tool_use_id, content: "21 degrees" };
  turns.push({ role: "assistant", content }, { role: "user", content: [result] });
  assert.match(textOf(await anthropic.messages.create({ ...ask, messages: turns })), /21 degrees/);
});

// From its second turn on, Vercel's AI SDK refers to what was answered by `item_reference`.
for (const model of Object.values(models)) {
  test(`the AI SDK runs a loop of tools and a second turn with ${model}`, bounded, async () => {
    const provider = createOpenAI({ baseURL: `${TOLLGATE_BASE_URL}/v1`, apiKey: keys.all });
    const weather = tool({ description: "The weather of a city", inputSchema: jsonSchema(city), execute: () => "21 degrees" });
    const ask = { model: provider.responses(model), tools: { get_weather: weather }, stopWhen: stepCountIs(3), maxRetries: 0 };
    const turns = say("Call get_weather for Paris");
    const first = await generateText({ ...ask, messages: turns });
    assert.match(first.text, /21 degrees/);
    turns.push(...first.response.messages, ...say("and hello there"));
    const { fullStream } = streamText({ ...ask, messages: turns });
    let second = "";
    for await (const part of fullStream) {
      assert.notEqual(part.type, "error", String(part.error));
      if (part.type === "text-delta") second += part.text;
    }
    assert.match(second, /hello there/);
  });
}

const openaiExceptions = {
  400: OpenAI.BadRequestError,
  401: OpenAI.AuthenticationError,
  402: OpenAI.APIError,
  403: OpenAI.PermissionDeniedError,
  404: OpenAI.NotFoundError,
  422: OpenAI.UnprocessableEntityError,
  429: OpenAI.RateLimitError,
  502: OpenAI.InternalServerError,
  503: OpenAI.InternalServerError,
};

// The two families name their exceptions alike.
const anthropicExceptions = Object.fromEntries(
  Object.entries(openaiExceptions).map(([status, kind]) => [status, Anthropic[kind.name]]),
);

const optionsOf = (fault) => ({
  headers: {
    ...(fault.orders && { "x-sim": fault.orders }),
    ...(fault.key === "none" && { authorization: null, "x-api-key": null }),
  },
});

for (const fault of cases) {
  const key = fault.key === "none" ? keys.all : keys[fault.key ?? "all"];
  const settings = { ...bounded, skip: key ? false : `no ${fault.key} key here` };

  test(`openai: when ${fault.when}`, settings, async () => {
    const client = openaiWith(key);
    const body = { model: fault.model ?? models.chat, messages: say("hello"), ...fault.body };
    for (const stream of [false, true]) {
      await assert.rejects(client.chat.completions.create({ ...body, stream }, optionsOf(fault)), (error) => {
        assert.equal(error.constructor, openaiExceptions[fault.status], String(error));
        assert.deepEqual([error.status, error.code, error.type], [fault.status, fault.code, fault.type]);
        assert.ok(error.requestID);
        return true;
      });
    }
  });

  test(`anthropic: when ${fault.when}`, settings, async () => {
    const client = anthropicWith(key);
    const body = { model: fault.model ?? models.messages, max_tokens: 100, messages: say("hello"), ...fault.body };
    for (const stream of [false, true]) {
      await assert.rejects(client.messages.create({ ...body, stream }, optionsOf(fault)), (error) => {
        assert.ok(error instanceof anthropicExceptions[fault.status], String(error));
        assert.deepEqual([error.status, error.error.error.code, error.type], [fault.status, fault.code, fault.type]);
        assert.ok(error.requestID);
        return true;
      });
    }
  });
}

for (const orders of ["tokens-40+error-after-12", "tokens-40+cut-4200"]) {
  const breaking = { headers: { "x-sim": orders } };

  test(`a stream that breaks rejects in every format: ${orders}`, bounded, async () => {
    const drain = async (stream) => {
      for await (const event of stream) assert.notEqual(event.type, "response.completed");
    };
    const chat = await openai.chat.completions.create({ model: models.chat, messages: say("hello"), stream: true }, breaking);
    await assert.rejects(drain(chat), OpenAI.APIError);
    const messages = { model: models.messages, max_tokens: 100, messages: say("hello") };
    await assert.rejects(drain(await anthropic.messages.create({ ...messages, stream: true }, breaking)), Anthropic.APIError);
    await assert.rejects(anthropic.messages.stream(messages, breaking).finalMessage(), Anthropic.APIError);

    const responses = { model: models.responses, input: "hello" };
    await assert.rejects(drain(await openai.responses.create({ ...responses, stream: true }, breaking)), OpenAI.APIError);
    await assert.rejects(openai.responses.stream(responses, breaking).finalResponse(), OpenAI.APIError);
  });
}
