//! The Pingora server: its settings, and one service for each kind of listener.

use super::connections::{self, ConnectionServer, Connections, Gate};
use super::grace_period::{Ends, InterruptibleProxy};
use super::listeners::{Certificates, OnSockets, Sockets};
use super::{RunError, stop};
use crate::gateway::{Gateway, RetryBudgets};
use crate::machine;
use crate::snapshot::Current;
use pingora_core::apps::HttpServerOptions;
use pingora_core::listeners::{ListenerConfig, PreTlsCallback};
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::services::listening::Service;
use pingora_proxy::HttpProxy;
use std::sync::Arc;
use tollgate_config::ServerSettings;
use tollgate_telemetry::access_log::AccessLog;
use tollgate_traces::Traces;

/// Pingora clears its read buffer of 64 KiB for each connection, and the buffer takes half of an open stream's
/// memory. It saves no read, because heads and bodies are read in large pieces. Its write buffer of 1,460 bytes is
/// too small for the head and body of most answers, which are then sent separately.
const CALLER_BUFFER: L4BufferSettings = L4BufferSettings {
    read: Some(0),
    write: Some(4096),
};

/// What the services share.
pub(super) struct Services<'a> {
    /// One for each listener, in the order of the configuration.
    pub(super) sockets: &'a Sockets,
    pub(super) certificates: &'a Certificates,
    pub(super) current: &'a Arc<Current>,
    pub(super) access_log: &'a AccessLog,
    pub(super) traces: &'a Traces,
    pub(super) ends: &'a Ends,
}

impl Services<'_> {
    /// A server with a service for each kind of listener: HTTP/2 over cleartext and the PROXY protocol are options of
    /// the service.
    ///
    /// # Errors
    ///
    /// A socket cannot be shared.
    pub(super) fn server(&self, settings: &ServerSettings) -> Result<Server, RunError> {
        let mut server = Server::new_with_opt_and_conf(None, server_conf(settings));
        server.bootstrap();
        let retries = Arc::new(RetryBudgets::default());
        let connections = Arc::new(Connections::default());
        for (http2, proxy_protocol) in [(true, false), (false, false), (true, true), (false, true)]
        {
            let all = settings.listen.iter().enumerate();
            let listeners: Vec<_> = all
                .filter(|(_, it)| (it.http2, it.proxy_protocol) == (http2, proxy_protocol))
                .collect();
            if listeners.is_empty() {
                continue;
            }
            let name = match (http2, proxy_protocol) {
                (true, false) => "gateway",
                (false, false) => "gateway (HTTP/1.1)",
                (true, true) => "gateway (PROXY protocol)",
                (false, true) => "gateway (PROXY protocol, HTTP/1.1)",
            };
            let gate = Gate {
                connections: Arc::clone(&connections),
                current: Arc::clone(self.current),
                proxy_protocol,
                access_log: self.access_log.clone(),
            };
            let before_tls: PreTlsCallback = Arc::new(gate.clone());
            let app = ConnectionServer::new(
                self.proxy(&retries, &server.configuration, http2),
                gate,
                self.ends.clone(),
                http2,
            );
            let mut service = OnSockets::new(Service::new(name.to_owned(), app));
            let endpoints = service.service().endpoints();
            endpoints.set_pre_tls_callback(before_tls);
            for (place, listen) in listeners {
                let (address, socket) = self.sockets.share(place)?;
                service.give(address, socket);
                let endpoint = ListenerConfig::tcp(address.to_string());
                let endpoint = match self.certificates.settings(listen.address.get(), http2) {
                    Some(tls) => endpoint.tls(tls),
                    None => endpoint.l4_buffer(CALLER_BUFFER),
                };
                service.service().add_listener(endpoint);
            }
            server.add_service(service);
        }
        Ok(server)
    }

    fn proxy(
        &self,
        retries: &Arc<RetryBudgets>,
        conf: &Arc<ServerConf>,
        http2: bool,
    ) -> InterruptibleProxy {
        let gateway = Gateway::new(
            Arc::clone(self.current),
            Arc::clone(retries),
            self.access_log.clone(),
            self.traces.clone(),
            connections::shared,
            stop::begun(&self.ends.ending),
        );
        let mut proxy = HttpProxy::new(gateway, Arc::clone(conf));
        proxy.handle_init_modules();
        let mut options = HttpServerOptions::default();
        options.h2c = http2;
        options.h2_idle_timeout = Some(self.current.load().limits.keepalive);
        proxy.server_options = Some(options);
        InterruptibleProxy::new(proxy, Arc::clone(self.current), self.ends.clone())
    }
}

fn server_conf(settings: &ServerSettings) -> ServerConf {
    let threads = settings.threads.map(usize::from);
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    ServerConf {
        threads: threads.unwrap_or_else(cores),
        upstream_keepalive_pool_size: usize::try_from(settings.upstream_keepalive_pool)
            .unwrap_or(usize::MAX)
            .min(machine::most_kept()),
        max_retries: Gateway::MOST_ATTEMPTS,
        // The process ends before that, and logs the interrupted requests.
        grace_period_seconds: Some(settings.shutdown.grace.get().as_secs().saturating_add(5)),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    }
}
