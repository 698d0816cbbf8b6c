//! The stages of a request, and the facts that each has.

use super::body::RequestBody;
use super::respond;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use tollgate_engine::counts::CountKey;
use tollgate_filter::{ModelHandle, RequestContext};
use tollgate_routing::Model;
use tollgate_types::{Format, Identity, PublicError, RequestFacts};

/// How far a request has come. A stage knows what the stages before it have found.
#[derive(Default)]
pub enum Stage {
    /// No endpoint matches its path, or none was looked for yet.
    #[default]
    Arrived,
    /// Its endpoint is known, and filters decide on it. A request that uses no model stays here.
    Matched {
        /// The results of the filters.
        request: RequestContext,
        /// Its body, once that was read.
        body: Option<RequestBody>,
    },
    /// The filters have admitted it, and it can be sent to a deployment of its model.
    Admitted(Admitted),
}

/// A request that can be sent to a deployment of its model.
pub struct Admitted {
    /// The results of the filters.
    pub request: RequestContext,
    /// Its body.
    pub body: RequestBody,
    /// The holder of its key.
    pub identity: Arc<Identity>,
    /// The client's format.
    pub format: Format,
    /// The model that answers.
    pub model: Arc<Model>,
    /// The index of this model in the configuration.
    pub handle: ModelHandle,
    /// The cache key of the provider's token count, if the request asks for a count.
    pub count_key: Option<CountKey>,
}

impl Admitted {
    /// The settings that its body has.
    pub const fn facts(&self) -> &RequestFacts {
        &self.body.peeked().facts
    }

    /// The model name that it asks for.
    pub fn model_asked(&self) -> &str {
        self.request.model_asked().unwrap_or_default()
    }
}

impl Stage {
    /// Admits a request that all filters have let through.
    ///
    /// # Errors
    ///
    /// The filters of the configuration have found no key or no model, or the body was not read.
    pub fn admit(&mut self, snapshot: &Snapshot) -> Result<(), PublicError> {
        let Some((identity, format, model, handle)) = self.found(snapshot) else {
            log::error!("the filters have admitted a request without a key, a model or a body");
            return Err(respond::internal_error());
        };
        *self = match std::mem::take(self) {
            Self::Matched {
                request,
                body: Some(body),
            } => Self::Admitted(Admitted {
                request,
                body,
                identity,
                format,
                model,
                handle,
                count_key: None,
            }),
            stage => stage,
        };
        Ok(())
    }

    fn found(
        &self,
        snapshot: &Snapshot,
    ) -> Option<(Arc<Identity>, Format, Arc<Model>, ModelHandle)> {
        let request = self.body().and(self.request())?;
        let handle = request.route.as_ref()?.model;
        let model = Arc::clone(snapshot.catalog.model(handle)?);
        Some((request.identity.clone()?, request.format()?, model, handle))
    }

    /// The results of the filters.
    pub const fn request(&self) -> Option<&RequestContext> {
        match self {
            Self::Arrived => None,
            Self::Matched { request, .. } => Some(request),
            Self::Admitted(admitted) => Some(&admitted.request),
        }
    }

    /// The same, to be changed.
    pub const fn request_mut(&mut self) -> Option<&mut RequestContext> {
        match self {
            Self::Arrived => None,
            Self::Matched { request, .. } => Some(request),
            Self::Admitted(admitted) => Some(&mut admitted.request),
        }
    }

    /// The body, once it was read.
    pub const fn body(&self) -> Option<&RequestBody> {
        match self {
            Self::Arrived => None,
            Self::Matched { body, .. } => body.as_ref(),
            Self::Admitted(admitted) => Some(&admitted.body),
        }
    }

    /// The same, to be changed.
    pub const fn body_mut(&mut self) -> Option<&mut RequestBody> {
        match self {
            Self::Arrived => None,
            Self::Matched { body, .. } => body.as_mut(),
            Self::Admitted(admitted) => Some(&mut admitted.body),
        }
    }

    /// Notes the body, which was read.
    pub fn set_body(&mut self, read: RequestBody) {
        if let Self::Matched { body, .. } = self {
            *body = Some(read);
        }
    }

    /// The request, if it can be sent to a deployment of its model.
    pub const fn admitted(&self) -> Option<&Admitted> {
        match self {
            Self::Admitted(admitted) => Some(admitted),
            Self::Arrived | Self::Matched { .. } => None,
        }
    }

    /// The holder of the request's key, once that is known.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.request()?.identity.as_ref()
    }
}
