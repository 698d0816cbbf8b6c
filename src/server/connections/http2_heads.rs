//! Heads that the `h2` library refuses. It resets their streams, or answers with 431, before
//! Pingora sees a request, and reports why only as an event of `tracing`.

use super::head::Reason;
use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::future::poll_fn;
use std::pin::pin;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::{Interest, Subscriber};
use tracing_core::{Dispatch, Event, Level, LevelFilter, Metadata};

thread_local! {
    /// The refusals of the connection that this thread reads; `None` while it reads none.
    static REFUSALS: RefCell<Option<Vec<Reason>>> = const { RefCell::new(None) };
}

/// Runs a connection, and reports each head that is refused on it.
pub(super) async fn reporting<T>(
    connection: impl Future<Output = T>,
    report: impl Fn(Reason),
) -> T {
    let mut connection = pin!(connection);
    poll_fn(|context| {
        REFUSALS.set(Some(Vec::new()));
        let polled = connection.as_mut().poll(context);
        let refusals = REFUSALS.take().unwrap_or_default();
        refusals.into_iter().for_each(&report);
        polled
    })
    .await
}

/// Listens to the library from now on. Everything else stays off, at the cost of a load.
pub(in crate::server) fn listen() {
    // In the tests of a process another gateway may listen already: they share the listener.
    let _ = tracing_core::dispatcher::set_global_default(Dispatch::new(Listener));
}

/// What the library's messages begin with, behind `stream error` if that is there, and the reason.
const MESSAGES: [(&str, Reason); 10] = [
    ("malformed headers", Reason::Malformed),
    ("PROTOCOL_ERROR -- malformed header", Reason::Malformed),
    (
        "PROTOCOL_ERROR -- malformed CONTINUATION",
        Reason::Malformed,
    ),
    ("PROTOCOL_ERROR -- invalid HEADERS", Reason::Malformed),
    (
        "PROTOCOL_ERROR -- error building request",
        Reason::Malformed,
    ),
    ("PROTOCOL_ERROR -- cannot use :", Reason::Malformed),
    (
        "PROTOCOL_ERROR -- could not parse content-length",
        Reason::Framing,
    ),
    (
        "PROTOCOL_ERROR -- conflicting content-length",
        Reason::Framing,
    ),
    (
        "PROTOCOL_ERROR -- recv_headers with END_STREAM",
        Reason::Framing,
    ),
    ("REQUEST_HEADER_FIELDS_TOO_LARGE", Reason::TooLarge),
];

fn reason(message: &str) -> Option<Reason> {
    let message = message.strip_prefix("stream error ").unwrap_or(message);
    let mut known = MESSAGES.iter();
    let (_, reason) = known.find(|(begin, _)| message.starts_with(begin))?;
    Some(*reason)
}

struct Listener;

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.enabled(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let reads_heads = matches!(
            target,
            "h2::server" | "h2::proto::streams::recv" | "h2::codec::framed_read"
        );
        // An error is a message alone; the events of each frame have the frame as well.
        let is_message = metadata.is_event() && metadata.fields().len() == 1;
        reads_heads && is_message && *metadata.level() == Level::DEBUG
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        REFUSALS.with_borrow_mut(|refusals| {
            let Some(refusals) = refusals else { return };
            let mut message = Message(String::new());
            event.record(&mut message);
            refusals.extend(reason(&message.0));
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // None is enabled.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
