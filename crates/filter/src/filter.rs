//! The trait that every filter implements, built in or not.

use crate::{Head, RequestContext};
use bytes::Bytes;
use http::HeaderMap;
use std::{future::Future, pin::Pin};
use tollgate_types::PublicError;

/// One decision about a request.
///
/// A filter is built once per configuration and shared by all requests, so it keeps
/// what belongs to one request in the [`RequestContext`]. Its methods run on the
/// request threads: they must neither block nor take long. Work that has to wait
/// for something else goes into [`Verdict::Wait`].
pub trait Filter: Send + Sync {
    /// Looks at a request and decides how it goes on.
    fn on_request(&self, head: Head<'_>, request: &mut RequestContext) -> Verdict {
        let _ = (head, request);
        Verdict::Continue
    }

    /// Adds to the head of an answer that is about to leave. `upstream` is the provider's
    /// head, of which nothing passes by itself; `None` where the gateway answers.
    ///
    /// Runs when the filter's [`Wants`](crate::Wants) has `answer`.
    fn on_answer(
        &self,
        request: &RequestContext,
        upstream: Option<&HeaderMap>,
        answer: &mut HeaderMap,
    ) {
        let _ = (request, upstream, answer);
    }

    /// Looks at an error that is about to leave, and may reword it.
    ///
    /// Runs when the filter's [`Wants`](crate::Wants) has `error`.
    fn on_error(&self, request: &RequestContext, error: &mut PublicError) {
        let _ = (request, error);
    }
}

/// How a request goes on.
pub enum Verdict {
    /// To the next filter.
    Continue,
    /// Not at all: the caller gets this error.
    Refuse(PublicError),
    /// Answered here.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The value of `content-type`.
        content_type: &'static str,
        /// The whole body.
        body: Bytes,
    },
    /// When this future is done, by what it returns. Only for what is not in memory.
    Wait(Pending),
}

/// A future that ends in a continuation on the request. It borrows nothing of the request.
pub type Pending = Pin<Box<dyn Future<Output = Resume> + Send>>;

/// What to do with the request when the wait is over.
pub type Resume = Box<dyn FnOnce(&mut RequestContext) -> Verdict + Send>;

impl From<PublicError> for Verdict {
    fn from(error: PublicError) -> Self {
        Self::Refuse(error)
    }
}
