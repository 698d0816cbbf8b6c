//! The export of spans, on a thread of its own. Requests never wait for it: spans that find the queue full
//! are dropped and counted.

use crate::content::{Content, Writer};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate_config::{TraceProtocol, TraceTarget};
use tollgate_telemetry::events::{self, SpanResult};

/// Requests that wait for the export of their spans.
const MOST_WAITING: usize = 4096;
/// Spans of one export.
const BATCH: usize = 512;
/// Bytes of content in one export, about: a collector accepts messages of 4 MiB.
const CONTENT_BATCH: usize = 1 << 20;
/// How long the thread sleeps after an export of less than a batch. A request that adds spans does not wake it:
/// that would take a system call.
const PAUSE: Duration = Duration::from_millis(250);
/// How long an export may take, with its retries.
const EXPORT_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of the program waits for the last export.
const LAST_EXPORT: Duration = Duration::from_secs(3);

/// The spans of a request.
pub(crate) struct Spans {
    pub(crate) spans: Vec<SpanData>,
    /// The content for the last span.
    pub(crate) content: Option<Content>,
}

/// Takes spans without waiting.
pub(crate) struct Queue(SyncSender<Spans>);

impl Queue {
    /// Adds the spans of a request. If there is no room, they are lost.
    pub(crate) fn add(&self, spans: Spans) {
        let count = spans.spans.len();
        if self.0.try_send(spans).is_err() {
            events::spans(SpanResult::Dropped, count);
        }
    }
}

/// The exporting thread. Dropping it exports the spans that wait, within three seconds.
pub struct Exporter {
    stop: SyncSender<()>,
    /// Closed at the end of the thread.
    end: Receiver<()>,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.stop.try_send(());
        if self.end.recv_timeout(LAST_EXPORT) == Err(RecvTimeoutError::Timeout) {
            log::warn!("traces: the collector does not answer; the last spans are lost");
        }
    }
}

/// Starts the exporting thread.
pub(crate) fn start(target: &TraceTarget) -> io::Result<(Queue, Exporter)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let exporter = {
        // The connection needs it.
        let _runtime = runtime.enter();
        exporter(target).map_err(|cause| io::Error::other(format!("traces: {cause}")))?
    };
    let writer = target.content.as_ref().map(Writer::of).transpose();
    let writer = writer.map_err(|cause| io::Error::other(format!("traces.content: {cause}")))?;
    let (queue, waiting) = mpsc::sync_channel(MOST_WAITING);
    let (stop, stopped) = mpsc::sync_channel(1);
    let (at_its_end, end) = mpsc::channel();
    std::thread::Builder::new()
        .name("traces".to_owned())
        .spawn(move || {
            run(&runtime, &exporter, writer.as_ref(), &waiting, &stopped);
            drop::<mpsc::Sender<()>>(at_its_end);
        })?;
    Ok((Queue(queue), Exporter { stop, end }))
}

fn run(
    runtime: &Runtime,
    exporter: &SpanExporter,
    writer: Option<&Writer>,
    waiting: &Receiver<Spans>,
    stopped: &Receiver<()>,
) {
    let mut fails = false;
    let mut is_last = false;
    loop {
        let (batch, is_full) = collect(waiting, writer);
        if !batch.is_empty() {
            fails = !export(runtime, exporter, batch, fails);
        }
        if is_last && (fails || !is_full) {
            return;
        }
        is_last |= match is_full {
            true => stopped.try_recv().is_ok(),
            false => stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout),
        };
    }
}

/// Exports spans. Returns whether the collector has accepted them. `failed`: it did not accept those before.
fn export(runtime: &Runtime, exporter: &SpanExporter, batch: Vec<SpanData>, failed: bool) -> bool {
    let count = batch.len();
    let export = async { tokio::time::timeout(EXPORT_LIMIT, exporter.export(batch)).await };
    let fault = match runtime.block_on(export) {
        Ok(Ok(())) => None,
        Ok(Err(cause)) => Some(cause.to_string()),
        Err(_) => Some(format!("no answer within {} s", EXPORT_LIMIT.as_secs())),
    };
    // A line for each change, not for each batch.
    match &fault {
        Some(cause) => {
            events::spans(SpanResult::Failed, count);
            if !failed {
                log::warn!("traces: the collector does not accept spans: {cause}");
            }
        }
        None => {
            events::spans(SpanResult::Exported, count);
            if failed {
                log::info!("traces: the collector accepts spans again");
            }
        }
    }
    fault.is_none()
}

/// The spans that wait, at most about a batch of them, and whether more may wait.
fn collect(waiting: &Receiver<Spans>, writer: Option<&Writer>) -> (Vec<SpanData>, bool) {
    let mut batch = Vec::new();
    let mut content_bytes = 0_usize;
    while batch.len() < BATCH && content_bytes < CONTENT_BATCH {
        let Ok(Spans { mut spans, content }) = waiting.try_recv() else {
            return (batch, false);
        };
        if let (Some(writer), Some(content), Some(span)) = (writer, content, spans.last_mut()) {
            content_bytes = content_bytes.saturating_add(writer.write(&content, span));
        }
        batch.append(&mut spans);
    }
    (batch, true)
}

type Fault = Box<dyn std::error::Error>;

fn exporter(target: &TraceTarget) -> Result<SpanExporter, Fault> {
    let endpoint = target.endpoint.to_string();
    let is_tls = target.endpoint.scheme_str() == Some("https");
    let headers = target.headers.iter();
    let mut exporter = match target.protocol {
        TraceProtocol::Grpc => {
            let headers =
                headers.map(|(name, secret)| Ok((name.clone(), secret.expose().parse()?)));
            let headers: Result<_, Fault> = headers.collect();
            let builder = SpanExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .with_metadata(MetadataMap::from_headers(headers?))
                .with_timeout(EXPORT_LIMIT);
            match is_tls {
                true => builder.with_tls_config(ClientTlsConfig::new().with_native_roots()),
                false => builder,
            }
            .build()?
        }
        TraceProtocol::Http => {
            let text = |name: &http::HeaderName| name.as_str().to_owned();
            let headers = headers.map(|(name, secret)| (text(name), secret.expose().to_owned()));
            SpanExporter::builder()
                .with_http()
                .with_http_client(HyperClient::new(connector()?, EXPORT_LIMIT, None))
                .with_endpoint(endpoint)
                .with_headers(headers.collect())
                .with_timeout(EXPORT_LIMIT)
                .build()?
        }
    };
    let resource = Resource::builder().with_service_name("tollgate");
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    exporter.set_resource(&resource.with_attribute(version).build());
    Ok(exporter)
}

/// TLS with the system's certificate authorities.
fn connector() -> io::Result<HttpsConnector<HttpConnector>> {
    let provider = rustls::crypto::ring::default_provider();
    let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?;
    Ok(tls.https_or_http().enable_http1().build())
}
