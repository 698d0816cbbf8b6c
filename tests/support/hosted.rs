//! A service that hosts models under addresses of its own, as Azure and Vertex AI do: it refuses what
//! they document as wrong, remembers every request, and lets a simulated provider answer.

use super::Provider;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tollgate_sim::Received;

type Answer = Response<Either<Full<Bytes>, Incoming>>;
/// Status and message.
type Refusal = (u16, &'static str);

/// The version that Azure's paths name.
pub const AZURE_VERSION: &str = "2024-10-21";
/// The version that Vertex AI finds in bodies.
pub const VERTEX_VERSION: &str = "vertex-2023-10-16";
/// Before the models of Vertex AI.
pub const VERTEX_MODELS: &str = "/v1/projects/p/locations/global/publishers/anthropic/models";

/// The service.
pub struct Hosted {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Hosted {
    pub async fn start() -> Self {
        let models = Provider::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let kept = Arc::clone(&received);
        tokio::spawn(async move {
            let models = models.address;
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| answer(models, Arc::clone(&kept), request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, received }
    }

    /// The request that came last.
    pub fn last(&self) -> Received {
        let received = self.received.lock();
        received.last().cloned().expect("no request has come")
    }
}

async fn answer(
    models: SocketAddr,
    kept: Arc<Mutex<Vec<Received>>>,
    request: Request<Incoming>,
) -> hyper::Result<Answer> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let received = Received {
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body,
    };
    kept.lock().push(received.clone());
    let (path, body) = match understood(&received) {
        Ok(understood) => understood,
        Err((status, message)) => {
            let body = json!({"error": {"code": status.to_string(), "message": message}});
            let answer = Response::builder().status(status);
            let answer = answer.header(header::CONTENT_TYPE, "application/json");
            return Ok(answer
                .body(Either::Left(Full::from(body.to_string())))
                .unwrap());
        }
    };
    let stream = TcpStream::connect(models).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut asked = Request::post(path)
        .header(header::HOST, "models")
        .header(header::AUTHORIZATION, "Bearer inside");
    if path.starts_with("/v1/messages") {
        asked = asked.header("anthropic-version", "2023-06-01");
    }
    if let Some(orders) = received.headers.get("x-sim") {
        asked = asked.header("x-sim", orders);
    }
    let asked = asked.body(Full::<Bytes>::from(body.to_string())).unwrap();
    Ok(sender.send_request(asked).await?.map(Either::Right))
}

/// The path and body for the simulated provider.
fn understood(request: &Received) -> Result<(&'static str, Value), Refusal> {
    let body = serde_json::from_slice(&request.body).map_err(|_| (400, "no JSON"))?;
    let path = request.uri.path();
    if let Some(rest) = path.strip_prefix("/openai/deployments/") {
        return azure(request, rest, body);
    }
    let method = path.strip_prefix(VERTEX_MODELS);
    vertex(method.ok_or((404, "Resource not found"))?, body)
}

fn azure(
    request: &Received,
    rest: &str,
    mut body: Value,
) -> Result<(&'static str, Value), Refusal> {
    let version = format!("api-version={AZURE_VERSION}");
    let deployment = rest.strip_suffix("/chat/completions");
    let deployment = deployment.filter(|it| !it.contains('/') && !it.is_empty());
    let deployment = deployment.ok_or((404, "DeploymentNotFound"))?;
    if request.uri.query() != Some(&version) {
        return Err((404, "Resource not found"));
    }
    if !request.headers.contains_key("api-key") {
        return Err((401, "Access denied due to invalid subscription key"));
    }
    body["model"] = json!(deployment);
    Ok(("/v1/chat/completions", body))
}

fn vertex(method: &str, mut body: Value) -> Result<(&'static str, Value), Refusal> {
    let fields = body.as_object_mut().ok_or((400, "no object"))?;
    if fields.shift_remove("anthropic_version") != Some(json!(VERTEX_VERSION)) {
        return Err((400, "anthropic_version: Field required"));
    }
    if method == "/count-tokens:rawPredict" {
        return match fields.contains_key("model") {
            true => Ok(("/v1/messages/count_tokens", body)),
            false => Err((400, "model: Field required")),
        };
    }
    if fields.contains_key("model") {
        return Err((400, "model: Extra inputs are not permitted"));
    }
    let (model, predict) = method.split_once(':').ok_or((404, "no method"))?;
    let streams = fields.get("stream") == Some(&json!(true));
    match (predict, streams) {
        ("rawPredict", false) | ("streamRawPredict", true) => {}
        _ => return Err((400, "stream: does not fit the method")),
    }
    let model = model.strip_prefix('/').ok_or((404, "no model"))?;
    fields.insert("model".to_owned(), json!(model));
    Ok(("/v1/messages", body))
}
