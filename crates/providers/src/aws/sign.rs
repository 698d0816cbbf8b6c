//! Signatures of AWS (SigV4) in the headers of a request.

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use http::request::Parts;
use http::{HeaderName, HeaderValue, header};
use ring::digest::{SHA256, digest};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;
use tollgate_settings::Secret;

/// Keys of an account of AWS.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Names the secret key. It is public, and it is in each signature.
    pub(crate) id: String,
    pub(crate) secret: Secret,
    /// Of keys that end.
    pub(crate) session: Option<Secret>,
}

impl Keys {
    /// Whether headers can carry them.
    pub(crate) fn is_plain(&self) -> bool {
        let is_plain =
            |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
        let secrets = [Some(&self.secret), self.session.as_ref()];
        let mut secrets = secrets.into_iter().flatten();
        is_plain(&self.id) && secrets.all(|it| is_plain(it.expose()))
    }
}

/// Signs requests for one service in one region. `Debug` shows neither key.
#[derive(Clone)]
pub struct Signer(Arc<Inner>);

struct Inner {
    keys: Keys,
    identity: Identity,
    region: Box<str>,
    service: Box<str>,
}

/// A request whose head cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be signed")]
pub struct Unsignable;

impl Signer {
    pub(crate) fn new(keys: Keys, region: &str, service: &str) -> Self {
        let session = keys.session.as_ref().map(|it| it.expose().to_owned());
        let identity = Credentials::new(&*keys.id, keys.secret.expose(), session, None, "tollgate");
        Self(Arc::new(Inner {
            keys,
            identity: identity.into(),
            region: region.into(),
            service: service.into(),
        }))
    }

    /// Adds `x-amz-date`, `authorization` and, for keys that end, `x-amz-security-token`. The signature
    /// covers the method, the path, the query, `host`, `content-type`, all headers of Amazon and the body,
    /// which is read once and not copied. Other headers may change on the way.
    ///
    /// # Errors
    /// If a header to sign is not text.
    pub fn sign(&self, head: &mut Parts, body: &[u8], now: SystemTime) -> Result<(), Unsignable> {
        let inner = &*self.0;
        let params = SigningParams::builder()
            .identity(&inner.identity)
            .region(&inner.region)
            .name(&inner.service)
            .time(now)
            .settings(SigningSettings::default())
            .build();
        let params = params.map_err(|_| Unsignable)?.into();
        let mut signed = Vec::new();
        for (name, value) in head.headers.iter().filter(|(name, _)| is_signed(name)) {
            let value = value.to_str().map_err(|_| Unsignable)?;
            signed.push((name.as_str(), value));
        }
        let target = head.uri.path_and_query().map_or("/", |it| it.as_str());
        let request = SignableRequest::new(
            head.method.as_str(),
            target,
            signed.into_iter(),
            // By its hash, so that no log of the library can show the body.
            SignableBody::Precomputed(hash(body)),
        );
        let request = request.map_err(|_| Unsignable)?;
        let instructions = sign(request, &params)
            .map_err(|_| Unsignable)?
            .into_parts()
            .0;
        let (added, _) = instructions.into_parts();
        for added in added {
            let mut value = HeaderValue::try_from(added.value()).map_err(|_| Unsignable)?;
            value.set_sensitive(added.sensitive() || added.name() == header::AUTHORIZATION);
            let name = HeaderName::from_static(added.name());
            head.headers.insert(name, value);
        }
        Ok(())
    }
}

fn is_signed(name: &HeaderName) -> bool {
    *name == header::HOST || *name == header::CONTENT_TYPE || name.as_str().starts_with("x-amz")
}

fn hash(body: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, body).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Equal signers make the same signatures.
impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.0.keys.clone(), it.0.region.clone(), it.0.service.clone());
        parts(self) == parts(other)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("region", &self.0.region)
            .field("service", &self.0.service)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
