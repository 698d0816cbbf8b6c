//! Failures of the admin API: the answer to the client, and the line in the log.

use super::operations::Refusal;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;
use tollgate_ledger::StoreError;
use tollgate_types::{ErrorCode, PublicError};
use tollgate_wire::render::error_headers;

/// A failure.
pub(super) struct Failed {
    public: PublicError,
    /// For the log alone.
    pub(super) private: Option<String>,
}

/// The error of an answer whose body is still to be written: it needs the request's id.
#[derive(Clone)]
pub(super) struct Reported(pub(super) PublicError);

impl From<PublicError> for Failed {
    fn from(public: PublicError) -> Self {
        Self {
            public,
            private: None,
        }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let fault = match refusal {
            Refusal::Order(message) => return PublicError::invalid_request(message).into(),
            Refusal::Conflict(message) => return conflict(message).into(),
            Refusal::Busy(message) => {
                return PublicError::new(ErrorCode::ServiceUnavailable, message).into();
            }
            Refusal::Store(fault) => fault,
        };
        let message = fault.to_string();
        let public = match fault {
            StoreError::InvalidKey(_)
            | StoreError::InvalidGrant
            | StoreError::OrderName
            | StoreError::Selector
            | StoreError::Ambiguous { .. } => {
                return PublicError::invalid_request(message).into();
            }
            StoreError::OtherOrder { .. }
            | StoreError::KeyMade { .. }
            | StoreError::KeyRevoked { .. }
            | StoreError::KeyExpired { .. }
            | StoreError::TooManyGrants => return conflict(message).into(),
            StoreError::NoSuchKey => {
                return PublicError::new(ErrorCode::NotFound, message).into();
            }
            StoreError::Locked { .. } => PublicError::new(
                ErrorCode::ServiceUnavailable,
                "another process is writing into the ledger",
            ),
            _ => PublicError::new(
                ErrorCode::InternalError,
                "the ledger cannot be used: see the log",
            ),
        };
        Self {
            public,
            private: Some(message),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(fault: StoreError) -> Self {
        Refusal::Store(fault).into()
    }
}

fn conflict(message: impl Into<Cow<'static, str>>) -> PublicError {
    PublicError::invalid_request(message).with_status(StatusCode::CONFLICT.as_u16())
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.public.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        let headers = response.headers_mut();
        headers.extend(error_headers(&self.public));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Reported(self.public));
        response
    }
}
