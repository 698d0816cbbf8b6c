//! A client's connection as Pingora sees it: over HTTP/1.1 one request at a time, with a checked head; over
//! HTTP/2 no more control frames than are allowed.
//!
//! `head` checks heads, `framing` finds the end of a body, `frames` bounds HTTP/2 frames, and `pace`
//! ends connections that read too slowly.

use super::connection_limits::Place;
use super::departure::Departure;
use super::frames::{self, FrameBudget};
use super::framing::Framing;
use super::head::Head;
use super::pace::Pace;
use crate::gateway::{Backlog, Drain};
use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use once_cell::sync::OnceCell;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::{SslDigest, TlsRef};
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_telemetry::events;

/// The most bytes that are kept of the next request.
const MOST_AHEAD: usize = 16 * 1024;
/// The bytes to read of a head at a time. Most heads arrive in one piece, many with their body.
const HEAD_PIECE: usize = 4 * 1024;
/// Invalid anywhere in a chunked body, so that Pingora refuses it with its own error.
const NO_CHUNK: &[u8] = b"\r\0";

/// A client's connection.
pub(super) struct Wire {
    inner: Stream,
    /// Bytes that were read but not passed to Pingora.
    ahead: BytesMut,
    stage: Stage,
    pace: Pace,
    /// Reports whether a write waits, once it is used.
    backlog: OnceCell<Backlog>,
    departure: Departure,
    /// Its place among all connections, unless the TLS connection has it.
    _place: Option<Place>,
}

/// The bytes that Pingora gets next.
enum Stage {
    /// None: a head is read first.
    Between,
    /// The rest of a request's body.
    Body(Framing),
    /// A malformed chunked body: the rest of the bytes that report it.
    Bad { left: &'static [u8] },
    /// Frames.
    Http2(FrameBudget),
    /// No more frames.
    Http2Over,
}

impl Wire {
    /// A connection of which `ahead` was read already.
    pub(super) fn new(inner: Stream, ahead: BytesMut, place: Option<Place>, pace: Pace) -> Self {
        Self {
            inner,
            ahead,
            stage: Stage::Between,
            pace,
            backlog: OnceCell::new(),
            departure: Departure::default(),
            _place: place,
        }
    }

    /// The handle that shows from now on whether a write waits for the client.
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog.get_or_init(Backlog::default).clone()
    }

    /// Decides from now on whether the connection reports a disconnect.
    pub(super) fn drain(&self) -> Drain {
        self.departure.drain()
    }

    /// Bytes that have arrived but were not passed to Pingora.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// The connection itself, without the bytes that were read.
    pub(super) fn rest(&mut self) -> &mut Stream {
        self.ahead.clear();
        &mut self.inner
    }

    /// Reads more of a head; `false` at the end of the connection.
    pub(super) async fn read_more(&mut self) -> io::Result<bool> {
        poll_fn(|context| self.poll_more(context)).await
    }

    /// The same. Reads into a temporary buffer and keeps only the received bytes: an unused connection has no
    /// buffer, and a request keeps its head until it ends.
    pub(super) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut piece = [MaybeUninit::uninit(); HEAD_PIECE];
        let mut piece = ReadBuf::uninit(&mut piece);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut piece))?;
        self.ahead.extend_from_slice(piece.filled());
        Poll::Ready(Ok(!piece.filled().is_empty()))
    }

    /// Takes the head and the part of the body that has arrived. Pingora gets the rest of the body next.
    pub(super) fn hand_on(&mut self, head: Head) -> BytesMut {
        let mut body = head.body;
        let taken = body.take(self.ahead.get(head.size..).unwrap_or_default());
        self.stage = match taken {
            Ok(_) => Stage::Body(body),
            Err(_) => Stage::Bad { left: NO_CHUNK },
        };
        let (Ok(part) | Err((part, _))) = taken;
        let size = head.size.saturating_add(part);
        if size >= self.ahead.len() {
            return std::mem::take(&mut self.ahead);
        }
        self.ahead.split_to(size)
    }

    /// Passes on HTTP/2 frames, beginning with the preface.
    pub(super) fn speak_http2(&mut self) {
        self.stage = Stage::Http2(FrameBudget::new(Instant::now()));
    }

    /// Whether the next request begins where the last one ended.
    pub(super) const fn is_between(&self) -> bool {
        match &self.stage {
            _ if self.departure.is_held_back() => false,
            Stage::Between => true,
            Stage::Body(body) => body.is_over(),
            _ => false,
        }
    }

    /// Ends the request that was passed on.
    pub(super) fn leave(&mut self) {
        self.stage = Stage::Between;
        self.departure.end_request();
    }

    /// Reads the body from the connection itself. Bytes after it are kept.
    fn read_body(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Stage::Body(body) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        if body.is_over() {
            return self.read_idle(context);
        }
        let start = out.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, out))?;
        let read = out.filled().get(start..).unwrap_or_default();
        let taken = body.take(read);
        let (Ok(part) | Err((part, _))) = taken;
        let behind = read.get(part..).unwrap_or_default();
        if taken.is_ok() {
            self.ahead.extend_from_slice(behind);
        }
        out.set_filled(start.saturating_add(part));
        if taken.is_err() {
            self.stage = Stage::Bad { left: NO_CHUNK };
            if part == 0 {
                return self.read_bad(out);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Pingora has the whole request and checks whether the client is still connected. Bytes that arrive now are
    /// the next request, and are kept.
    fn read_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.departure.is_held_back() {
            if self.ahead.len() >= MOST_AHEAD {
                return Poll::Pending;
            }
            match ready!(self.poll_more(context)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(broken) => {
                    ready!(self.departure.poll_report(context));
                    return Poll::Ready(Err(broken));
                }
            }
        }
        self.departure.poll_report(context).map(Ok)
    }

    fn read_bad(&mut self, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Stage::Bad { left } = &mut self.stage {
            let part = left.len().min(out.remaining());
            let (now, later) = left.split_at_checked(part).unwrap_or_default();
            out.put_slice(now);
            *left = later;
        }
        Poll::Ready(Ok(()))
    }

    fn read_frames(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = out.filled().len();
        if self.ahead.is_empty() {
            ready!(Pin::new(&mut self.inner).poll_read(context, out))?;
        } else {
            let part = self.ahead.len().min(out.remaining());
            pass(&mut self.ahead, part, out);
        }
        let Stage::Http2(budget) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        let read = out.filled().get(start..).unwrap_or_default();
        if let Some(most) = budget.look(read, Instant::now()) {
            events::http2_flood();
            out.set_filled(start.saturating_add(most));
            self.ahead = BytesMut::from(&*frames::last_frames());
            self.stage = Stage::Http2Over;
            if most == 0 {
                return self.read_last(out);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn read_last(&mut self, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let part = self.ahead.len().min(out.remaining());
        pass(&mut self.ahead, part, out);
        Poll::Ready(Ok(()))
    }

    /// Writes `all` bytes, or drops them if the client has disconnected and that is not reported yet.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        all: usize,
        write: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.departure.is_held_back() {
            return Poll::Ready(Ok(all));
        }
        let outcome = write(Pin::new(&mut self.inner), context);
        match self.paced(outcome, context) {
            Poll::Ready(Err(_)) if self.departure.poll_report(context).is_pending() => {
                if let Some(backlog) = self.backlog.get() {
                    backlog.note_write(false);
                }
                Poll::Ready(Ok(all))
            }
            outcome => outcome,
        }
    }

    /// The result of a write, subject to the client's pace.
    fn paced(
        &mut self,
        outcome: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Some(backlog) = self.backlog.get() {
            backlog.note_write(outcome.is_pending());
        }
        match &outcome {
            Poll::Ready(Ok(written)) => {
                self.pace.taken(*written, Instant::now);
                if let Stage::Http2(budget) = &mut self.stage {
                    budget.sent(*written);
                }
            }
            Poll::Pending if self.pace.is_full(context).is_err() => {
                events::slow_reader_cut();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            _ => {}
        }
        outcome
    }
}

fn pass(ahead: &mut BytesMut, part: usize, out: &mut ReadBuf<'_>) {
    out.put_slice(ahead.get(..part).unwrap_or_default());
    ahead.advance(part.min(ahead.len()));
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &self.stage {
            // The gateway reads heads by itself, so this reader has no head yet.
            Stage::Between => Poll::Ready(Ok(())),
            Stage::Body(_) => self.read_body(context, out),
            Stage::Bad { .. } => self.read_bad(out),
            Stage::Http2(_) => self.read_frames(context, out),
            Stage::Http2Over => self.read_last(out),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, bytes.len(), |inner, context| {
            inner.poll_write(context, bytes)
        })
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.write(context, 0, |inner, context| {
            inner.poll_flush(context).map_ok(|()| 0)
        });
        flushed.map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.write(context, 0, |inner, context| {
            inner.poll_shutdown(context).map_ok(|()| 0)
        });
        ended.map_ok(|_| ())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = pieces.iter().map(|piece| piece.len()).sum();
        self.write(context, all, |inner, context| {
            inner.poll_write_vectored(context, pieces)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("inner", &self.inner).finish()
    }
}

#[async_trait]
impl Shutdown for Wire {
    async fn shutdown(&mut self) {
        self.inner.shutdown().await;
    }
}

impl UniqueID for Wire {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for Wire {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for Wire {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.inner.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.inner.get_write_pending_time()
    }
}

impl GetProxyDigest for Wire {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.inner.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Wire {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.inner.set_socket_digest(digest);
    }
}

// Pingora need not look ahead: the protocol is known.
impl Peek for Wire {}
