//! The body of an answer: whole, or played piece by piece by a task.
//!
//! After every piece the body says "not yet" once, so that the HTTP library flushes what
//! it has: each piece goes over the wire on its own.

use crate::counters::Underway;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// The answer is cut off on purpose.
#[derive(Debug)]
pub(crate) struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut off as ordered")
    }
}

impl std::error::Error for CutOff {}

/// What a task sends to the body that it plays.
pub(crate) type Piece = Result<Bytes, CutOff>;

pub(crate) struct Answer {
    source: Source,
    /// Notified when the last byte has been handed over; none if bytes are not counted.
    underway: Option<Underway>,
}

enum Source {
    Whole(Option<Bytes>),
    Played {
        pieces: mpsc::Receiver<Piece>,
        flushing: bool,
        /// Bytes to come, where the head promised a length.
        left: Option<usize>,
    },
}

impl Answer {
    pub(crate) fn whole(bytes: Bytes, underway: Option<Underway>) -> Self {
        let mut answer = Self {
            source: Source::Whole(None),
            underway,
        };
        if bytes.is_empty() {
            answer.finish();
        } else {
            answer.source = Source::Whole(Some(bytes));
        }
        answer
    }

    /// The pieces that a task sends; `length` bytes in all where the head says so.
    pub(crate) fn played(
        pieces: mpsc::Receiver<Piece>,
        length: Option<usize>,
        underway: Option<Underway>,
    ) -> Self {
        Self {
            source: Source::Played {
                pieces,
                flushing: false,
                left: length,
            },
            underway,
        }
    }

    fn finish(&mut self) {
        if let Some(underway) = &mut self.underway {
            underway.finish();
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let piece = match &mut self.source {
            Source::Whole(bytes) => {
                let bytes = bytes.take();
                self.finish();
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            Source::Played { flushing, .. } if *flushing => {
                *flushing = false;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Source::Played {
                pieces,
                flushing,
                left,
            } => match pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => {
                    *flushing = piece.is_some();
                    if let (Some(left), Some(Ok(bytes))) = (left, &piece) {
                        *left = left.saturating_sub(bytes.len());
                    }
                    piece
                }
            },
        };
        // A body of known length is not polled for more than that.
        let all_sent = matches!(self.source, Source::Played { left: Some(0), .. });
        if all_sent || !matches!(piece, Some(Ok(_))) {
            self.finish();
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Source::Played { .. } => SizeHint::default(),
        }
    }
}
