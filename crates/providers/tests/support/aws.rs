//! A service that lends keys as STS and the metadata servers of AWS do, and that answers requests as Bedrock
//! does if their signatures are right.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::hmac;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};
use tokio::net::TcpListener;
use tokio::sync::Notify;

pub const ROLE: &str = "arn:aws:iam::123456789012:role/gateway";
pub const WEB_TOKEN: &str = "web-identity-token-of-the-pod";
pub const CONTAINER_TOKEN: &str = "authorization-token-of-the-container";
const METADATA_TOKEN: &str = "session-token-of-the-metadata-server";
/// Keys that do not end.
pub const ID: &str = "AKIDEXAMPLE";
pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const REGION: &str = "us-east-1";

/// An answer of Bedrock.
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
    /// What follows once [`Aws::go_on`] is called.
    pub rest: Vec<u8>,
}

/// A request with a right signature.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The service.
pub struct Aws {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    lent: AtomicU64,
    /// In seconds.
    lifetime: AtomicI64,
    /// By how many seconds its clock is ahead.
    ahead: AtomicI64,
    is_failing: AtomicBool,
    /// Requests with a right signature.
    verified: AtomicU64,
    /// How they are answered, unless by a completion.
    answers: OnceLock<fn(&Asked) -> Answered>,
    /// The last of them.
    last: Mutex<Option<Asked>>,
    /// Lets the rest of one answer go.
    go_on: Notify,
}

impl State {
    fn now(&self) -> OffsetDateTime {
        let ahead = time::Duration::seconds(self.ahead.load(Ordering::SeqCst));
        OffsetDateTime::from(SystemTime::now()) + ahead
    }
}

/// Status, code and message.
type Refusal = (u16, &'static str, String);

impl Aws {
    /// A service that lends keys for an hour.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    /// The same at an address.
    pub async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        state.lifetime.store(3600, Ordering::SeqCst);
        let kept = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&kept);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state }
    }

    /// A service whose models answer like that.
    pub async fn with_answers(answers: fn(&Asked) -> Answered) -> Self {
        let aws = Self::start().await;
        aws.state.answers.set(answers).unwrap();
        aws
    }

    /// Sends the rest of an answer.
    pub fn go_on(&self) {
        self.state.go_on.notify_one();
    }

    /// The last request with a right signature, if its answers are given.
    pub fn last(&self) -> Asked {
        let last = self.state.last.lock();
        last.clone().expect("a request with a right signature")
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on keys are lent for so many seconds.
    pub fn lend_for(&self, seconds: i64) {
        self.state.lifetime.store(seconds, Ordering::SeqCst);
    }

    /// From now on its clock is ahead by so many seconds.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.state.ahead.store(seconds, Ordering::SeqCst);
    }

    /// From now on it lends no keys, or does.
    pub fn fail(&self, is_failing: bool) {
        self.state.is_failing.store(is_failing, Ordering::SeqCst);
    }

    /// How often it has lent keys.
    pub fn lent(&self) -> u64 {
        self.state.lent.load(Ordering::SeqCst)
    }

    /// How many requests had a right signature.
    pub fn verified(&self) -> u64 {
        self.state.verified.load(Ordering::SeqCst)
    }
}

/// A body in two parts, the second of which waits.
struct Parts {
    parts: [Option<Bytes>; 2],
    wait: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let [first, second] = &mut self.parts;
        if let Some(part) = first.take() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        let Some(part) = second.take().filter(|it| !it.is_empty()) else {
            return Poll::Ready(None);
        };
        match self.wait.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Ok(Frame::data(part)))),
            Poll::Pending => {
                self.parts = [None, Some(part)];
                Poll::Pending
            }
        }
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> hyper::Result<Response<BoxBody<Bytes, Infallible>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path();
    let is_key = !path.starts_with("/model/") && !path.starts_with("/v1/");
    if let (false, Some(answers)) = (is_key, state.answers.get())
        && verify(&state, &head, &body).is_ok()
    {
        state.verified.fetch_add(1, Ordering::SeqCst);
        let asked = Asked {
            target: head.uri.to_string(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap(),
        };
        let answered = answers(&asked);
        *state.last.lock() = Some(asked);
        let mut answer = Response::builder().status(answered.status);
        for (name, value) in answered.headers {
            answer = answer.header(name, value);
        }
        let Answered { body, rest, .. } = answered;
        let parts = Parts {
            parts: [Bytes::from(body), rest.into()].map(Some),
            wait: Box::pin(async move { state.go_on.notified().await }),
        };
        return Ok(answer.body(parts.boxed()).unwrap());
    }
    let outcome = match (is_key, state.is_failing.load(Ordering::SeqCst)) {
        (true, true) => Err((503, "ServiceUnavailable", "the service is down".to_owned())),
        (true, false) => lend(&state, head.method.as_str(), path, &head.headers, &body),
        (false, _) => verify(&state, &head, &body).map(|()| {
            state.verified.fetch_add(1, Ordering::SeqCst);
            completion()
        }),
    };
    let date = state
        .now()
        .format(&Rfc2822)
        .unwrap()
        .replace("+0000", "GMT");
    let answer = Response::builder().header("date", date);
    let answer = match outcome {
        Ok(text) => answer.header("content-type", "application/json").body(text),
        Err((status, code, message)) if is_key => {
            let error = format!(
                "<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            );
            let xml = format!("<ErrorResponse>{error}</ErrorResponse>");
            answer.status(status).body(xml)
        }
        Err((status, code, message)) => answer
            .status(status)
            .header("content-type", "application/json")
            .header(
                "x-amzn-errortype",
                format!("{code}:http://internal.amazon.com/coral/"),
            )
            .body(json!({ "message": message }).to_string()),
    };
    Ok(answer.unwrap().map(|it| Full::from(it).boxed()))
}

fn completion() -> String {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "signed"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
    .to_string()
}

fn wants(name: &str, is: Option<&str>, should: &str) -> Result<(), Refusal> {
    match is == Some(should) {
        true => Ok(()),
        false => Err((400, "ValidationError", format!("{name} is {is:?}"))),
    }
}

/// Lends keys to a request that is as documented.
fn lend(
    state: &State,
    method: &str,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<String, Refusal> {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let folder = "/latest/meta-data/iam/security-credentials/";
    let with_metadata_token = || match header("x-aws-ec2-metadata-token") {
        Some(METADATA_TOKEN) => Ok(()),
        _ => Err((401, "Unauthorized", String::new())),
    };
    match (method, path) {
        ("PUT", "/latest/api/token") => {
            let seconds = header("x-aws-ec2-metadata-token-ttl-seconds");
            let seconds = seconds.and_then(|it| it.parse().ok()).unwrap_or(0);
            match (1..=21_600).contains(&seconds) {
                true => Ok(METADATA_TOKEN.to_owned()),
                false => Err((400, "BadRequest", String::new())),
            }
        }
        ("GET", it) if it == folder => with_metadata_token().map(|()| "the-role\n".to_owned()),
        ("GET", it) if it.strip_prefix(folder) == Some("the-role") => {
            with_metadata_token()?;
            Ok(keys(state).to_string())
        }
        ("GET", "/container") => {
            wants("authorization", header("authorization"), CONTAINER_TOKEN)?;
            Ok(keys(state).to_string())
        }
        ("POST", "/sts") => {
            let form: HashMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
            let field = |name: &str| form.get(name).map(String::as_str);
            wants(
                "content-type",
                header("content-type"),
                "application/x-www-form-urlencoded",
            )?;
            wants("Action", field("Action"), "AssumeRoleWithWebIdentity")?;
            wants("Version", field("Version"), "2011-06-15")?;
            wants("RoleArn", field("RoleArn"), ROLE)?;
            wants("RoleSessionName", field("RoleSessionName"), "tollgate")?;
            if field("WebIdentityToken") != Some(WEB_TOKEN) {
                let token = field("WebIdentityToken").unwrap_or_default();
                let message = format!("the token {token} is not known");
                return Err((400, "InvalidIdentityToken", message));
            }
            let keys = keys(state);
            let text = |name: &str| keys[name].as_str().unwrap().to_owned();
            Ok(format!(
                "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n\
                 <AssumeRoleWithWebIdentityResult><Credentials>\n\
                 <SessionToken>{}</SessionToken><SecretAccessKey>{}</SecretAccessKey>\n\
                 <Expiration>{}</Expiration><AccessKeyId>{}</AccessKeyId>\n\
                 </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
                text("Token"),
                text("SecretAccessKey"),
                text("Expiration"),
                text("AccessKeyId"),
            ))
        }
        _ => Err((404, "NotFound", format!("{method} {path}"))),
    }
}

/// New keys, each with a number.
fn keys(state: &State) -> Value {
    let number = state.lent.fetch_add(1, Ordering::SeqCst) + 1;
    let lifetime = state.lifetime.load(Ordering::SeqCst);
    let ends = OffsetDateTime::from(SystemTime::now()) + time::Duration::seconds(lifetime);
    json!({
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": format!("ASIALENT{number}"),
        "SecretAccessKey": format!("lent-secret-{number}"),
        "Token": format!("lent-token-{number}=="),
        "Expiration": ends.format(&Rfc3339).unwrap(),
    })
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>, with no code of the gateway.
fn verify(state: &State, head: &http::request::Parts, body: &[u8]) -> Result<(), Refusal> {
    let refuse = |code, message: &str| Err((403, code, message.to_owned()));
    let header = |name: &str| head.headers.get(name).and_then(|it| it.to_str().ok());
    let given = header("authorization").unwrap_or_default();
    let Some(given) = given.strip_prefix("AWS4-HMAC-SHA256 ") else {
        return refuse(
            "MissingAuthenticationTokenException",
            "Missing Authentication Token",
        );
    };
    let part = |name: &str| {
        let mut parts = given.split(", ");
        parts
            .find_map(|it| it.strip_prefix(name))
            .unwrap_or_default()
    };
    let [scope, names, signature] = ["Credential=", "SignedHeaders=", "Signature="].map(part);
    let (id, scope) = scope.split_once('/').unwrap_or_default();
    let (secret, token) = match id.strip_prefix("ASIALENT") {
        Some(number) => (
            format!("lent-secret-{number}"),
            Some(format!("lent-token-{number}==")),
        ),
        None => (SECRET.to_owned(), None),
    };
    let is_known = id == ID || token.is_some();
    if !is_known || header("x-amz-security-token") != token.as_deref() {
        let message = "The security token included in the request is invalid.";
        return refuse("UnrecognizedClientException", message);
    }
    let date = header("x-amz-date").unwrap_or_default();
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let signed_at = PrimitiveDateTime::parse(date, format).unwrap().assume_utc();
    let day = date.get(..8).unwrap();
    if (state.now() - signed_at).abs() > Duration::from_secs(300) {
        let message = format!("Signature expired: {date} is now earlier than the server's time");
        return refuse("InvalidSignatureException", &message);
    }
    if scope != format!("{day}/{REGION}/bedrock/aws4_request") {
        return refuse(
            "InvalidSignatureException",
            "Credential should be scoped to a valid region.",
        );
    }
    let must = ["host", "x-amz-date"]
        .into_iter()
        .chain(token.as_ref().map(|_| "x-amz-security-token"));
    let is_whole = must
        .into_iter()
        .all(|name| names.split(';').any(|it| it == name));
    let headers: String = names
        .split(';')
        .map(|name| format!("{name}:{}\n", header(name).unwrap_or_default().trim()))
        .collect();
    let mut query: Vec<_> = head.uri.query().unwrap_or_default().split('&').collect();
    query.sort_unstable();
    // Each part of a path is encoded a second time.
    let path: String = head.uri.path().bytes().map(encoded).collect();
    let canonical = format!(
        "{}\n{path}\n{}\n{headers}\n{names}\n{}",
        head.method,
        query.join("&"),
        hex(digest(&SHA256, body).as_ref())
    );
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        hex(digest(&SHA256, canonical.as_bytes()).as_ref())
    );
    let mac = |key: &[u8], text: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
    };
    let key = [day, REGION, "bedrock", "aws4_request"];
    let key = key
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, it| {
            mac(&key, it)
        });
    match is_whole && hex(&mac(&key, &text)) == signature {
        true => Ok(()),
        false => refuse(
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided.",
        ),
    }
}

fn encoded(byte: u8) -> String {
    match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}
