//! The certificate authorities of providers. They are read once with a configuration, so that a rollback trusts
//! the same authorities even if the files have changed.

use pingora_core::utils::tls::{WrappedX509, parse_x509};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tollgate_config::{Answering, MOST_CERTIFICATE_BYTES};
use tollgate_routing::Provider;
use tollgate_settings::{Environment, Fault, KeyPath};
use x509_parser::prelude::{FromDer, X509Certificate};

type Trusted = Arc<[WrappedX509]>;

/// The authorities of the providers that have their own.
#[derive(Default)]
pub struct Authorities(HashMap<Arc<str>, Result<Trusted, Fault>>);

impl Authorities {
    /// Reads them. Faults are reported when they are used, together with all others.
    pub fn read(providers: &[Arc<Provider>]) -> Self {
        let own = providers.iter().filter_map(|provider| {
            let file = provider.tls.as_ref()?.ca.as_ref()?;
            Some((Arc::clone(&provider.name), read(provider, file)))
        });
        Self(own.collect())
    }

    /// The authorities of a provider; `None`: the system's.
    pub(super) fn of(&self, provider: &str) -> Option<Result<Trusted, Fault>> {
        self.0.get(provider).cloned()
    }
}

fn read(provider: &Provider, file: &Path) -> Result<Trusted, Fault> {
    let trusted = Answering
        .read_bytes(file, MOST_CERTIFICATE_BYTES)
        .map_err(|cause| cause.to_string())
        .and_then(|bytes| parsed(&bytes));
    trusted.map_err(|cause| {
        let path = KeyPath::root()
            .key("providers")
            .key(&*provider.name)
            .key("tls")
            .key("ca");
        path.fault(format!(
            "{} cannot be read as PEM certificates: {cause}",
            file.display()
        ))
    })
}

fn parsed(pem: &[u8]) -> Result<Trusted, String> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .map(|item| item.map_err(|fault| fault.to_string()))
        .map(|item| item.and_then(|der| certificate(der.to_vec())))
        .collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(certificates.into())
}

/// Checks a certificate before Pingora parses it, because Pingora panics on an invalid one.
fn certificate(der: Vec<u8>) -> Result<WrappedX509, String> {
    X509Certificate::from_der(&der).map_err(|fault| fault.to_string())?;
    Ok(WrappedX509::new(der, parse_x509))
}
