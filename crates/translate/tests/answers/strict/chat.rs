//! Chunks without names: the role first and once, the finish reason once, then usage with no
//! choices, then the end marker.

use super::{document, ensure};
use crate::summary::{Summary, of_chat, text};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Before,
    Deltas,
    Finished,
    Usage,
    Over,
}

#[derive(Debug, Default)]
struct Machine {
    stage: Stage,
    identity: Option<Value>,
    calls: usize,
    deltas: Vec<(Value, Value)>,
    usage: Option<Value>,
}

pub fn read(events: &[(Option<String>, String)]) -> Result<Summary, String> {
    let mut machine = Machine::default();
    for (name, data) in events {
        ensure(name.is_none(), || format!("a named event: {name:?}"))?;
        ensure(machine.stage != Stage::Over, || "after the end".into())?;
        if data == "[DONE]" {
            let may_end = matches!(machine.stage, Stage::Finished | Stage::Usage);
            ensure(may_end, || "the end marker before the end".into())?;
            machine.stage = Stage::Over;
            continue;
        }
        machine
            .chunk(&document(data)?)
            .map_err(|complaint| format!("{complaint}: {data}"))?;
    }
    ensure(machine.stage == Stage::Over, || "no end marker".into())?;
    let summary = of_chat(machine.deltas.iter().map(|(delta, reason)| (delta, reason)));
    let is_calling = summary.stop.as_deref() == Some("tool_calls");
    ensure(is_calling <= (machine.calls > 0), || {
        "tool_calls without a call".into()
    })?;
    Ok(Summary {
        usage: machine.usage,
        ..summary
    })
}

pub fn body(answer: &Value) -> Result<Summary, String> {
    ensure(text(&answer["id"]).starts_with("chatcmpl-"), || {
        "id of another format".into()
    })?;
    ensure(answer["object"] == "chat.completion", || {
        "no completion".into()
    })?;
    ensure(
        answer["created"].is_u64() && answer["model"] == "the-model",
        || "no identity".into(),
    )?;
    let [choice] = answer["choices"].as_array().ok_or("no choices")?.as_slice() else {
        return Err("not one choice".into());
    };
    ensure(
        choice["index"] == 0 && choice.get("logprobs").is_some(),
        || format!("{choice}"),
    )?;
    let message = &choice["message"];
    ensure(message["role"] == "assistant", || "no role".into())?;
    for field in ["content", "refusal"] {
        let value = message.get(field).ok_or_else(|| format!("no {field}"))?;
        ensure(value.is_string() || value.is_null(), || {
            format!("{field} {value}")
        })?;
    }
    let calls = message["tool_calls"].as_array();
    ensure(calls.is_none_or(|calls| !calls.is_empty()), || {
        "an empty list of calls".into()
    })?;
    for call in calls.into_iter().flatten() {
        let kind = text(&call["type"]);
        ensure(!text(&call["id"]).is_empty(), || "no id".into())?;
        ensure(!text(&call[kind]["name"]).is_empty(), || "no name".into())?;
        let field = if kind == "custom" {
            "input"
        } else {
            "arguments"
        };
        ensure(call[kind][field].is_string(), || format!("no {field}"))?;
    }
    let reason = text(&choice["finish_reason"]);
    ensure((reason == "tool_calls") <= calls.is_some(), || {
        "no calls".into()
    })?;
    let usage = &answer["usage"];
    for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        ensure(usage.is_null() || usage[field].is_u64(), || {
            format!("no {field}")
        })?;
    }
    Ok(Summary {
        usage: Some(usage.clone()),
        ..of_chat([(message, &choice["finish_reason"])].into_iter())
    })
}

impl Machine {
    fn chunk(&mut self, chunk: &Value) -> Result<(), String> {
        let identity = json!([
            chunk["id"],
            chunk["object"],
            chunk["created"],
            chunk["model"]
        ]);
        ensure(text(&chunk["id"]).starts_with("chatcmpl-"), || {
            "id of another format".into()
        })?;
        ensure(chunk["object"] == "chat.completion.chunk", || {
            "no chunk".into()
        })?;
        ensure(
            chunk["created"].is_u64() && chunk["model"] == "the-model",
            || "no identity".into(),
        )?;
        let known = self.identity.get_or_insert_with(|| identity.clone());
        ensure(*known == identity, || "the identity changed".into())?;
        ensure(chunk.get("usage").is_some(), || {
            "no usage, not even null".into()
        })?;
        match chunk["choices"].as_array().ok_or("no choices")?.as_slice() {
            [] => self.usage(chunk),
            [choice] => {
                ensure(chunk["usage"].is_null(), || "usage beside a choice".into())?;
                self.choice(choice)
            }
            _ => Err("several choices".into()),
        }
    }

    fn usage(&mut self, chunk: &Value) -> Result<(), String> {
        ensure(self.stage == Stage::Finished, || {
            "usage before the end".into()
        })?;
        self.stage = Stage::Usage;
        for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            ensure(chunk["usage"][field].is_u64(), || format!("no {field}"))?;
        }
        self.usage = Some(chunk["usage"].clone());
        Ok(())
    }

    fn choice(&mut self, choice: &Value) -> Result<(), String> {
        ensure(choice["index"] == 0, || "another choice".into())?;
        for field in ["delta", "finish_reason", "logprobs"] {
            ensure(choice.get(field).is_some(), || format!("no {field}"))?;
        }
        let delta = choice["delta"].as_object().ok_or("no delta")?;
        match self.stage {
            Stage::Before => {
                ensure(delta.get("role") == Some(&json!("assistant")), || {
                    "no role".into()
                })?;
                ensure(delta.contains_key("content"), || {
                    "no content beside the role".into()
                })?;
                self.stage = Stage::Deltas;
            }
            Stage::Deltas => ensure(!delta.contains_key("role"), || "a second role".into())?,
            _ => return Err("a choice after the end".into()),
        }
        for call in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.call(call)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            const KNOWN: [&str; 4] = ["stop", "length", "tool_calls", "content_filter"];
            ensure(KNOWN.contains(&reason), || format!("reason {reason}"))?;
            ensure(delta.is_empty(), || "a delta beside the reason".into())?;
            self.stage = Stage::Finished;
        }
        let pair = (choice["delta"].clone(), choice["finish_reason"].clone());
        self.deltas.push(pair);
        Ok(())
    }

    /// A call begins with whom it is for; its arguments follow before the next begins.
    fn call(&mut self, call: &Value) -> Result<(), String> {
        let index = call["index"].as_u64().ok_or("no index")?;
        if index == self.calls as u64 {
            self.calls += 1;
            let kind = text(&call["type"]);
            ensure(!text(&call["id"]).is_empty(), || "no id".into())?;
            ensure(!text(&call[kind]["name"]).is_empty(), || "no name".into())
        } else {
            ensure(index + 1 == self.calls as u64, || {
                "a call that is over".into()
            })?;
            ensure(call.get("id").is_none(), || "a second id".into())
        }
    }
}
