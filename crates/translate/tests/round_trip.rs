//! There and back: generated requests go from each format to each other one and back again.
//!
//! Two things are checked. Whatever the request says (every text, name, id, address, schema)
//! is found again on the other side and after the return. And going there a second time gives
//! the same body as the first time: what was said did not change on the way.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tollgate_translate::{Target, request};
use tollgate_types::Format;

/// What a request says, in no format yet.
#[derive(Clone, Debug)]
struct Script {
    instructions: Vec<String>,
    exchanges: Vec<Exchange>,
    tools: Vec<Tool>,
    choice: u8,
    parallel: Option<bool>,
    limit: u32,
    temperature: Option<u8>,
    effort: Option<&'static str>,
    schema: bool,
    stream: bool,
    /// Where both sides have it.
    search: Option<Search>,
}

/// A search of the web that the provider is to make.
#[derive(Clone, Debug)]
struct Search {
    domains: Vec<String>,
    are_blocked: bool,
    city: Option<String>,
    most: Option<u8>,
}

/// What the user says, and what the assistant answers and calls until the user speaks again.
#[derive(Clone, Debug)]
struct Exchange {
    said: Vec<Part>,
    /// An instruction after it.
    aside: Option<String>,
    answer: Option<String>,
    calls: Vec<Call>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Picture(String),
    Link(String),
    Pdf(String, String),
}

#[derive(Clone, Debug)]
struct Call {
    id: String,
    tool: usize,
    input: String,
    output: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    description: Option<String>,
    strict: Option<bool>,
}

/// Words that are like no others, with characters that are awkward in JSON.
fn words() -> impl Strategy<Value = String> {
    let awkward = prop::sample::select(vec![
        "",
        "\"quoted\"",
        "back\\slash",
        "line\nline",
        "é😀",
        "bell\u{7}",
        "{\"a\":1}",
        "</x>",
        "tab\t/",
    ]);
    ("[a-z]{12}", awkward).prop_map(|(word, awkward)| format!("{word} {awkward}."))
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => words().prop_map(Part::Text),
        1 => "[A-Za-z0-9]{16}".prop_map(Part::Picture),
        1 => "[a-z]{12}".prop_map(|path| Part::Link(format!("https://example.com/{path}.png"))),
        1 => ("[A-Za-z0-9]{16}", "[a-z]{12}").prop_map(|(data, name)| Part::Pdf(data, format!("{name}.pdf"))),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let output = prop::collection::vec(part(), 0..3);
    ("[a-zA-Z0-9_-]{20}", any::<usize>(), words(), output).prop_map(|(id, tool, input, output)| {
        Call {
            id,
            tool,
            input,
            output,
        }
    })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (
        prop::collection::vec(part(), 1..4),
        prop::option::weighted(0.2, words()),
        prop::option::weighted(0.8, words()),
        prop::collection::vec(call(), 0..3),
    )
        .prop_map(|(said, aside, answer, calls)| Exchange {
            said,
            aside,
            answer,
            calls,
        })
}

fn tool() -> impl Strategy<Value = Tool> {
    let strict = prop::option::of(any::<bool>());
    ("[a-z_-]{16}", prop::option::of(words()), strict).prop_map(|(name, description, strict)| {
        Tool {
            name,
            description,
            strict,
        }
    })
}

fn search() -> impl Strategy<Value = Search> {
    (
        prop::collection::vec("[a-z]{16}\\.org", 0..3),
        any::<bool>(),
        prop::option::of(words()),
        prop::option::of(1..9_u8),
    )
        .prop_map(|(domains, are_blocked, city, most)| Search {
            domains,
            are_blocked,
            city,
            most,
        })
}

fn script() -> impl Strategy<Value = Script> {
    let talk = (
        prop::collection::vec(words(), 0..3),
        prop::collection::vec(exchange(), 1..4),
        prop::collection::vec(tool(), 1..4),
    );
    let settings = (
        0..4_u8,
        prop::option::of(any::<bool>()),
        100..100_000_u32,
        prop::option::of(0..=10_u8),
        prop::option::of(prop::sample::select(vec![
            "none", "low", "medium", "high", "max",
        ])),
        any::<bool>(),
        any::<bool>(),
        prop::option::weighted(0.3, search()),
    );
    (talk, settings).prop_map(|(talk, settings)| {
        let (instructions, exchanges, tools) = talk;
        let (choice, parallel, limit, temperature, effort, schema, stream, search) = settings;
        Script {
            instructions,
            exchanges,
            tools,
            choice,
            // Where no tool may be called, nothing is to be said about several.
            parallel: parallel.filter(|_| choice != 1),
            limit,
            // A model that thinks, or must call a tool, takes its own sampling.
            temperature: temperature.filter(|_| matches!(effort, None | Some("none"))),
            effort: effort.filter(|effort| *effort == "none" || choice < 2),
            schema,
            stream,
            search,
        }
    })
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": false})
}

impl Script {
    fn tool(&self, call: &Call) -> &str {
        &self.tools.get(call.tool % self.tools.len()).unwrap().name
    }

    fn write(&self, format: Format) -> Value {
        match format {
            Format::Chat => self.chat(),
            Format::Responses => self.responses(),
            Format::Messages => self.messages(),
            Format::Gemini => self.gemini(),
            Format::Converse => panic!("no client speaks it"),
            Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
        }
    }

    fn chat(&self) -> Value {
        let mut messages: Vec<Value> = self
            .instructions
            .iter()
            .map(|text| json!({"role": "system", "content": text}))
            .collect();
        for exchange in &self.exchanges {
            let parts: Vec<_> = exchange.said.iter().map(chat_part).collect();
            messages.push(json!({"role": "user", "content": parts}));
            if let Some(aside) = &exchange.aside {
                messages.push(json!({"role": "developer", "content": aside}));
            }
            let mut answer = json!({"role": "assistant", "content": exchange.answer});
            if !exchange.calls.is_empty() {
                let call = |call: &Call| {
                    let arguments = json!({"x": call.input}).to_string();
                    json!({"id": call.id, "type": "function", "function": {"name": self.tool(call), "arguments": arguments}})
                };
                answer.as_object_mut().unwrap().insert(
                    "tool_calls".to_owned(),
                    exchange.calls.iter().map(call).collect(),
                );
            }
            messages.push(answer);
            for call in &exchange.calls {
                let text: Vec<_> = call.output.iter().filter_map(text_of).collect();
                messages.push(
                    json!({"role": "tool", "tool_call_id": call.id, "content": text.join("\n")}),
                );
            }
        }
        messages.push(json!({"role": "user", "content": "The end."}));
        let tools = self.tools.iter().map(|tool| {
            json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": schema(), "strict": tool.strict}})
        });
        let chosen =
            json!({"type": "function", "function": {"name": self.tools.first().unwrap().name}});
        let choice = [json!("auto"), json!("none"), json!("required"), chosen];
        let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema(), "strict": true}});
        json!({
            "model": "m",
            "messages": messages,
            "tools": tools.collect::<Vec<_>>(),
            "tool_choice": choice.get(usize::from(self.choice)),
            "parallel_tool_calls": self.parallel,
            "max_completion_tokens": self.limit,
            "temperature": self.degrees(),
            "reasoning_effort": self.effort,
            "response_format": self.schema.then_some(format),
            "stream": self.stream,
        })
    }

    fn responses(&self) -> Value {
        let mut input: Vec<Value> = self
            .instructions
            .iter()
            .map(|text| json!({"role": "system", "content": text}))
            .collect();
        for exchange in &self.exchanges {
            let parts: Vec<_> = exchange.said.iter().map(responses_part).collect();
            input.push(json!({"type": "message", "role": "user", "content": parts}));
            if let Some(aside) = &exchange.aside {
                input.push(json!({"role": "developer", "content": [{"type": "input_text", "text": aside}]}));
            }
            if let Some(answer) = &exchange.answer {
                input.push(json!({"type": "message", "role": "assistant", "content": answer}));
            }
            for call in &exchange.calls {
                let arguments = json!({"x": call.input}).to_string();
                input.push(json!({"type": "function_call", "call_id": call.id, "name": self.tool(call), "arguments": arguments}));
            }
            for call in &exchange.calls {
                let output: Vec<_> = call.output.iter().map(responses_part).collect();
                input.push(
                    json!({"type": "function_call_output", "call_id": call.id, "output": output}),
                );
            }
        }
        input.push(json!({"role": "user", "content": "The end."}));
        let tools = self.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": schema(), "strict": tool.strict})
        });
        let search = self.search.as_ref().map(|search| {
            json!({"type": "web_search", "filters": search.filters(), "user_location": search.location()})
        });
        let tools = tools.chain(search);
        let chosen = match self.search {
            Some(_) => json!({"type": "web_search"}),
            None => json!({"type": "function", "name": self.tools.first().unwrap().name}),
        };
        let choice = [json!("auto"), json!("none"), json!("required"), chosen];
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema(), "strict": true});
        json!({
            "model": "m",
            "input": input,
            "tools": tools.collect::<Vec<_>>(),
            "tool_choice": choice.get(usize::from(self.choice)),
            "parallel_tool_calls": self.parallel,
            "max_output_tokens": self.limit,
            "temperature": self.degrees(),
            "reasoning": {"effort": self.effort},
            "text": {"format": self.schema.then_some(format)},
            "max_tool_calls": self.search.as_ref().and_then(|search| search.most),
            "stream": self.stream,
        })
    }

    fn messages(&self) -> Value {
        let mut messages = Vec::new();
        for exchange in &self.exchanges {
            let mut parts: Vec<_> = exchange.said.iter().map(messages_part).collect();
            messages.push(json!({"role": "user", "content": parts}));
            if let Some(aside) = &exchange.aside {
                messages.push(json!({"role": "system", "content": aside}));
            }
            parts = exchange
                .answer
                .iter()
                .map(|text| json!({"type": "text", "text": text}))
                .collect();
            parts.extend(exchange.calls.iter().map(|call| {
                json!({"type": "tool_use", "id": call.id, "name": self.tool(call), "input": {"x": call.input}})
            }));
            if !parts.is_empty() {
                messages.push(json!({"role": "assistant", "content": parts}));
            }
            let results: Vec<_> = exchange
                .calls
                .iter()
                .map(|call| {
                    let content: Vec<_> = call.output.iter().map(messages_part).collect();
                    json!({"type": "tool_result", "tool_use_id": call.id, "content": content})
                })
                .collect();
            if !results.is_empty() {
                messages.push(json!({"role": "user", "content": results}));
            }
        }
        messages.push(json!({"role": "user", "content": "The end."}));
        let tools = self.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": schema(), "strict": tool.strict})
        });
        let search = self.search.as_ref().map(|search| {
            let mut tool = search.filters();
            let fields = tool.as_object_mut().unwrap();
            fields.insert("type".to_owned(), json!("web_search_20250305"));
            fields.insert("name".to_owned(), json!("web_search"));
            fields.insert("max_uses".to_owned(), json!(search.most));
            fields.insert("user_location".to_owned(), search.location());
            tool
        });
        let tools = tools.chain(search);
        let chosen = match self.search {
            Some(_) => json!({"type": "tool", "name": "web_search"}),
            None => json!({"type": "tool", "name": self.tools.first().unwrap().name}),
        };
        let choice = [
            json!({"type": "auto"}),
            json!({"type": "none"}),
            json!({"type": "any"}),
            chosen,
        ];
        let mut choice = choice.get(usize::from(self.choice)).unwrap().clone();
        if self.choice != 1 {
            let single = self.parallel.map(|parallel| !parallel);
            choice
                .as_object_mut()
                .unwrap()
                .insert("disable_parallel_tool_use".to_owned(), json!(single));
        }
        let system: Vec<_> = self
            .instructions
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let thinking = self.effort.map(|effort| match effort {
            "none" => json!({"type": "disabled"}),
            _ => json!({"type": "adaptive"}),
        });
        let effort = self.effort.filter(|effort| *effort != "none");
        let format = json!({"type": "json_schema", "schema": schema()});
        json!({
            "model": "m",
            "system": system,
            "messages": messages,
            "tools": tools.collect::<Vec<_>>(),
            "tool_choice": choice,
            "max_tokens": self.limit,
            "temperature": self.degrees(),
            "thinking": thinking,
            "output_config": {"effort": effort, "format": self.schema.then_some(format)},
            "stream": self.stream,
        })
    }

    fn gemini(&self) -> Value {
        let mut contents = Vec::new();
        for exchange in &self.exchanges {
            let parts: Vec<_> = exchange.said.iter().map(gemini_part).collect();
            contents.push(json!({"role": "user", "parts": parts}));
            let answer = exchange.answer.iter().map(|text| json!({"text": text}));
            let calls = exchange.calls.iter().map(|call| {
                json!({"functionCall": {"id": call.id, "name": self.tool(call), "args": {"x": call.input}}})
            });
            contents
                .push(json!({"role": "model", "parts": answer.chain(calls).collect::<Vec<_>>()}));
            let results = exchange.calls.iter().map(|call| {
                let text: Vec<_> = call.output.iter().filter_map(text_of).collect();
                json!({"functionResponse": {"id": call.id, "name": self.tool(call), "response": {"output": text.join("\n")}}})
            });
            let results: Vec<_> = results.collect();
            if !results.is_empty() {
                contents.push(json!({"role": "user", "parts": results}));
            }
        }
        contents.push(json!({"role": "user", "parts": [{"text": "The end."}]}));
        let schema_of_google = json!({"type": "OBJECT", "properties": {"x": {"type": "STRING"}}, "required": ["x"], "additionalProperties": false});
        let tools = self.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": schema_of_google})
        });
        let mode = ["AUTO", "NONE", "ANY", "ANY"].get(usize::from(self.choice));
        let chosen = (self.choice == 3).then(|| [&self.tools.first().unwrap().name]);
        let instructions = self.instructions.iter().map(|text| json!({"text": text}));
        let effort = self
            .effort
            .map(|effort| if effort == "max" { "high" } else { effort });
        let thinking =
            effort.map(|effort| json!({"thinkingLevel": effort, "includeThoughts": true}));
        json!({
            "contents": contents,
            "systemInstruction": {"parts": instructions.collect::<Vec<_>>()},
            "tools": [{"functionDeclarations": tools.collect::<Vec<_>>()}],
            "toolConfig": {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": chosen}},
            "generationConfig": {
                "maxOutputTokens": self.limit,
                "temperature": self.degrees(),
                "thinkingConfig": thinking,
                "responseMimeType": self.schema.then_some("application/json"),
                "responseSchema": self.schema.then_some(schema_of_google),
            },
        })
    }

    /// As far as Gemini has the same: its files have no names, its instructions no places, its results
    /// no media, and its contents alternate.
    fn for_gemini(mut self) -> Self {
        let is_taken = |part: &Part| !matches!(part, Part::Pdf(..));
        for exchange in &mut self.exchanges {
            exchange.said.retain(is_taken);
            exchange.said.push(Part::Text("So it is.".to_owned()));
            exchange.aside = None;
            exchange.answer.get_or_insert("Nothing.".to_owned());
            for call in &mut exchange.calls {
                call.output.retain(|part| matches!(part, Part::Text(_)));
            }
        }
        for tool in &mut self.tools {
            tool.strict = None;
            // Its names begin with a letter.
            tool.name.insert(0, 'a');
        }
        self.effort = self.effort.filter(|effort| *effort != "none");
        self.parallel = None;
        self.stream = false;
        self
    }

    fn degrees(&self) -> Option<f64> {
        self.temperature.map(|tenths| f64::from(tenths) / 10.0)
    }
}

impl Search {
    fn filters(&self) -> Value {
        match self.are_blocked {
            true => json!({"blocked_domains": self.domains}),
            false => json!({"allowed_domains": self.domains}),
        }
    }

    fn location(&self) -> Value {
        match &self.city {
            Some(city) => json!({"type": "approximate", "city": city, "country": "NO"}),
            None => Value::Null,
        }
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}

fn chat_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Picture(data) => {
            json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}})
        }
        Part::Link(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        Part::Pdf(data, name) => {
            json!({"type": "file", "file": {"filename": name, "file_data": format!("data:application/pdf;base64,{data}")}})
        }
    }
}

fn responses_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "input_text", "text": text}),
        Part::Picture(data) => {
            json!({"type": "input_image", "detail": "auto", "image_url": format!("data:image/png;base64,{data}")})
        }
        Part::Link(url) => json!({"type": "input_image", "image_url": url}),
        Part::Pdf(data, name) => {
            json!({"type": "input_file", "filename": name, "file_data": format!("data:application/pdf;base64,{data}")})
        }
    }
}

fn gemini_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"text": text}),
        Part::Picture(data) => json!({"inlineData": {"mimeType": "image/png", "data": data}}),
        Part::Link(url) => json!({"fileData": {"mimeType": "image/png", "fileUri": url}}),
        Part::Pdf(data, name) => {
            json!({"inlineData": {"mimeType": "application/pdf", "data": data, "displayName": name}})
        }
    }
}

fn messages_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Picture(data) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
        }
        Part::Link(url) => json!({"type": "image", "source": {"type": "url", "url": url}}),
        Part::Pdf(data, name) => {
            json!({"type": "document", "title": name, "source": {"type": "base64", "media_type": "application/pdf", "data": data}})
        }
    }
}

/// Every string that a request says, those within arguments included; not the words of the
/// format, which are the same in every request.
fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(inner) => strings(&Value::Object(inner), found),
            Err(_) => found.push(text.clone()),
        },
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.values().for_each(|member| strings(member, found)),
        _ => {}
    }
}

fn translate(from: Format, to: Format, body: &Value) -> Value {
    let mut target = Target::new("m", "backend");
    target.responses.web_search = true;
    target.messages.web_search = true;
    target.asked_model = Some("m");
    let sent = serde_json::to_vec(body).unwrap();
    let translated = request(from, to, &sent, &target)
        .unwrap_or_else(|refusal| panic!("{from} to {to}: {refusal}\n{body:#}"));
    assert_eq!(
        translated.dropped,
        Vec::<String>::new(),
        "{from} to {to}: {body:#}"
    );
    serde_json::from_slice(&translated.body).unwrap()
}

/// Fails unless everything that `before` says stands in `after`.
fn assert_kept(before: &Value, after: &Value, way: &str) {
    /// The shortest of the generated words.
    const UNLIKE_OTHERS: usize = 12;
    let (mut said, mut kept) = (Vec::new(), Vec::new());
    strings(before, &mut said);
    strings(after, &mut kept);
    for text in said.iter().filter(|text| text.len() >= UNLIKE_OTHERS) {
        // A data: URL is taken apart and put together again.
        let text = text
            .rsplit_once(";base64,")
            .map_or(text.as_str(), |(_, data)| data);
        let is_word_of_the_format = text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            || ["web_search_20250305", "application/json"].contains(&text);
        let is_kept = kept.iter().any(|kept| kept.contains(text));
        assert!(
            is_kept || is_word_of_the_format,
            "{way} lost {text:?}\n{before:#}\n{after:#}"
        );
    }
}

proptest! {
    // PROPTEST_CASES says how many.

    #[test]
    fn the_content_of_a_request_survives_the_way_there_and_back(script in script()) {
        for from in Format::OF_CLIENTS {
            for to in Format::OF_CLIENTS.into_iter().filter(|to| *to != from) {
                let searches = ![from, to].iter().any(|it| matches!(it, Format::Chat | Format::Gemini));
                let search = script.search.clone().filter(|_| searches);
                let script = Script { search, ..script.clone() };
                let script = match [from, to].contains(&Format::Gemini) {
                    true => script.for_gemini(),
                    false => script,
                };
                let original = script.write(from);
                let there = translate(from, to, &original);
                assert_kept(&original, &there, &format!("{from} to {to}"));
                let back = translate(to, from, &there);
                assert_kept(&original, &back, &format!("{from} to {to} and back"));
                let again = translate(from, to, &back);
                prop_assert_eq!(&again, &there, "{} to {} a second time, by way of\n{:#}", from, to, back);
            }
        }
    }
}
