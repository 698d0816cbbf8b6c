//! Certificates for a test, and the two ends of a TLS connection.

use super::{Connection, Http2, bounded};
use pingora_core::tls::{
    ClientConfig, ClientTlsStream, RootCertStore, ServerConfig, ServerName, ServerTlsStream,
    TlsAcceptor, TlsConnector, install_default_crypto_provider,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A certificate authority that only tests trust.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        install_default_crypto_provider();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a host.
    pub fn issue(&self, host: &str) -> Identity {
        self.sign(CertificateParams::new(vec![host.to_owned()]).unwrap())
    }

    /// A certificate for a host that was valid until yesteryear.
    pub fn issue_expired(&self, host: &str) -> Identity {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    #[expect(clippy::needless_pass_by_value, reason = "they are made for it")]
    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// Opens a connection to `host` that speaks the first protocol of `alpn` that it can.
    pub async fn connect(
        &self,
        address: SocketAddr,
        host: &str,
        alpn: &[&str],
    ) -> ClientTlsStream<TcpStream> {
        self.try_connect(address, host, alpn).await.unwrap()
    }

    /// The same to a host that may not be trusted.
    pub async fn try_connect(
        &self,
        address: SocketAddr,
        host: &str,
        alpn: &[&str],
    ) -> std::io::Result<ClientTlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        self.try_connect_over(stream, host, alpn).await
    }

    /// Begins a session over a connection that is open already.
    pub async fn try_connect_over(
        &self,
        stream: TcpStream,
        host: &str,
        alpn: &[&str],
    ) -> std::io::Result<ClientTlsStream<TcpStream>> {
        self.try_connect_as(None, stream, host, alpn).await
    }

    /// The same with the certificate of a client.
    pub async fn try_connect_as(
        &self,
        client: Option<&Identity>,
        stream: TcpStream,
        host: &str,
        alpn: &[&str],
    ) -> std::io::Result<ClientTlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap();
        roots.add(own).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match client {
            None => config.with_no_client_auth(),
            Some(client) => {
                let chain = CertificateDer::from_pem_slice(client.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes());
                let chain = vec![chain.unwrap()];
                config.with_client_auth_cert(chain, key.unwrap()).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let shaking = TlsConnector::from(Arc::new(config)).connect(name, stream);
        bounded("a TLS session", shaking).await
    }
}

impl Identity {
    /// Writes both files into a folder: `NAME.crt` and `NAME.key`.
    pub fn write(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(name).with_extension("crt"), &self.certificate).unwrap();
        std::fs::write(folder.join(name).with_extension("key"), &self.key).unwrap();
    }

    /// What answers a TLS handshake with this certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor_for(&[])
    }

    /// The same for one that speaks these protocols.
    pub fn acceptor_for(&self, alpn: &[&str]) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Puts TLS in front of a server that speaks without; gives the new address.
pub async fn in_front_of(server: SocketAddr, identity: &Identity) -> SocketAddr {
    Front::of(server, identity).await.address
}

/// TLS in front of a server that speaks without, with a certificate that can be renewed.
pub struct Front {
    pub address: SocketAddr,
    acceptor: watch::Sender<TlsAcceptor>,
}

impl Front {
    pub async fn of(server: SocketAddr, identity: &Identity) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (acceptor, current) = watch::channel(identity.acceptor());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = current.borrow().clone();
                tokio::spawn(async move {
                    if let Ok(mut caller) = acceptor.accept(stream).await {
                        let mut server = TcpStream::connect(server).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut caller, &mut server).await;
                    }
                });
            }
        });
        Self { address, acceptor }
    }

    /// Shows another certificate from the next handshake on.
    pub fn renew(&self, identity: &Identity) {
        self.acceptor.send_replace(identity.acceptor());
    }
}
