// Translated streams through the official JavaScript SDKs' streaming helpers.
// Started by test_translated.py, which serves the golden results and says in the environment where.

import assert from "node:assert/strict";
import { test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const { TRANSLATED_ADDRESS, TRANSLATED_RESULTS } = process.env;
/** Per caller's format: [name, whether it ends in an error]. */
const results = JSON.parse(TRANSLATED_RESULTS);

const once = { apiKey: "sk-any", maxRetries: 0, timeout: 20_000 };
const openai = new OpenAI({ baseURL: `${TRANSLATED_ADDRESS}/v1`, ...once });
const anthropic = new Anthropic({ baseURL: TRANSLATED_ADDRESS, ...once });
const messages = [{ role: "user", content: "hello" }];
const golden = (name) => ({ headers: { "x-golden": name } });
const bounded = { timeout: 30_000 };

for (const [name, isError] of results.messages) {
  test(name, bounded, async () => {
    const stream = anthropic.messages.stream({ model: "m", max_tokens: 9, messages }, golden(name));
    if (isError) return assert.rejects(stream.finalMessage());
    const message = await stream.finalMessage();
    assert.ok(message.stop_reason);
    for (const block of message.content) {
      if (block.type === "tool_use" && message.stop_reason !== "max_tokens") assert.equal(typeof block.input, "object");
    }
  });
}

for (const [name, isError] of results.chat) {
  test(name, bounded, async () => {
    const ask = { model: "m", messages, stream_options: { include_usage: true } };
    const stream = openai.chat.completions.stream(ask, golden(name));
    if (isError) return assert.rejects(stream.finalChatCompletion());
    // The helper knows no custom tools.
    if (name.includes("custom")) return assert.rejects(stream.finalChatCompletion());
    const completion = await stream.finalChatCompletion();
    const [choice] = completion.choices;
    assert.equal(choice.finish_reason === "tool_calls", Boolean(choice.message.tool_calls?.length) && choice.finish_reason !== "length");
  });
}

for (const [name, isError] of results.responses) {
  test(name, bounded, async () => {
    const stream = openai.responses.stream({ model: "m", input: "hello" }, golden(name));
    if (isError) return assert.rejects(stream.finalResponse());
    const response = await stream.finalResponse();
    assert.match(response.status, /^(completed|incomplete)$/);
  });
}
