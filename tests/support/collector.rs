//! A collector of traces that speaks OTLP over gRPC and over HTTP, with messages of the published protobufs.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// An id as it stands in `traceparent`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An export: its headers, the attributes of its resource, and its spans.
#[derive(Clone, Debug)]
pub struct Export {
    pub headers: HeaderMap,
    pub resource: Value,
    pub spans: Vec<Span>,
}

/// The collector.
#[derive(Clone)]
pub struct Collector {
    pub address: SocketAddr,
    exports: Arc<Mutex<Vec<Export>>>,
}

impl Collector {
    pub async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let collector = Self {
            address: listener.local_addr().unwrap(),
            exports: Arc::default(),
        };
        let shared = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = shared.clone();
                let service = service_fn(move |request| collector.clone().answer(request));
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    server.serve_connection(TokioIo::new(stream), service).await
                });
            }
        });
        collector
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> hyper::Result<Response<UnsyncBoxBody<Bytes, Infallible>>> {
        const GRPC: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_grpc = head.uri.path() == GRPC;
        if !is_grpc {
            assert_eq!(head.uri.path(), "/v1/traces");
            assert_eq!(head.headers["content-type"], "application/x-protobuf");
        }
        // A message of gRPC begins with a flag for its compression and its length.
        let message = body.slice(if is_grpc { 5.. } else { 0.. });
        self.take(
            head.headers,
            ExportTraceServiceRequest::decode(message).unwrap(),
        );
        // The answer has no fields.
        if !is_grpc {
            return Ok(Response::new(Full::default().boxed_unsync()));
        }
        let trailers = [(
            "grpc-status".parse().unwrap(),
            HeaderValue::from_static("0"),
        )];
        let trailers = async { Some(Ok(HeaderMap::from_iter(trailers))) };
        let body = Full::from(&[0_u8; 5][..]).with_trailers(trailers);
        let answer = Response::builder().header("content-type", "application/grpc");
        Ok(answer.body(body.boxed_unsync()).unwrap())
    }

    fn take(&self, headers: HeaderMap, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            let scopes = of_resource.scope_spans.into_iter();
            self.exports.lock().push(Export {
                headers: headers.clone(),
                resource: object(&of_resource.resource.unwrap().attributes),
                spans: scopes.flat_map(|scope| scope.spans).collect(),
            });
        }
    }

    pub fn exports(&self) -> Vec<Export> {
        self.exports.lock().clone()
    }

    pub fn spans(&self) -> Vec<Span> {
        let exports = self.exports.lock();
        exports.iter().flat_map(|it| it.spans.clone()).collect()
    }

    /// The spans of the request with this id, its own first.
    pub async fn trace_of(&self, id: &str) -> Vec<Span> {
        super::eventually("its trace", async || {
            let spans = self.spans();
            let is_its = |span: &&Span| attributes(span)["tollgate.request.id"] == *id;
            let root = spans.iter().find(is_its)?.clone();
            let mut trace = vec![root.clone()];
            let children = spans.into_iter();
            trace.extend(children.filter(|span| span.parent_span_id == root.span_id));
            Some(trace)
        })
        .await
    }
}

/// The attributes of a span.
pub fn attributes(span: &Span) -> Value {
    object(&span.attributes)
}

fn object(attributes: &[KeyValue]) -> Value {
    let pairs = attributes.iter();
    let pairs = pairs.map(|pair| {
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        (pair.key.clone(), plain(value.unwrap()))
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn plain(value: &any_value::Value) -> Value {
    match value {
        any_value::Value::StringValue(text) => json!(text),
        any_value::Value::BoolValue(flag) => json!(flag),
        any_value::Value::IntValue(number) => json!(number),
        any_value::Value::DoubleValue(number) => json!(number),
        any_value::Value::ArrayValue(list) => {
            let values = list.values.iter().filter_map(|it| it.value.as_ref());
            values.map(plain).collect()
        }
        other => panic!("{other:?}"),
    }
}
