//! Open paths of providers: off unless the configuration opens them, and then passed to their provider as
//! they are, within the limits and the balance of the key.

mod charges;
mod failures;
mod paths;
mod pieces;

use crate::support::{Act, Answer, Config, Gateway, Request, Seen, Service, provider};
use serde_json::json;

const MIB: usize = 1024 * 1024;
const IMAGES: &str = "/passthrough/sim/v1/images/generations";
const FILES: &str = "/passthrough/sim/v1/files";
/// What no client may see.
const SECRET: &str = "text-of-the-provider";

fn ok(media_type: &str, more: &str, body: &[u8]) -> Vec<Act> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n{more}content-length: {length}\r\n\r\n"
    );
    vec![Act::send([head.as_bytes(), body].concat())]
}

fn refusal(status: u16) -> Vec<Act> {
    let body = format!(r#"{{"error":{{"message":"{SECRET}","type":"{SECRET}","code":"x"}}}}"#);
    let length = body.len();
    vec![Act::send(format!(
        "HTTP/1.1 {status} {SECRET}\r\ncontent-type: application/json\r\nx-note: {SECRET}\r\n\
         location: https://{SECRET}.example/\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

/// Answers everything with a small object.
fn plain(_: &Seen) -> Vec<Act> {
    ok("application/json", "", br#"{"data":[]}"#)
}

fn config(service: &Service) -> Config {
    Config::new()
        .with("failover", json!({"again": 0}))
        .provider("sim", provider(service.address))
        .with("providers.sim.pass_headers", json!([]))
        .with(
            "providers.sim.passthrough",
            json!([
                {"path": "/v1/images/generations", "methods": ["POST"], "charge": 4000, "price": "0.04"},
                {"path": "/v1/files/*", "methods": ["GET", "POST", "DELETE"], "charge": 0, "body": "30MiB",
                 "pass_headers": ["openai-beta", "range"], "answer_headers": ["x-note", "content-range"]},
                {"path": "/v1/batches", "methods": ["GET"], "charge": 1, "plans": ["plenty"]},
            ]),
        )
        .with("plans.other", json!({"tokens": "1M", "validity": "30d"}))
        .model("test-model", json!(["sim"]))
}

async fn gateway(service: &Service) -> Gateway {
    Gateway::start(config(service)).await
}

fn draw() -> Request {
    Request::post(IMAGES, &json!({"prompt": "a cat"}))
}

async fn send(gateway: &Gateway, method: &str, target: &str) -> Answer {
    let request = Request::new(method, target).key(&gateway.key);
    gateway.send(&request).await
}
