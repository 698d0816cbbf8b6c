//! Clients' connections: their number, the time for a head, valid heads, and clients that read or send too slowly.
//!
//! Pingora gets its connections from here: over HTTP/1.1 one request at a time, whose head was checked; over
//! HTTP/2 the frames as they arrive. `gateway` handles the requests.

mod arrival;
mod connection_limits;
mod departure;
mod frames;
mod framing;
pub mod fuzzing;
mod head;
mod idle;
mod pace;
mod proxy_protocol;
mod refusal;
mod wire;

pub(super) use arrival::Gate;
pub(super) use connection_limits::Connections;

use super::grace_period::{Ends, InterruptibleProxy};
use super::stop::Session;
use crate::gateway::CallerConnection;
use crate::limits::Limits;
use crate::snapshot::Current;
use async_trait::async_trait;
use bytes::BytesMut;
use frames::PREFACE;
use head::{Fault, HeadReader, Reason};
use idle::Idle;
use pace::Pace;
use pingora_core::apps::{HttpPersistentSettings, HttpServerApp, ServerApp};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v1::server::HttpSession;
use pingora_core::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora_core::protocols::{ALPN, Ssl, Stream};
use pingora_core::server::ShutdownWatch;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tollgate_telemetry::events;
use wire::Wire;

/// Serves clients' connections: checks them, then passes them to Pingora.
pub(super) struct ConnectionServer {
    app: Arc<InterruptibleProxy>,
    current: Arc<Current>,
    gate: Gate,
    ends: Ends,
    /// Whether HTTP/2 is served besides HTTP/1.1.
    http2: bool,
}

/// The state that the gateway shares with a client's HTTP/1.1 connection; `None` for any other.
pub(super) fn shared(session: &ServerSession) -> Option<CallerConnection> {
    let stream = session.as_http1()?.stream();
    let wire = (**stream).as_any().downcast_ref::<Wire>();
    wire.map(|wire| CallerConnection {
        backlog: wire.backlog(),
        drain: wire.drain(),
    })
}

/// The first bytes of a connection.
enum Begun {
    /// An HTTP/1.1 request: its head, and the part of its body that has arrived.
    Request(BytesMut),
    /// HTTP/2.
    Http2,
    /// Nothing, or an unsupported protocol.
    Nothing,
}

impl ConnectionServer {
    /// Serves connections for `app`.
    pub(super) fn new(app: InterruptibleProxy, gate: Gate, ends: Ends, http2: bool) -> Self {
        Self {
            app: Arc::new(app),
            current: Arc::clone(&gate.current),
            gate,
            ends,
            http2,
        }
    }

    /// Counts a connection against the limits. `None`: it is refused.
    async fn admit(&self, mut stream: Stream) -> Option<Box<Wire>> {
        let mut ahead = BytesMut::new();
        // With TLS, it was counted before the handshake.
        let place = match stream.get_ssl_digest() {
            Some(_) => None,
            None => match self.gate.admit(&mut *stream, &mut ahead).await {
                Ok(place) => Some(place),
                Err(refused) => {
                    events::connection_refused(refused);
                    return None;
                }
            },
        };
        let limits = self.current.load().limits;
        let pace = Pace::new(limits.min_send_rate, limits.write);
        Some(Box::new(Wire::new(stream, ahead, place, pace)))
    }

    async fn serve(&self, mut wire: Box<Wire>, shutdown: &ShutdownWatch) {
        let session = self.ends.sessions.begin();
        let is_http2 = matches!(wire.selected_alpn_proto(), Some(ALPN::H2));
        let limits = self.current.load().limits;
        let mut idle = Idle::until(self.ends.ending.clone());
        let begun = match is_http2 {
            true => await_preface(&mut wire, limits.head_timeout).await,
            false => {
                let may_be_http2 = self.http2 && wire.get_ssl_digest().is_none();
                let begun = has_begun(&mut wire, &mut idle, limits.head_timeout);
                match begun.await {
                    true => self.await_head(&mut wire, &limits, may_be_http2).await,
                    false => Begun::Nothing,
                }
            }
        };
        match begun {
            Begun::Nothing => {}
            Begun::Request(read) => self.serve_http1(wire, read, idle, shutdown).await,
            Begun::Http2 => Box::pin(self.serve_http2(wire, session, shutdown)).await,
        }
    }

    /// Serves streams of HTTP/2. A new connection gets no `GOAWAY` for a short time: its
    /// client is about to send the request for which it was opened, and many clients give up a request
    /// that a new connection refuses.
    async fn serve_http2(&self, mut wire: Box<Wire>, session: Session, shutdown: &ShutdownWatch) {
        /// The longest time from the client's write until its request arrives here.
        const ARRIVAL_TIME: Duration = Duration::from_secs(1);
        let opened = Instant::now();
        wire.speak_http2();
        let stream: Stream = wire;
        let (tell, reported) = watch::channel(false);
        let mut ending = shutdown.clone();
        let telling = async {
            // A dropped sender counts as the end.
            let _ = ending.wait_for(|ends| *ends).await;
            sleep_until(opened.checked_add(ARRIVAL_TIME).unwrap_or(opened)).await;
            tell.send_replace(true);
            // Requests that the client sent before it received the `GOAWAY` still arrive; from then on,
            // the open streams are counted.
            tokio::time::sleep(ARRIVAL_TIME).await;
            drop(session);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = ServerApp::process_new(&self.app, stream, &reported) => {}
            () = telling => {}
        }
    }

    /// Serves the request that begins with `read`, and those after it.
    async fn serve_http1(
        &self,
        mut wire: Box<Wire>,
        mut read: BytesMut,
        mut idle: Idle,
        shutdown: &ShutdownWatch,
    ) {
        let mut settings: Option<HttpPersistentSettings> = None;
        loop {
            let session = http1_session(wire, read, settings.take(), *shutdown.borrow());
            let served = self.app.serve(session, shutdown).await;
            let Some((stream, kept)) = served.map(|it| it.consume()) else {
                return;
            };
            let Ok(mut again) = stream.into_any().downcast::<Wire>() else {
                return;
            };
            if !again.is_between() {
                return;
            }
            again.leave();
            let limits = self.current.load().limits;
            if !has_begun(&mut again, &mut idle, limits.keepalive).await {
                return;
            }
            let Begun::Request(next) = self.await_head(&mut again, &limits, false).await else {
                return;
            };
            read = next;
            wire = again;
            settings = kept;
        }
    }

    /// Waits for the rest of a head. One that is refused is answered here.
    async fn await_head(&self, wire: &mut Wire, limits: &Limits, may_be_http2: bool) -> Begun {
        let mut reader = HeadReader::default();
        let fault = match look(wire, &mut reader, limits, may_be_http2) {
            Ok(Some(begun)) => return begun,
            Ok(None) => {
                let reading = read_head(wire, &mut reader, limits, may_be_http2);
                match tokio::time::timeout(limits.head_timeout, reading).await {
                    Ok(Ok(begun)) => return begun,
                    Ok(Err(fault)) => fault,
                    Err(_) => {
                        Fault::new(Reason::Timeout, "the request head took too long to arrive")
                    }
                }
            }
            Err(fault) => fault,
        };
        let path = reader.path(wire.ahead()).map(str::to_owned);
        // What only bad heads need takes no room in every connection's future.
        let log = &self.gate.access_log;
        Box::pin(refusal::refuse(wire, &fault, path.as_deref(), log)).await;
        Begun::Nothing
    }
}

/// The session of a request that begins with `read`. Not in `serve_http1`, whose future would keep room for every
/// version of it.
fn http1_session(
    wire: Box<Wire>,
    read: BytesMut,
    settings: Option<HttpPersistentSettings>,
    is_ending: bool,
) -> ServerSession {
    let mut session = HttpSession::new(wire);
    // Pingora need not read it again: it begins with what a request before has left.
    session.set_pipelined_prefix(read);
    let mut session = ServerSession::H1(Box::new(session));
    match settings {
        Some(settings) => settings.apply_to_session(&mut session),
        // How long it is really kept is said with each request.
        None => session.set_keepalive(Some(1)),
    }
    if is_ending {
        session.set_keepalive(None);
    }
    session
}

/// Waits for the first byte of a head, which may have come with the request before.
async fn has_begun(wire: &mut Wire, idle: &mut Idle, wait: Duration) -> bool {
    if !wire.ahead().is_empty() {
        return true;
    }
    let now = Instant::now();
    let deadline = now.checked_add(wait).unwrap_or(now);
    poll_fn(|context| match wire.poll_more(context) {
        Poll::Ready(read) => Poll::Ready(matches!(read, Ok(true))),
        // Nothing is under way, and nothing more is begun.
        Poll::Pending => idle.poll(now, deadline, context).map(|()| false),
    })
    .await
}

/// Reads until a head is whole, or shows that it is none.
async fn read_head(
    wire: &mut Wire,
    reader: &mut HeadReader,
    limits: &Limits,
    may_be_http2: bool,
) -> Result<Begun, Fault> {
    while matches!(wire.read_more().await, Ok(true)) {
        if let Some(begun) = look(wire, reader, limits, may_be_http2)? {
            return Ok(begun);
        }
    }
    Ok(Begun::Nothing)
}

/// What has begun by what has come; `None` while that cannot be said.
fn look(
    wire: &mut Wire,
    reader: &mut HeadReader,
    limits: &Limits,
    may_be_http2: bool,
) -> Result<Option<Begun>, Fault> {
    let ahead = wire.ahead();
    if may_be_http2 && may_be_preface(ahead) {
        return Ok((ahead.len() >= PREFACE.len()).then_some(Begun::Http2));
    }
    let head = reader.read(ahead, limits.head_bytes)?;
    Ok(head.map(|head| Begun::Request(wire.hand_on(head))))
}

/// Whether what has come begins like HTTP/2 and not like a method.
fn may_be_preface(bytes: &[u8]) -> bool {
    let common = bytes.len().min(PREFACE.len());
    common > 1 && bytes.get(..common) == PREFACE.get(..common)
}

/// Waits for the preface of HTTP/2, which TLS has announced.
async fn await_preface(wire: &mut Wire, wait: Duration) -> Begun {
    let reading = async {
        while wire.ahead().len() < PREFACE.len() {
            if !matches!(wire.read_more().await, Ok(true)) {
                return Begun::Nothing;
            }
        }
        match may_be_preface(wire.ahead()) {
            true => Begun::Http2,
            false => Begun::Nothing,
        }
    };
    tokio::time::timeout(wait, reading)
        .await
        .unwrap_or(Begun::Nothing)
}

/// What one connection may make the library keep, and windows that let a body of megabytes
/// in without a round trip for each 64 KiB of it, which a caller across an ocean would wait
/// for.
pub(super) fn http2_options(limits: &Limits) -> H2Options {
    /// Streams that the caller has reset before they were looked at.
    const RESET_UNSEEN: usize = 20;
    /// Streams that were reset for what came over them, in the life of a connection.
    const RESET_FOR_FAULTS: usize = 256;
    /// Bytes of an answer that wait for the socket, for each stream.
    const WAITING: usize = 64 * 1024;
    const STREAM_WINDOW: u32 = 1024 * 1024;
    const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
    let mut options = default_h2_options();
    let head_bytes = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
    options.max_header_list_size(head_bytes);
    options.max_concurrent_streams(limits.http2_streams);
    options.max_pending_accept_reset_streams(RESET_UNSEEN);
    options.max_local_error_reset_streams(Some(RESET_FOR_FAULTS));
    options.max_send_buffer_size(WAITING);
    options.initial_window_size(STREAM_WINDOW);
    options.initial_connection_window_size(CONNECTION_WINDOW);
    options
}

#[async_trait]
impl ServerApp for ConnectionServer {
    async fn process_new(
        self: &Arc<Self>,
        stream: Stream,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        if let Some(wire) = self.admit(stream).await {
            self.serve(wire, shutdown).await;
        }
        None
    }

    async fn cleanup(&self) {
        self.app.http_cleanup().await;
    }
}
