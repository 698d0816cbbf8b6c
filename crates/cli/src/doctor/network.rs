//! Providers: name, connection, TLS, and the clock by their `date` headers.
//!
//! A provider gets `HEAD /` without a credential, which costs nothing.

use super::report::Report;
use crate::Outcome;
use crate::http::resolver_cause;
use crate::progress::Progress;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_routing::{Http2, Provider, UpstreamTls};

/// How long the resolver may take, and the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses of a provider that are connected to.
const MOST_ADDRESSES: usize = 4;
/// A `date` header has whole seconds, and is written before it is sent.
const USUAL_SKEW: Duration = Duration::from_secs(3);
/// Certificates and grants begin and end so much too early or too late.
const MOST_SKEW: Duration = Duration::from_secs(60);

/// The findings about a provider.
struct Found {
    verdict: Result<String, Fault>,
    /// Findings that do not stop requests.
    warnings: Vec<Fault>,
    skew: Option<Skew>,
}

/// A problem and its remedy.
struct Fault {
    message: String,
    advice: &'static str,
}

/// How far the clock of this machine is from that of a provider.
struct Skew {
    by: Duration,
    is_ahead: bool,
}

pub(super) fn check(providers: &[Arc<Provider>], report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let progress = Progress::of("connecting to the providers");
    let found = runtime.block_on(async {
        let looks: Vec<_> = providers
            .iter()
            .map(|provider| tokio::spawn(look_at(Arc::clone(provider))))
            .collect();
        let mut found = Vec::new();
        for look in looks {
            found.push(look.await);
        }
        found
    });
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    drop(progress);
    let mut skews = Vec::new();
    for (provider, found) in providers.iter().zip(found) {
        let found = found?;
        let check = format!("provider {}", provider.name);
        for warning in found.warnings {
            report.warn(&*check, warning.message, warning.advice);
        }
        match found.verdict {
            Ok(message) => report.ok(check, message),
            Err(fault) => report.fail(check, fault.message, fault.advice),
        }
        skews.extend(found.skew);
    }
    clock(skews, report);
    Ok(())
}

/// The provider that agrees most decides: clocks of providers can be wrong, too.
fn clock(skews: Vec<Skew>, report: &mut Report) {
    const CHECK: &str = "clock";
    let Some(least) = skews.into_iter().min_by_key(|skew| skew.by) else {
        let advice = "compare it by hand: timedatectl";
        return report.warn(CHECK, "no provider answered over https with a date", advice);
    };
    let seconds = least.by.as_secs();
    if least.by <= USUAL_SKEW {
        return report.ok(CHECK, "agrees with the providers");
    }
    let side = if least.is_ahead { "ahead of" } else { "behind" };
    let message = format!("{seconds} s {side} the providers");
    let advice = "synchronize it: timedatectl set-ntp true";
    match least.by > MOST_SKEW {
        true => report.fail(CHECK, message, advice),
        false => report.warn(CHECK, message, advice),
    }
}

async fn look_at(provider: Arc<Provider>) -> Found {
    let mut found = Found {
        verdict: Ok(String::new()),
        warnings: Vec::new(),
        skew: None,
    };
    found.verdict = look(&provider, &mut found.warnings, &mut found.skew).await;
    found
}

async fn look(
    provider: &Provider,
    warnings: &mut Vec<Fault>,
    skew: &mut Option<Skew>,
) -> Result<String, Fault> {
    let addresses = resolve(provider).await?;
    let begun = Instant::now();
    let (stream, connected) = connect(provider, &addresses, warnings).await?;
    let mut message = format!("{connected}, addresses {}", addresses.len());
    let date = match &provider.tls {
        None => head(provider, stream).await,
        Some(tls) if !tls.verify => {
            warnings.push(Fault {
                message: "its certificate is not verified (tls.verify: false)".to_owned(),
                advice: "give tls.ca the authority of its certificate instead",
            });
            return Ok(message);
        }
        Some(tls) => {
            let stream = handshake(provider, tls, stream).await?;
            let version = stream.get_ref().1.protocol_version();
            if let Some(version) = version.and_then(|it| it.as_str()) {
                message += &format!(", {}", version.replace("TLSv1_", "TLS 1."));
            }
            head(provider, stream).await
        }
    };
    let millis = begun.elapsed().as_millis();
    match date {
        // It speaks HTTP/2 alone.
        _ if provider.http2 == Http2::Always => {}
        Ok(date) => {
            message += &format!(", answers in {millis} ms");
            if provider.tls.is_some() {
                *skew = date.map(Skew::to);
            }
        }
        Err(cause) => warnings.push(Fault {
            message: format!("it accepts connections and does not answer HEAD /: {cause}"),
            advice: "check that the address is that of an HTTP server",
        }),
    }
    Ok(message)
}

impl Skew {
    fn to(theirs: SystemTime) -> Self {
        match SystemTime::now().duration_since(theirs) {
            Ok(by) => Self { by, is_ahead: true },
            Err(behind) => Self {
                by: behind.duration(),
                is_ahead: false,
            },
        }
    }
}

async fn resolve(provider: &Provider) -> Result<Vec<SocketAddr>, Fault> {
    let host = provider.host.trim_matches(['[', ']']);
    let failed = |cause: &str| Fault {
        message: format!("the host '{host}' cannot be resolved ({cause})"),
        advice: "check the address in the configuration, and the servers in /etc/resolv.conf",
    };
    let looked_up = timeout(PATIENCE, tokio::net::lookup_host((host, provider.port))).await;
    let addresses: Vec<_> = match looked_up {
        Err(_) => return Err(failed("the resolver does not answer")),
        Ok(Err(fault)) => return Err(failed(resolver_cause(&fault.to_string()))),
        Ok(Ok(addresses)) => addresses.collect(),
    };
    match addresses.is_empty() {
        true => Err(failed("it has no address")),
        false => Ok(addresses),
    }
}

/// Connects to each of the addresses; the first connection stays.
async fn connect(
    provider: &Provider,
    addresses: &[SocketAddr],
    warnings: &mut Vec<Fault>,
) -> Result<(TcpStream, SocketAddr), Fault> {
    let mut connected = None;
    let mut failed = Vec::new();
    for address in addresses.iter().take(MOST_ADDRESSES) {
        let connecting = timeout(provider.timeouts.connect, TcpStream::connect(address));
        let cause = match connecting.await {
            Ok(Ok(stream)) => {
                connected.get_or_insert((stream, *address));
                continue;
            }
            Ok(Err(fault)) => fault.to_string(),
            Err(_) => format!("no answer within {:?}", provider.timeouts.connect),
        };
        failed.push(Fault {
            message: format!("{address} cannot be reached: {cause}"),
            advice: "check that it runs, and the firewalls and routes between",
        });
    }
    match connected {
        Some(connected) => {
            warnings.extend(failed);
            Ok(connected)
        }
        None => Err(failed.pop().unwrap_or(Fault {
            message: "it has no address".to_owned(),
            advice: "check the address in the configuration",
        })),
    }
}

async fn handshake(
    provider: &Provider,
    tls: &UpstreamTls,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Fault> {
    let failed = |cause: String| Fault {
        message: format!("TLS with '{}' fails: {cause}", tls.server_name),
        advice: "check tls.ca and tls.server_name of the provider, the system's certificate \
                 authorities, and the clock of this machine",
    };
    let roots = roots(tls.ca.as_deref()).map_err(failed)?;
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|fault| failed(fault.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
    let name = ServerName::try_from(tls.server_name.to_string());
    let name = name.map_err(|fault| failed(fault.to_string()))?;
    let shaking = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match timeout(provider.timeouts.connect.max(PATIENCE), shaking).await {
        Ok(shaken) => shaken.map_err(|fault| failed(fault.to_string())),
        Err(_) => Err(failed("no answer".to_owned())),
    }
}

/// The authorities of a file, else those of the system.
fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = match file {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|fault| format!("{} cannot be read: {fault}", file.display()))?,
        None => rustls_native_certs::load_native_certs()
            .map_err(|fault| format!("the system's authorities cannot be read: {fault}"))?,
    };
    roots.add_parsable_certificates(certificates);
    match roots.is_empty() {
        true => Err("there is no certificate authority to trust".to_owned()),
        false => Ok(roots),
    }
}

/// Sends `HEAD /`; the `date` header of the answer.
async fn head<S>(provider: &Provider, stream: S) -> Result<Option<SystemTime>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let exchange = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::head("/")
            .header(header::HOST, &provider.authority)
            .header(
                header::USER_AGENT,
                concat!("tollgate/", env!("CARGO_PKG_VERSION")),
            )
            .body(http_body_util::Empty::<Bytes>::new());
        // The host was checked with the configuration.
        let request = request.unwrap_or_default();
        sender.send_request(request).await
    };
    match timeout(PATIENCE, exchange).await {
        Err(_) => Err(format!("nothing came within {PATIENCE:?}")),
        Ok(Err(fault)) => Err(fault.to_string()),
        Ok(Ok(answer)) => {
            let date = answer.headers().get(header::DATE);
            let date = date.and_then(|it| it.to_str().ok());
            Ok(date.and_then(|it| httpdate::parse_http_date(it).ok()))
        }
    }
}
