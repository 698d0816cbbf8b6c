//! Counts of tokens: whose they are, what they say of themselves, what becomes of them when a
//! provider is slow or fails, what hostile text costs others, and what balances and limits make
//! of them.

use crate::support::{
    self, Act, Answer, CHAT, COUNT_TOKENS, Config, Connection, FORMATS, Gateway, LONG, MESSAGES,
    Provider, RESPONSES, Request, Upstream, prompt,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A gateway before a provider that counts, with a model that OpenAI's vocabulary is for.
async fn start(more: impl FnOnce(Config) -> Config) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider).model("open", json!(["sim/gpt-4o"]));
    let gateway = Gateway::start(more(config)).await;
    (provider, gateway)
}

/// The same, of which the provider does not count.
fn counts_here(config: Config) -> Config {
    config.with(
        "providers.sim.formats",
        json!(["chat", "responses", "messages"]),
    )
}

async fn count(gateway: &Gateway, model: &str, said: &str, orders: &str) -> Answer {
    let body = prompt(COUNT_TOKENS, model, said, json!({}));
    let mut request = Request::post(COUNT_TOKENS, &body).key(&gateway.key);
    if !orders.is_empty() {
        request = request.orders(orders);
    }
    gateway.send(&request).await
}

fn tokens(answer: &Answer) -> u64 {
    answer.assert_ok();
    let count = answer.json()["input_tokens"].as_u64();
    count.unwrap_or_else(|| panic!("no count: {answer:?}"))
}

fn source(answer: &Answer) -> &str {
    answer.header("x-token-count-source").expect("a source")
}

/// How often a provider was asked to count.
fn asked(provider: &Provider) -> usize {
    let counts = |it: &&tollgate_sim::Received| it.uri.path() == COUNT_TOKENS;
    provider.received().iter().filter(counts).count()
}

#[tokio::test]
async fn an_equal_question_is_asked_of_its_provider_once() {
    let (provider, gateway) = start(|it| it).await;
    let first = count(&gateway, "test-model", "How long is this?", "").await;
    assert_eq!(source(&first), "upstream");
    assert_eq!(first.header("x-token-count-error-p95"), None);
    for _ in 0..3 {
        let again = count(&gateway, "test-model", "How long is this?", "").await;
        assert_eq!(again.json(), first.json());
        assert_eq!(source(&again), "upstream");
    }
    assert_eq!(asked(&provider), 1);
    // Another text, another model, and other headers that the provider sees, are other questions.
    count(&gateway, "test-model", "How long is that?", "")
        .await
        .assert_ok();
    count(&gateway, "open", "How long is this?", "")
        .await
        .assert_ok();
    assert_eq!(asked(&provider), 3);
    let body = prompt(COUNT_TOKENS, "test-model", "How long is this?", json!({}));
    let beta = Request::post(COUNT_TOKENS, &body).key(&gateway.key);
    gateway
        .send(&beta.header("anthropic-beta", "new-counter-2026"))
        .await
        .assert_ok();
    assert_eq!(asked(&provider), 4);
    gateway
        .sample_is("tollgate_token_counts_total{source=\"cache\"}", 3.0)
        .await;
    gateway
        .sample_is("tollgate_token_counts_total{source=\"upstream\"}", 4.0)
        .await;
}

#[tokio::test]
async fn a_cached_count_is_for_the_key_that_asked_for_it_alone() {
    let (provider, gateway) = start(|it| it).await;
    let another = gateway.create_key(&[]).await;
    let body = prompt(COUNT_TOKENS, "test-model", "Our secret plan", json!({}));
    for (number, key) in [&gateway.key, &another].into_iter().enumerate() {
        for _ in 0..2 {
            let request = Request::post(COUNT_TOKENS, &body).key(key);
            gateway.send(&request).await.assert_ok();
            assert_eq!(asked(&provider), number + 1, "requests at the provider");
        }
    }
}

#[tokio::test]
async fn the_cache_can_be_disabled() {
    let (provider, gateway) = start(|it| it.with("counting.cache", json!(null))).await;
    for _ in 0..2 {
        let answer = count(&gateway, "test-model", "How long is this?", "").await;
        assert_eq!(source(&answer), "upstream");
    }
    assert_eq!(asked(&provider), 2);
}

#[tokio::test]
async fn a_provider_that_does_not_count_in_time_is_not_waited_for() {
    let (provider, gateway) = start(|it| it.with("counting.timeout", json!("5s"))).await;
    let answer = count(&gateway, "open", "hello", "hang").await;
    assert_eq!((tokens(&answer), source(&answer)), (8, "local"));
    assert_eq!(asked(&provider), 1, "it was asked first");
    // What was counted here is not taken for the provider's own word later.
    let answer = count(&gateway, "open", "hello", "").await;
    assert_eq!(source(&answer), "upstream");
}

/// Counts are free: they must not open breakers or use up limits that paid requests need.
#[tokio::test]
async fn counts_that_fail_or_come_late_or_are_huge_bench_and_fill_nothing() {
    let limited = json!({"tokens_per_minute": 50_000, "requests_per_minute": 3});
    let (provider, gateway) = start(|it| {
        it.with("counting.timeout", json!("5s")).model(
            "open",
            json!([{"provider": "sim", "upstream_model": "gpt-4o", "limits": limited}]),
        )
    })
    .await;
    for orders in [
        "status-500",
        "reset",
        "hang",
        "status-401",
        "status-500",
        "status-404",
    ] {
        let answer = count(&gateway, "open", orders, orders).await;
        assert_eq!(source(&answer), "local", "{orders}");
    }
    let large = count(&gateway, "open", &"word ".repeat(200_000), "").await;
    assert_eq!(source(&large), "upstream");
    assert_eq!(asked(&provider), 7);
    let page = gateway.operator("/metrics").await.text();
    let open = |line: &&str| line.starts_with("tollgate_breaker_state") && !line.ends_with(" 0");
    assert_eq!(page.lines().find(open), None);
    gateway.ask(CHAT, "open", "", json!({})).await.assert_ok();
}

/// The time that a caller takes to send is not the provider's.
#[tokio::test]
async fn a_body_that_takes_its_time_is_counted_by_the_provider_all_the_same() {
    let (provider, gateway) = start(|it| it.with("counting.timeout", json!("5s"))).await;
    let body = prompt(COUNT_TOKENS, "open", "hello", json!({}));
    let request = Request::post(COUNT_TOKENS, &body).key(&gateway.key);
    let bytes = request.bytes();
    let (most, last) = bytes.split_at(bytes.len() - 5);
    let mut connection = gateway.connect().await;
    connection.write(most).await;
    // Longer than a provider may take.
    tokio::time::sleep(Duration::from_millis(5500)).await;
    connection.write(last).await;
    let answer = connection.answer(&request).await;
    assert_eq!(source(&answer), "upstream");
    assert_eq!(asked(&provider), 1);
}

#[tokio::test]
async fn a_provider_that_fails_to_count_is_not_missed() {
    let (provider, gateway) = start(|it| it).await;
    let orders = [
        "status-500",
        "status-429",
        "status-529",
        "status-401",
        "status-404",
        "html-502",
        "reset",
        "empty",
        "garbage",
        "cut-3",
    ];
    for (place, orders) in orders.iter().enumerate() {
        let answer = count(&gateway, "open", "hello", orders).await;
        assert_eq!((tokens(&answer), source(&answer)), (8, "local"), "{orders}");
        let error = answer.header("x-token-count-error-p95").expect(orders);
        assert!(
            (0.0..=1.0).contains(&error.parse::<f64>().unwrap()),
            "{orders}: {error}"
        );
        assert_eq!(asked(&provider), place + 1, "{orders}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["status"], &line["outcome"]),
            (&json!(200), &json!("completed"))
        );
    }
    // A fault of the request is reported to the caller.
    let answer = count(&gateway, "open", "hello", "status-400").await;
    answer.assert_error(400, "upstream_error");
}

#[tokio::test]
async fn every_format_is_counted_here_by_the_rules_of_its_model() {
    let (provider, gateway) = start(counts_here).await;
    // One token of text, one message, the frame of the answer: as gpt-4o reports.
    let answer = count(&gateway, "open", "hello", "").await;
    assert_eq!((tokens(&answer), source(&answer)), (8, "local"));
    let error = answer.header("x-token-count-error-p95").expect("an error");
    assert_eq!(error, "0.55", "four tokens of eight, and a twentieth");
    let long = "The gateway counts what it is sent. ".repeat(2_000);
    let answer = count(&gateway, "open", &long, "").await;
    assert_eq!(tokens(&answer), 8 * 2_000 + 8, "eight tokens a sentence");
    assert_eq!(answer.header("x-token-count-error-p95"), Some("0.05"));
    assert_eq!(asked(&provider), 0);
    gateway
        .sample_is("tollgate_token_counts_total{source=\"local\"}", 2.0)
        .await;
}

/// A megabyte of what tokenizers are slowest at.
fn hostile() -> Vec<String> {
    const MEGABYTE: usize = 1_000_000;
    fastrand::seed(7);
    let fill = |text: &str| text.repeat(MEGABYTE / text.len());
    vec![
        fill(" "),
        fill("a"),
        fill("👩‍👩‍👧‍👦😀"),
        (0..MEGABYTE / 2)
            .map(|_| fastrand::char('\u{20}'..'\u{7ff}'))
            .collect(),
    ]
}

#[tokio::test]
async fn megabytes_of_hostile_text_stall_no_other_request() {
    let (_provider, gateway) = start(counts_here).await;
    // One thread serves all requests.
    count(&gateway, "open", "hello", "").await.assert_ok();
    let texts: Vec<String> = hostile().into_iter().cycle().take(16).collect();
    let counting = async {
        let counts = texts.iter().map(|text| count(&gateway, "open", text, ""));
        let answers = join_all(counts).await;
        answers.iter().map(tokens).sum::<u64>()
    };
    tokio::pin!(counting);
    let mut connection = gateway.connect().await;
    let ask = Request::post(CHAT, &prompt(CHAT, "open", "Hi", json!({}))).key(&gateway.key);
    let (mut answered, mut longest) = (0, Duration::ZERO);
    let counted = loop {
        let begun = Instant::now();
        tokio::select! {
            biased;
            counted = &mut counting => break counted,
            answer = connection.send(&ask) => {
                answer.assert_ok();
                answered += 1;
                longest = longest.max(begun.elapsed());
            }
        }
    };
    println!("{answered} others were answered meanwhile, the slowest in {longest:?}");
    assert!(counted > 16 * 1_000, "{counted}");
    assert!(
        answered >= 16,
        "{answered} answers while 16 megabytes were counted"
    );
}

#[tokio::test]
async fn the_counts_that_an_agent_asks_for_at_once_are_answered_together() {
    const CALLS: usize = 26;
    let (_provider, gateway) =
        start(|it| counts_here(it).with("counting.preload", json!(true))).await;
    count(&gateway, "open", "hello", "").await.assert_ok();
    let bodies: Vec<String> = (0..CALLS)
        .map(|call| {
            format!(
                "{call}: {}",
                "fn main() { println!(\"it\"); } ".repeat(1_200)
            )
        })
        .collect();
    let begun = Instant::now();
    let answers = join_all(bodies.iter().map(|said| count(&gateway, "open", said, ""))).await;
    println!("{CALLS} counts of 35 KB in {:?}", begun.elapsed());
    let counts: Vec<u64> = answers.iter().map(tokens).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 10_000 && most - least <= 1, "{counts:?}");
}

/// A request that says no more than it must, and limits no output where it need not.
fn ask(path: &str, model: &str, key: &str, said: &str) -> Request {
    let mut body = prompt(path, model, said, json!({}));
    body.as_object_mut().unwrap().remove("max_tokens");
    if path == MESSAGES {
        // Required there; more than any balance here.
        body["max_tokens"] = json!(100_000);
    }
    Request::post(path, &body).key(key)
}

#[tokio::test]
async fn a_thousand_tokens_go_through_on_a_balance_of_five_thousand_and_cannot_overspend_it() {
    const BALANCE: u64 = 5_000;
    let (_provider, gateway) = start(|it| it).await;
    // Nine tokens to four-and-forty bytes by OpenAI's vocabulary; the simulated provider, of
    // which the gateway knows nothing, sees eleven.
    let said = "The gateway counts each request it is sent. ".repeat(111);
    for path in FORMATS {
        for stream in [false, true] {
            let key = gateway.key_with(BALANCE, LONG);
            let mut request = ask(path, "test-model", &key, &said);
            if stream {
                let mut body: Value = serde_json::from_slice(&request.body).unwrap();
                body["stream"] = json!(true);
                request = request.body(body.to_string());
            }
            // The provider says as much as it is let.
            let answer = gateway.send(&request.orders("tokens-9000")).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let limit: u64 = answer.header("x-output-limit").unwrap().parse().unwrap();
            // Two bytes of text are held as a token.
            assert!(limit > BALANCE - 2_600, "{path}: {limit}");
            let line = gateway.line_of(&answer).await;
            let charged = line["charged"].as_u64().unwrap();
            assert!(
                (limit + 1_000..=BALANCE).contains(&charged),
                "{path}: {line}"
            );
            assert_eq!(
                (&line["outcome"], &line["count"]),
                (&json!("incomplete"), &json!("reported"))
            );
            gateway.has_spent(&key, charged).await;
        }
    }
    let overdraft = gateway
        .sample("tollgate_ledger_overdraft_tokens_total")
        .await;
    assert_eq!(overdraft, Some(0.0));
    gateway.verify().await;
}

/// An answer of a chat provider that reports this.
fn reporting(input: u64, output: u64) -> Vec<u8> {
    let body = json!({
        "id": "c",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": input, "completion_tokens": output},
    })
    .to_string();
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Text that costs up to a token a byte, to a model whose vocabulary is public and to one of
/// which nothing is known.
#[tokio::test]
async fn no_text_made_to_cost_many_tokens_overspends_a_balance() {
    const BALANCE: u64 = 5_000;
    for (text, upstream_model, is_token_a_byte) in [
        ("ꙮ𒐫𓀀".repeat(120), "gpt-4o", false),
        ("7 1 9 3 ".repeat(150), "gpt-4o", false),
        ("ꙮ𒐫𓀀".repeat(120), "unheard-of", true),
        ("8472910365".repeat(120), "unheard-of", true),
    ] {
        let of_text = match is_token_a_byte {
            true => text.len() as u64,
            // As OpenAI counts.
            false => tollgate_count::Vocabulary::O200k.count(&text),
        };
        let costs = of_text + 7;
        let upstream = Upstream::playing([Act::Send(reporting(costs, 1)), Act::Again]).await;
        let mut provider = support::provider(upstream.address);
        provider["formats"] = json!(["chat"]);
        let config = Config::new()
            .provider("p", provider)
            .model("open", json!([format!("p/{upstream_model}")]));
        let gateway = Gateway::start(config).await;
        let key = gateway.key_with(BALANCE, LONG);
        let answer = gateway.send(&ask(CHAT, "open", &key, &text)).await;
        answer.assert_ok();
        let limit: u64 = answer.header("x-output-limit").unwrap().parse().unwrap();
        let what = format!("{upstream_model}: {costs} and {limit}");
        assert!(costs + limit <= BALANCE, "{what}");
        assert!(
            costs + limit + 1_000 >= BALANCE,
            "no tighter than needed: {what}"
        );
    }
}

#[tokio::test]
async fn a_key_without_tokens_is_refused_without_a_count() {
    let (provider, gateway) = start(|it| it).await;
    let key = gateway.key_with(100, LONG);
    let said = "word ".repeat(100_000);
    for _ in 0..5 {
        let answer = gateway.send(&ask(CHAT, "open", &key, &said)).await;
        answer.assert_error(402, "quota_exhausted");
    }
    assert_eq!(provider.received().len(), 0);
}

#[tokio::test]
async fn an_input_too_long_for_any_model_is_refused_in_the_words_that_agents_know() {
    const LIMIT: u64 = 2_000;
    let (provider, gateway) = start(|it| it.with("models.open.context_window", json!(LIMIT))).await;
    let said = "The gateway counts what it is sent. ".repeat(1_000);
    // Whether its length is known or not.
    let ways = |request: Request| [request.clone(), request.in_chunks_of(1_000)];
    let requests = FORMATS
        .into_iter()
        .flat_map(|path| ways(ask(path, "open", &gateway.key, &said)).map(|it| (path, it)));
    for (path, request) in requests {
        let answer = gateway.send(&request).await;
        answer.assert_error(400, "context_length_exceeded");
        // Claude Code and opencode look for these words and read both numbers out of them; Codex
        // goes by the code.
        let counted = 8 * 1_000 + 8;
        let expected = match path {
            MESSAGES => format!("prompt is too long: {counted} tokens > {LIMIT} maximum"),
            _ => format!(
                "This model's maximum context length is {LIMIT} tokens. However, your messages resulted in {counted} tokens. Please reduce the length of the messages."
            ),
        };
        assert_eq!(answer.message(), expected, "{path}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
    assert_eq!(provider.received().len(), 0, "no provider was asked");
    // Too many by a count that may be a little too high: the provider decides.
    let close = "The gateway counts what it is sent. ".repeat(255);
    gateway
        .send(&ask(CHAT, "open", &gateway.key, &close))
        .await
        .assert_ok();
    assert_eq!(provider.received().len(), 1);
    // A count is returned, however large.
    let answer = count(&gateway, "open", &said, "").await;
    assert!(tokens(&answer) > LIMIT);
}

#[tokio::test]
async fn a_family_that_the_operator_names_counts_whatever_the_model_is_called() {
    let provider = Provider::start().await;
    let mut llamas = support::provider(provider.address);
    llamas["formats"] = json!(["chat"]);
    llamas["tokenizer"] = json!("llama");
    let config = counts_here(Config::of(&provider))
        .provider("llamas", llamas)
        .model("guessed", json!(["sim/house-model"]))
        .model("of-provider", json!(["llamas/house-model"]))
        .model("named", json!(["llamas/house-model"]))
        .with("models.named.tokenizer", json!("qwen"));
    let gateway = Gateway::start(config).await;
    // Four tokens by OpenAI's vocabulary; Qwen takes every digit for one. The framing of a
    // message is each family's own.
    for (model, expected) in [
        ("guessed", 2 + 3 + 4),
        ("of-provider", 5 + 5 + 4),
        ("named", 3 + 5 + 10),
    ] {
        let answer = count(&gateway, model, "1234567890", "").await;
        assert_eq!(
            (tokens(&answer), source(&answer)),
            (expected, "local"),
            "{model}"
        );
    }
}

/// The charge of a fresh key that disconnects, the statuses of a fresh key with a small balance, and
/// what is left of a fresh key's input limit after one request.
async fn terms_of_a_new_key(gateway: &Gateway) -> (u64, u16, String) {
    let body = prompt(CHAT, "open", "Say something nice.", json!({"stream": true}));
    let key = gateway.key_with(1_000_000, LONG);
    let request = Request::post(CHAT, &body).key(&key).orders("stall-after-4");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let answer = connection.head().await;
    // The last word before the stall, so that every charge is for the same text.
    connection.read_until(b"\" Say\"").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    let charged = line["charged"].as_u64().unwrap();

    let limit = json!({"max_completion_tokens": 16});
    let body = prompt(CHAT, "open", "Say something nice.", limit);
    let key = gateway.key_with(300, LONG);
    let small = gateway.send(&Request::post(CHAT, &body).key(&key)).await;

    let key = gateway.create_key(&["--input-tokens", "1000"]).await;
    let limited = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
    let left = limited.header("anthropic-ratelimit-input-tokens-remaining");
    let left = left.map_or_else(|| format!("{limited:?}"), str::to_owned);
    (charged, small.status, left)
}

#[tokio::test]
async fn reports_of_one_keys_requests_change_nothing_for_another_key() {
    // With reasoning, a disconnect is charged by time as well.
    let none = json!("none");
    let (_provider, gateway) = start(|it| it.with("models.open.reasoning", none)).await;
    let before = terms_of_a_new_key(&gateway).await;
    assert_eq!(before.1, 200);
    let body = prompt(CHAT, "open", "Say something nice.", json!({}));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let mut connection = gateway.connect().await;
    for _ in 0..70 {
        // 800 times the size of the request.
        let answer = connection
            .send(&request.clone().orders("input-20000"))
            .await;
        answer.assert_ok();
        gateway.line_of(&answer).await;
    }
    assert_eq!(terms_of_a_new_key(&gateway).await, before);
}

#[tokio::test]
async fn a_caller_that_hangs_up_pays_for_the_text_by_the_vocabulary_of_the_model() {
    // A token a word, where four bytes a token would be three times as many.
    const SAID: &str = "communication information development organization understanding \
                        environment relationship opportunity end";
    let (provider, gateway) = start(|it| {
        counts_here(it)
            .with("counting.preload", json!(true))
            // With reasoning, a disconnect is charged by time as well.
            .with("models.open.reasoning", json!("none"))
    })
    .await;
    // Unpacked by now.
    count(&gateway, "open", "hello", "").await.assert_ok();
    for (path, place) in [
        (CHAT, "/choices/0/message/content"),
        (RESPONSES, "/output/0/content/0/text"),
    ] {
        let mut body = prompt(path, "open", SAID, json!({}));
        let whole = Connection::open(provider.address)
            .await
            .send(&Request::post(path, &body).key("any"))
            .await
            .json();
        let text = whole
            .pointer(place)
            .and_then(Value::as_str)
            .expect("a text");
        let tokens = tollgate_count::Vocabulary::O200k.count(text);
        assert!(tokens * 8 < text.len() as u64, "{tokens} tokens: {text}");
        // Up to the last word, and not to the usage behind it.
        body["stream"] = json!(true);
        let request = Request::post(path, &body).key(&gateway.key);
        let is_delta = |event: &Value| {
            let text = [
                event.pointer("/choices/0/delta/content"),
                event.get("delta"),
            ];
            let mut text = text.into_iter().flatten();
            text.any(|it| it.as_str().is_some_and(|it| !it.is_empty()))
        };
        let events = gateway.send(&request).await.events();
        let last = events.iter().rposition(is_delta).expect("a last word");
        let orders = format!("stall-after-{}", last + 1);
        let mut connection = gateway.connect().await;
        connection.write(&request.orders(&orders).bytes()).await;
        let answer = connection.head().await;
        let last_word = text.rsplit(' ').next().unwrap_or(text);
        connection
            .read_until(format!("{last_word}\"").as_bytes())
            .await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["count"], "estimated", "{line}");
        // The input goes by a sample of the body: here by all of it, as far as it is text.
        let sent = body.to_string();
        let text_bytes = ("user".len() + SAID.len()) as u64;
        let counted = tollgate_count::Vocabulary::O200k.count(&sent);
        let input = (counted * text_bytes).div_ceil(sent.len() as u64);
        assert_eq!(
            line["charged"],
            json!(input + tokens),
            "{path}: {text}: {line}"
        );
    }
}

#[tokio::test]
async fn spaces_between_words_without_spaces_make_no_output_cheap() {
    let word = "the_quick_brown_fox_jumps_over_the_lazy_dog_and_sat_on_a_mat";
    let said = format!("{word}{}", " ".repeat(45)).repeat(300) + "the end";
    let delta = json!({"index": 0, "delta": {"content": said}});
    let event = json!({"id": "c", "object": "chat.completion.chunk", "choices": [delta]});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let script = [Act::send(format!("{head}data: {event}\n\n")), Act::Hang];
    let upstream = Upstream::playing(script).await;
    let (_provider, gateway) = start(|it| {
        counts_here(it)
            .with("counting.preload", json!(true))
            .provider("raw", support::provider(upstream.address))
            .model("raw", json!(["raw/gpt-4o"]))
    })
    .await;
    // Unpacked by now.
    count(&gateway, "open", "hello", "").await.assert_ok();
    let body = prompt(
        CHAT,
        "raw",
        "Hello!",
        json!({"stream": true, "max_tokens": 20_000}),
    );
    let mut connection = gateway.connect().await;
    let request = Request::post(CHAT, &body).key(&gateway.key);
    connection.write(&request.bytes()).await;
    let answer = connection.head().await;
    connection.read_until(b"the end").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    let tokens = tollgate_count::Vocabulary::O200k.count(&said);
    let charged = line["charged"].as_u64().unwrap();
    let expected = tokens * 7 / 10..tokens * 13 / 10;
    assert!(expected.contains(&charged), "{expected:?}: {line}");
}
