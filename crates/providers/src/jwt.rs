//! Signed assertions (RFC 7519) by which a service account or an application proves who it is.

use crate::error::{FetchError, FetchFault};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};
use tollgate_settings::Secret;

/// How an assertion is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// RSA PKCS #1 with SHA-256.
    Rs256,
    /// RSA PSS with SHA-256.
    Ps256,
}

/// A private key.
pub(crate) struct Signer(RsaKeyPair);

impl Signer {
    /// Reads the first private key of a PEM text.
    ///
    /// # Errors
    ///
    /// The expected form of the key.
    pub(crate) fn from_pem(text: &str) -> Result<Self, &'static str> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| "expected a private key in PEM (BEGIN PRIVATE KEY)")?;
        let pair = match &key {
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            _ => return Err("expected an RSA key"),
        };
        let pair = pair.map_err(|_| "expected an RSA key of 2048 to 4096 bits")?;
        Ok(Self(pair))
    }

    /// Signs these claims.
    pub(crate) fn sign(
        &self,
        algorithm: Algorithm,
        header: &Value,
        claims: &Value,
    ) -> Result<Secret, FetchError> {
        let parts = [header, claims].map(|part| encoded(part.to_string()));
        let signed = parts.join(".");
        let encoding: &dyn RsaEncoding = match algorithm {
            Algorithm::Rs256 => &RSA_PKCS1_SHA256,
            Algorithm::Ps256 => &RSA_PSS_SHA256,
        };
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0
            .sign(
                encoding,
                &SystemRandom::new(),
                signed.as_bytes(),
                &mut signature,
            )
            .map_err(|_| FetchError::new(FetchFault::Local, "the private key cannot sign"))?;
        Ok(Secret::new(format!("{signed}.{}", encoded(signature))))
    }
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Now, in seconds since the start of 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
