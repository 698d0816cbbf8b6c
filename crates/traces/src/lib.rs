//! Traces of requests: one span for each request, one for each attempt at a provider, exported over OTLP.
//!
//! Attributes follow the semantic conventions of OpenTelemetry, version [`SEMANTIC_CONVENTIONS`]. Spans are
//! built after the request, if it is sampled; [`export`] sends them on a thread of its own. Spans hold no
//! text of prompts or answers, except for the keys of [`content`].

#![forbid(unsafe_code)]

mod content;
mod export;
mod name;
mod provider;
mod request;

pub use content::KeptBody;
pub use export::Exporter;
pub use request::{Attempt, Facts, RequestTrace};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::InstrumentationScope;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_config::{SampleSettings, TraceTarget};

/// The schema of the attributes: the last one that includes those of generative AI, which have had a
/// repository of their own since.
pub const SEMANTIC_CONVENTIONS: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Begins the traces of requests. Cheap to copy.
#[derive(Clone)]
pub struct Traces(Option<Arc<Shared>>);

struct Shared {
    queue: export::Queue,
    sample: SampleSettings,
    /// `None`: no content is exported.
    content: Option<content::Keeping>,
    scope: InstrumentationScope,
}

impl Traces {
    /// Requests have no traces, and cost nothing for it.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Traces that are exported to a collector until the exporter is dropped.
    ///
    /// # Errors
    ///
    /// The exporter cannot be started. An unreachable collector is no error.
    pub fn to(target: &TraceTarget) -> io::Result<(Self, Exporter)> {
        let (queue, exporter) = export::start(target)?;
        let scope = InstrumentationScope::builder("tollgate")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SEMANTIC_CONVENTIONS)
            .build();
        let shared = Shared {
            queue,
            sample: target.sample.clone(),
            content: target.content.as_ref().map(content::Keeping::of),
            scope,
        };
        Ok((Self(Some(Arc::new(shared))), exporter))
    }

    /// Begins the trace of a request that arrived at `started`, as a part of the trace that its head names. `None`:
    /// traces are off.
    pub fn begin(&self, head: &HeaderMap, started: Instant) -> Option<Box<RequestTrace>> {
        let shared = self.0.as_ref()?;
        let parent = parent(head);
        let trace_id = match &parent {
            Some(parent) => parent.trace_id(),
            None => TraceId::from(fastrand::u128(1..)),
        };
        let is_sampled = shared.is_sampled_at_start(parent.as_ref(), trace_id);
        let state = parent.as_ref().map(|parent| parent.trace_state().clone());
        let flags = TraceFlags::default().with_sampled(is_sampled);
        let context = SpanContext::new(
            trace_id,
            new_span_id(),
            flags,
            false,
            state.unwrap_or_default(),
        );
        let trace = RequestTrace::new(Arc::clone(shared), parent, context, started);
        Some(Box::new(trace))
    }
}

impl Shared {
    /// Whether a request is exported however it ends.
    fn is_sampled_at_start(&self, parent: Option<&SpanContext>, trace_id: TraceId) -> bool {
        if self.sample.parent && parent.is_some_and(SpanContext::is_sampled) {
            return true;
        }
        // A client that must not choose what is exported can choose its trace id.
        if !self.sample.parent {
            return fastrand::f64() < self.sample.share;
        }
        let sampler = Sampler::TraceIdRatioBased(self.sample.share);
        let result = sampler.should_sample(None, trace_id, "", &SpanKind::Server, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    /// Whether the end of a request is a reason to export it.
    fn is_sampled_at_end(&self, has_failed: bool, duration: Duration) -> bool {
        let longest = self.sample.slower_than;
        (self.sample.errors && has_failed) || longest.is_some_and(|it| duration > it.get())
    }
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The span that a request's head names as its parent (W3C Trace Context).
fn parent(head: &HeaderMap) -> Option<SpanContext> {
    // The propagator takes longer to find nothing.
    head.get(TRACEPARENT)?;
    let found = TraceContextPropagator::new().extract(&HeaderExtractor(head));
    let span = found.span();
    let context = span.span_context();
    context.is_valid().then(|| context.clone())
}

/// Puts `traceparent` into a head, and `tracestate` if there is one. Every request has it, sampled or not, and
/// `TraceContextPropagator` takes several times as many instructions.
fn inject(context: &SpanContext, head: &mut HeaderMap) {
    let mut parent = *b"00-00000000000000000000000000000000-0000000000000000-00";
    let mut write = |place: Range<usize>, bytes: &[u8]| {
        parent
            .get_mut(place)
            .map(|text| hex::encode_to_slice(bytes, text))
    };
    write(3..35, &context.trace_id().to_bytes());
    write(36..52, &context.span_id().to_bytes());
    write(53..55, &[context.is_sampled().into()]);
    if let Ok(parent) = HeaderValue::from_bytes(&parent) {
        head.insert(TRACEPARENT, parent);
    }
    let state = context.trace_state().header();
    match HeaderValue::try_from(state) {
        Ok(state) if !state.is_empty() => drop(head.insert(TRACESTATE, state)),
        _ => drop(head.remove(TRACESTATE)),
    }
}

fn new_span_id() -> SpanId {
    SpanId::from(fastrand::u64(1..))
}
