//! The listeners for clients: a socket for each address, opened here or inherited, and their certificates, which a
//! reload can replace.
//!
//! If Pingora opened the sockets itself, it would panic on its own thread if that failed.

use super::RunError;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use listenfd::ListenFd;
use parking_lot::Mutex;
use pingora_core::apps::ServerApp;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::server::{Fds, ListenFds, ShutdownWatch};
use pingora_core::services::listening::Service;
use pingora_core::tls::sign::CertifiedKey;
use pingora_core::tls::{self, ClientHello, CryptoProvider, ResolvesServerCert, RootCertStore};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use tollgate_config::{Answering, Config, Faults, MOST_CERTIFICATE_BYTES};
use tollgate_settings::{Environment, Fault, KeyPath};

/// Listening sockets, each with the address that the configuration gives it.
#[derive(Default)]
pub(super) struct Sockets(Vec<(SocketAddr, TcpListener)>);

impl Sockets {
    /// The sockets that another process has handed over.
    pub(super) fn inherited(sockets: impl IntoIterator<Item = (SocketAddr, OwnedFd)>) -> Self {
        let listener = |(address, socket)| (address, TcpListener::from(socket));
        Self(sockets.into_iter().map(listener).collect())
    }

    /// The sockets that systemd has opened for this process (`LISTEN_FDS`).
    ///
    /// # Errors
    ///
    /// One of them does not listen on TCP.
    pub(super) fn activated() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Self::default();
        for place in 0..passed.len() {
            let taken = passed.take_tcp_listener(place);
            let listener = taken.map_err(|cause| {
                io::Error::other(format!(
                    "socket activation: only TCP sockets can be used: {cause}"
                ))
            })?;
            if let Some(listener) = listener {
                sockets.0.push((listener.local_addr()?, listener));
            }
        }
        Ok(sockets)
    }

    /// Takes the socket for an address out.
    pub(super) fn remove(&mut self, address: SocketAddr) -> Option<(SocketAddr, TcpListener)> {
        let place = self.0.iter().position(|(known, _)| *known == address)?;
        Some(self.0.swap_remove(place))
    }

    /// Takes over the socket for an address from `earlier`, else opens one.
    ///
    /// # Errors
    ///
    /// The address is not available.
    pub(super) fn take(&mut self, address: SocketAddr, earlier: &mut Self) -> Result<(), RunError> {
        let fault = |cause| RunError::Listen { address, cause };
        let listener = match earlier.remove(address) {
            Some((_, listener)) => listener,
            None => TcpListener::bind(address).map_err(fault)?,
        };
        listener.set_nonblocking(true).map_err(fault)?;
        self.0.push((address, listener));
        Ok(())
    }

    /// Another handle for the socket at this index, and its address.
    pub(super) fn share(&self, place: usize) -> io::Result<(SocketAddr, TcpListener)> {
        let (_, listener) = self.0.get(place).ok_or(io::ErrorKind::NotFound)?;
        Ok((self.address(place)?, listener.try_clone()?))
    }

    /// The address of the socket at this index.
    pub(super) fn address(&self, place: usize) -> io::Result<SocketAddr> {
        let (_, listener) = self.0.get(place).ok_or(io::ErrorKind::NotFound)?;
        listener.local_addr()
    }

    /// All of them, to be handed over.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &TcpListener)> {
        self.0
            .iter()
            .map(|(address, listener)| (*address, listener))
    }
}

/// A Pingora service that listens on the gateway's sockets.
pub(super) struct OnSockets<A> {
    service: Service<A>,
    sockets: ListenFds,
}

impl<A> OnSockets<A> {
    /// A service without sockets.
    pub(super) fn new(service: Service<A>) -> Self {
        Self {
            service,
            sockets: Arc::new(Mutex::new(Fds::new())),
        }
    }

    /// The service itself.
    pub(super) const fn service(&mut self) -> &mut Service<A> {
        &mut self.service
    }

    /// Gives the service a socket for this address.
    pub(super) fn give(&self, address: SocketAddr, socket: TcpListener) {
        let mut sockets = self.sockets.lock();
        sockets.add(address.to_string(), socket.into_raw_fd());
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> pingora_core::services::Service for OnSockets<A> {
    async fn start_service(
        &mut self,
        _: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
    ) {
        let sockets = Some(Arc::clone(&self.sockets));
        let started = self
            .service
            .start_service(sockets, shutdown, listeners_per_fd);
        started.await;
    }

    fn name(&self) -> &str {
        pingora_core::services::Service::name(&self.service)
    }
}

/// Verifies the certificates of clients; `None`: clients present none.
type Verifier = Option<Arc<dyn ClientCertVerifier>>;

/// The certificates of the listeners, by address. The verifier of client certificates never changes.
#[derive(Default)]
pub(super) struct Certificates(HashMap<SocketAddr, (Arc<Renewable>, Verifier)>);

/// Certificates that were read and fit their keys.
#[derive(Default)]
pub(super) struct Read(Vec<(SocketAddr, Arc<CertifiedKey>, Verifier)>);

impl Certificates {
    /// Starts with these certificates.
    pub(super) fn with(read: &Read) -> Self {
        let renewable = |(address, key, verifier): &(_, Arc<_>, Verifier)| {
            let key = ArcSwap::new(Arc::clone(key));
            (*address, (Arc::new(Renewable(key)), verifier.clone()))
        };
        Self(read.0.iter().map(renewable).collect())
    }

    /// Pingora's TLS settings for an address; `None` without TLS.
    pub(super) fn settings(&self, address: SocketAddr, http2: bool) -> Option<TlsSettings> {
        let (certificate, verifier) = self.0.get(&address)?.clone();
        // The paths are not used: each handshake gets the current certificate.
        let mut settings = TlsSettings::intermediate("", "").ok()?;
        settings.set_cert_resolver(certificate);
        if let Some(verifier) = verifier {
            settings.set_client_cert_verifier(verifier);
        }
        if http2 {
            settings.enable_h2();
        }
        Some(settings)
    }

    /// Replaces the certificates from the next handshake on. An address without TLS stays without.
    pub(super) fn replace(&self, read: &Read) {
        for (address, key, _) in &read.0 {
            if let Some((certificate, _)) = self.0.get(address) {
                certificate.0.store(Arc::clone(key));
            }
        }
    }
}

impl Read {
    /// Reads the certificates of the listeners of a configuration.
    ///
    /// # Errors
    ///
    /// Every certificate that cannot be used, with its place in the configuration.
    pub(super) fn of(config: &Config) -> Result<Self, Faults> {
        let mut read = Self::default();
        let mut faults = Vec::new();
        let section = KeyPath::root().key("server").key("listen");
        for (place, listen) in config.server.listen.iter().enumerate() {
            let Some(tls) = &listen.tls else { continue };
            let section = section.index(place).key("tls");
            let key = read_certificate(tls, &section).map_err(|found| faults.extend(found));
            let verifier = tls.client_ca.as_deref().map(client_verifier).transpose();
            let verifier =
                verifier.map_err(|what| faults.push(section.key("client_ca").fault(what)));
            if let (Ok(key), Ok(verifier)) = (key, verifier) {
                read.0.push((listen.address.get(), Arc::new(key), verifier));
            }
        }
        match faults.is_empty() {
            true => Ok(read),
            false => Err(config.locate(faults)),
        }
    }
}

/// Reads a certificate and its key and puts them together.
fn read_certificate(
    settings: &tollgate_config::TlsSettings,
    section: &KeyPath,
) -> Result<CertifiedKey, Vec<Fault>> {
    let read = |file: &Path| Answering.read_bytes(file, MOST_CERTIFICATE_BYTES);
    let fault = |name, file: &Path, what: String| {
        let file = file.display();
        section.key(name).fault(format!("{file} {what}"))
    };
    let no_chain = |what| fault("certificate", &settings.certificate, what);
    let no_key = |what| fault("key", &settings.key, what);
    let chain = read(&settings.certificate)
        .map_err(|cause| no_chain(format!("cannot be read: {cause}")))
        .and_then(|pem| {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            match chain {
                Ok(chain) if chain.is_empty() => Err(no_chain("has no PEM certificate".into())),
                chain => chain.map_err(|cause| no_chain(format!("is not PEM: {cause}"))),
            }
        });
    let key = read(&settings.key)
        .map_err(|cause| no_key(format!("cannot be read: {cause}")))
        .and_then(|pem| {
            let key = PrivateKeyDer::from_pem_slice(&pem);
            key.map_err(|cause| no_key(format!("has no PEM private key: {cause}")))
        });
    let (chain, key) = match (chain, key) {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return Err(chain.err().into_iter().chain(key.err()).collect()),
    };
    let together = || {
        tls::install_default_crypto_provider();
        let provider = CryptoProvider::get_default().ok_or("there is no cryptography")?;
        CertifiedKey::from_der(chain, key, provider).map_err(|cause| cause.to_string())
    };
    together().map_err(|cause: String| {
        let certificate = settings.certificate.display();
        let key = settings.key.display();
        vec![section.fault(format!(
            "the certificate {certificate} with the key {key} cannot be used: {cause}"
        ))]
    })
}

/// Verifies clients' certificates with the authorities in a file.
fn client_verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    tls::install_default_crypto_provider();
    let authorities = || {
        let pem = Answering.read_bytes(file, MOST_CERTIFICATE_BYTES);
        let pem = pem.map_err(|cause| format!("cannot be read: {cause}"))?;
        let mut authorities = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|cause| format!("is not PEM: {cause}"))?;
            let added = authorities.add(certificate);
            added.map_err(|cause| format!("has a certificate of no authority: {cause}"))?;
        }
        let verifier = WebPkiClientVerifier::builder(Arc::new(authorities)).build();
        verifier.map_err(|cause| format!("cannot be used: {cause}"))
    };
    authorities().map_err(|what: String| format!("{} {what}", file.display()))
}

/// The certificate of a listener, until another one is put in its place.
struct Renewable(ArcSwap<CertifiedKey>);

impl fmt::Debug for Renewable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewable(…)")
    }
}

impl ResolvesServerCert for Renewable {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}
