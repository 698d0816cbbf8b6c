//! From a request to its answer: endpoint, credential, orders, and then the format.

use crate::{
    answers,
    body::Answer,
    canned,
    connection::{Parting, Switch},
    counters::{Received, Underway},
    faults::{self, Prepared},
    format::{Answering, Fault, Format},
    messages,
    orders::{self, CannedOrder, Orders},
    plan::Plan,
    responses,
    server::Shared,
    store::Stored,
    vectors,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time;

/// The largest request body, in bytes.
const LARGEST: usize = 64 << 20;
/// The words of one that has never heard of HTTP.
const GARBAGE: &[u8] = b"\x00\xff\x7fSIM\x01 this is not HTTP \xc3\x28\r\n\r\n";

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint<'a> {
    Answers(Format),
    CountTokens,
    Embeddings,
    Rerank,
    Models,
    Compact,
    Response(&'a str),
    CancelResponse(&'a str),
    InputItems(&'a str),
}

impl<'a> Endpoint<'a> {
    fn find(method: &Method, path: &'a str) -> Result<Self, Fault> {
        let path = path
            .strip_prefix("/v1/")
            .ok_or_else(|| no_such_path(method, path))?;
        let (endpoint, wanted) = match path {
            "chat/completions" => (Self::Answers(Format::Chat), Method::POST),
            "responses" => (Self::Answers(Format::Responses), Method::POST),
            "messages" => (Self::Answers(Format::Messages), Method::POST),
            "messages/count_tokens" => (Self::CountTokens, Method::POST),
            "embeddings" => (Self::Embeddings, Method::POST),
            "rerank" => (Self::Rerank, Method::POST),
            "models" => (Self::Models, Method::GET),
            "responses/compact" => (Self::Compact, Method::POST),
            _ => Self::of_response(path, method).ok_or_else(|| no_such_path(method, path))?,
        };
        if *method != wanted {
            let message = format!(
                "Not allowed to {method} on /v1/{path}. (HINT: Perhaps you meant to {wanted} on it.)"
            );
            return Err(Fault::new(405, message));
        }
        Ok(endpoint)
    }

    fn of_response(path: &'a str, method: &Method) -> Option<(Self, Method)> {
        let rest = path.strip_prefix("responses/")?;
        match rest.split_once('/') {
            None if method == Method::DELETE => Some((Self::Response(rest), Method::DELETE)),
            None => Some((Self::Response(rest), Method::GET)),
            Some((id, "cancel")) => Some((Self::CancelResponse(id), Method::POST)),
            Some((id, "input_items")) => Some((Self::InputItems(id), Method::GET)),
            Some(_) => None,
        }
    }
}

/// The format of answers and errors on this path.
fn format_of(path: &str, headers: &HeaderMap) -> Format {
    match path {
        path if path.starts_with("/v1/messages") => Format::Messages,
        path if path.starts_with("/v1/responses") => Format::Responses,
        _ if headers.contains_key("anthropic-version") => Format::Messages,
        _ => Format::Chat,
    }
}

/// Answers one request.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    switch: Arc<Switch>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let (number, underway) = Underway::start(&shared.observer);
    let (head, body) = request.into_parts();
    let format = format_of(head.uri.path(), &head.headers);
    let exchange = Exchange {
        shared: &shared,
        head: &head,
        format,
        number,
    };
    let (prepared, orders) = match exchange.run(body, &switch).await {
        Outcome::Answer(answer) => *answer,
        Outcome::Canned(answer) => return answer.answer(underway),
    };
    faults::send(prepared, &orders, &switch, underway)
}

enum Outcome {
    Answer(Box<(Prepared, Orders)>),
    Canned(canned::Chosen),
}

/// One request and what it comes with.
struct Exchange<'a> {
    shared: &'a Shared,
    head: &'a request::Parts,
    format: Format,
    /// Which request of this server it is, from 1.
    number: u64,
}

impl Exchange<'_> {
    async fn run(&self, body: Incoming, switch: &Switch) -> Outcome {
        let mut orders = Orders::default();
        if let Err(fault) = self.header_orders(&mut orders) {
            return self.refused(&fault);
        }
        if orders.early_answer {
            let request = json!({"model": "sim"});
            let prepared = self.planned(&request, &early_ask(), &orders);
            return self
                .fulfil(orders, switch, |orders| {
                    self.ordered_failure(orders).unwrap_or(prepared)
                })
                .await;
        }
        let body = match read_body(body, orders.slow_body).await {
            Ok(body) => body,
            Err(fault) => return self.refused(&fault),
        };
        self.remember(&body);
        if self.shared.options.canned {
            orders.canned = Some(self.shared.options.canned_answers.order());
        }
        if let Some(order) = orders.canned {
            return self.canned(order);
        }
        match (self.understand(&body, &mut orders), orders.canned) {
            (Ok(_), Some(order)) => self.canned(order),
            (Ok(request), None) => {
                self.fulfil(orders, switch, |orders| self.respond(&request, orders))
                    .await
            }
            (Err(fault), _) => self.refused(&fault),
        }
    }

    fn refused(&self, fault: &Fault) -> Outcome {
        Outcome::Answer(Box::new((self.refuse(fault), Orders::default())))
    }

    fn canned(&self, order: CannedOrder) -> Outcome {
        Outcome::Canned(self.shared.canned.choose(self.head.uri.path(), order))
    }

    /// Waits, ends the connection or answers, as ordered for this request.
    async fn fulfil(
        &self,
        orders: Orders,
        switch: &Switch,
        answer: impl FnOnce(&Orders) -> Prepared,
    ) -> Outcome {
        let orders = orders.for_request(self.number);
        faults::before_head(&orders).await;
        if orders.reset && orders.cut.is_none() {
            switch.end(Parting::Reset);
            std::future::pending::<()>().await;
        }
        if orders.garbage {
            switch.end(Parting::Words(Bytes::from_static(GARBAGE)));
            std::future::pending::<()>().await;
        }
        let mut prepared = answer(&orders);
        answers::finish_head(&mut prepared, &orders);
        Outcome::Answer(Box::new((prepared, orders)))
    }

    fn header_orders(&self, orders: &mut Orders) -> Result<(), Fault> {
        for value in self.head.headers.get_all(orders::HEADER) {
            let text = value
                .to_str()
                .map_err(|_| Fault::bad_request("x-sim is no text"))?;
            orders.read(text).map_err(Fault::bad_request)?;
        }
        Ok(())
    }

    /// The JSON of the body, its orders read; `null` where there is no body to read.
    fn understand(&self, body: &[u8], orders: &mut Orders) -> Result<Value, Fault> {
        Endpoint::find(&self.head.method, self.head.uri.path())?;
        self.check_credential()?;
        if self.head.method != Method::POST {
            return Ok(Value::Null);
        }
        let request: Value = serde_json::from_slice(body).map_err(|fault| self.not_json(&fault))?;
        if let Some(model) = request.get("model").and_then(Value::as_str) {
            orders.read_model(model).map_err(Fault::bad_request)?;
        }
        Ok(request)
    }

    fn check_credential(&self) -> Result<(), Fault> {
        let bearer = self.header(header::AUTHORIZATION.as_str());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let key = self
            .header("x-api-key")
            .filter(|_| self.format == Format::Messages);
        // Recordings can be of Gemini.
        if [bearer, key, self.header("x-goog-api-key")]
            .into_iter()
            .flatten()
            .any(|credential| !credential.trim().is_empty())
        {
            return Ok(());
        }
        Err(match self.format {
            Format::Messages => Fault::new(401, "x-api-key header is required"),
            Format::Chat | Format::Responses => Fault::new(
                401,
                "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
            ),
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    fn not_json(&self, fault: &serde_json::Error) -> Fault {
        match self.format {
            Format::Messages => {
                Fault::bad_request(format!("The request body is not valid JSON: {fault}"))
            }
            Format::Chat | Format::Responses => Fault::bad_request(format!(
                "We could not parse the JSON body of your request. ({fault})"
            )),
        }
    }

    fn remember(&self, body: &Bytes) {
        if self.shared.observer.remembers() {
            self.shared.observer.remember(Received {
                method: self.head.method.clone(),
                uri: self.head.uri.clone(),
                headers: self.head.headers.clone(),
                body: body.clone(),
            });
        }
    }

    fn respond(&self, request: &Value, orders: &Orders) -> Prepared {
        if let Some(failure) = self.ordered_failure(orders) {
            return failure;
        }
        self.endpoint(request, orders)
            .unwrap_or_else(|fault| self.refuse(&fault))
    }

    fn ordered_failure(&self, orders: &Orders) -> Option<Prepared> {
        if let Some(number) = orders.replay {
            let recording = self.shared.options.recordings.get(number);
            return Some(recording.map_or_else(
                || {
                    self.refuse(&Fault::bad_request(format!(
                        "there is no recording {number}"
                    )))
                },
                crate::Recording::prepared,
            ));
        }
        answers::failure(orders, self.format, self.number)
    }

    fn endpoint(&self, request: &Value, orders: &Orders) -> Result<Prepared, Fault> {
        match Endpoint::find(&self.head.method, self.head.uri.path())? {
            Endpoint::Answers(format) => {
                let ask = format.read(request)?;
                self.check_previous(request)?;
                Ok(self.planned(request, &ask, orders))
            }
            Endpoint::CountTokens => {
                let count = messages::read_count(request)?;
                Ok(self.json(&json!({"input_tokens": count})))
            }
            Endpoint::Embeddings => Ok(self.json(&vectors::embeddings(request)?)),
            Endpoint::Rerank => Ok(self.json(&vectors::rerank(request)?)),
            Endpoint::Models => Ok(self.json(&answers::models(self.format))),
            Endpoint::Compact => Ok(self.json(&responses::compaction(request)?)),
            Endpoint::Response(id) => self.stored_response(id),
            Endpoint::CancelResponse(id) => {
                self.stored(id)?;
                Err(Fault::bad_request("Cannot cancel a synchronous response."))
            }
            Endpoint::InputItems(id) => {
                let items = self.stored(id)?.input;
                let id_of = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned();
                Ok(self.json(&json!({
                    "object": "list", "first_id": id_of(items.first()),
                    "last_id": id_of(items.last()), "has_more": false, "data": items,
                })))
            }
        }
    }

    fn planned(&self, request: &Value, ask: &crate::ask::Ask, orders: &Orders) -> Prepared {
        let plan = Plan::new(ask, orders);
        let answering = Answering {
            request,
            ask,
            plan: &plan,
            orders,
        };
        if self.format == Format::Responses && request.get("store") != Some(&json!(false)) {
            let input = responses::input_items(request);
            self.shared.store.put(Stored {
                response: responses::json(answering),
                input,
            });
        }
        answers::prepare(self.format, answering, self.number)
    }

    fn stored_response(&self, id: &str) -> Result<Prepared, Fault> {
        let stored = self.stored(id)?;
        if self.head.method == Method::DELETE {
            self.shared.store.delete(id);
            return Ok(self.json(&json!({"id": id, "object": "response", "deleted": true})));
        }
        Ok(self.json(&stored.response))
    }

    fn stored(&self, id: &str) -> Result<Stored, Fault> {
        let not_found = || Fault::new(404, format!("Response with id '{id}' not found."));
        self.shared.store.get(id).ok_or_else(not_found)
    }

    fn check_previous(&self, request: &Value) -> Result<(), Fault> {
        let previous = request.get("previous_response_id").and_then(Value::as_str);
        match previous.filter(|id| self.shared.store.get(id).is_none()) {
            None => Ok(()),
            Some(id) => Err(Fault::bad_request(format!(
                "Previous response with id '{id}' not found."
            ))
            .at("previous_response_id")
            .code("previous_response_not_found")),
        }
    }

    fn json(&self, body: &Value) -> Prepared {
        answers::json(StatusCode::OK, body, self.format, self.number)
    }

    fn refuse(&self, fault: &Fault) -> Prepared {
        answers::refusal(fault, self.format, self.number)
    }
}

fn early_ask() -> crate::ask::Ask {
    crate::ask::Ask::plain("sim", "an early answer")
}

fn no_such_path(method: &Method, path: &str) -> Fault {
    Fault::new(404, format!("Invalid URL ({method} {path})")).code("unknown_url")
}

async fn read_body(body: Incoming, slowly: bool) -> Result<Bytes, Fault> {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut body = Limited::new(body, LARGEST);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| match fault.downcast_ref::<LengthLimitError>() {
            Some(_) => Fault::new(413, "Request exceeds the maximum size"),
            None => Fault::bad_request(format!("The body could not be read: {fault}")),
        })?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if slowly {
            time::sleep(PAUSE).await;
        }
    }
    Ok(Bytes::from(bytes))
}
