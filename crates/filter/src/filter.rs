//! The trait that every filter implements, built in or not.

use crate::{Head, RequestContext};
use bytes::Bytes;
use http::HeaderMap;
use std::{pin::Pin, sync::Arc};
use tollgate_types::PublicError;

/// One decision about a request.
///
/// The gateway builds a filter once per configuration and shares it between all requests. State that
/// belongs to one request goes into the [`RequestContext`].
///
/// The methods run on the threads that serve requests and must not block. `on_request` may await a
/// look-up; the other two are synchronous.
pub trait Filter: Send + Sync {
    /// Decides whether a request continues. An error refuses it: the gateway writes the error in the
    /// client's format.
    ///
    /// The gateway drops the future if the client disconnects or the time limit of the request is
    /// reached. It does not notice a disconnect before the body was read: bound every wait.
    fn on_request(
        &self,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> impl Future<Output = Result<Verdict, PublicError>> + Send {
        let _ = (head, request);
        std::future::ready(Ok(Verdict::Continue))
    }

    /// Adds headers to an answer before its head is sent. `upstream` has the provider's headers, of which
    /// the gateway itself forwards none; `None` if the gateway answers.
    ///
    /// Runs only if the filter's [`Phases`](crate::Phases) has `answer`.
    fn on_answer(
        &self,
        request: &RequestContext,
        upstream: Option<&HeaderMap>,
        answer: &mut HeaderMap,
    ) {
        let _ = (request, upstream, answer);
    }

    /// Can change an error before it is sent.
    ///
    /// Runs only if the filter's [`Phases`](crate::Phases) has `error`.
    fn on_error(&self, request: &RequestContext, error: &mut PublicError) {
        let _ = (request, error);
    }
}

/// The decision of a filter that does not refuse a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next filter runs.
    Continue,
    /// The gateway sends this answer, and no provider is asked.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The value of `content-type`.
        content_type: &'static str,
        /// The whole body.
        body: Bytes,
    },
}

/// A filter of any type. Cheap to clone.
#[derive(Clone)]
pub struct DynFilter(Arc<dyn Object>);

impl<F: Filter + 'static> From<F> for DynFilter {
    fn from(filter: F) -> Self {
        Self(Arc::new(filter))
    }
}

impl DynFilter {
    /// See [`Filter::on_request`].
    ///
    /// # Errors
    ///
    /// The filter refuses the request.
    pub async fn on_request(
        &self,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        self.0.on_request(head, request).await
    }

    /// See [`Filter::on_answer`].
    pub fn on_answer(
        &self,
        request: &RequestContext,
        upstream: Option<&HeaderMap>,
        answer: &mut HeaderMap,
    ) {
        self.0.on_answer(request, upstream, answer);
    }

    /// See [`Filter::on_error`].
    pub fn on_error(&self, request: &RequestContext, error: &mut PublicError) {
        self.0.on_error(request, error);
    }
}

/// [`Filter`] without the concrete type: each future is boxed.
trait Object: Send + Sync {
    fn on_request<'a>(&'a self, head: Head<'a>, request: &'a mut RequestContext) -> Pending<'a>;

    fn on_answer(&self, _: &RequestContext, upstream: Option<&HeaderMap>, answer: &mut HeaderMap);

    fn on_error(&self, request: &RequestContext, error: &mut PublicError);
}

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Verdict, PublicError>> + Send + 'a>>;

impl<F: Filter> Object for F {
    fn on_request<'a>(&'a self, head: Head<'a>, request: &'a mut RequestContext) -> Pending<'a> {
        Box::pin(Filter::on_request(self, head, request))
    }

    fn on_answer(
        &self,
        request: &RequestContext,
        upstream: Option<&HeaderMap>,
        answer: &mut HeaderMap,
    ) {
        Filter::on_answer(self, request, upstream, answer);
    }

    fn on_error(&self, request: &RequestContext, error: &mut PublicError) {
        Filter::on_error(self, request, error);
    }
}
