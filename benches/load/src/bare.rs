//! The yardstick: Pingora with nothing of ours in it.
//!
//! [`PassThrough`] is the least that `ProxyHttp` asks for, in the configuration that Pingora
//! has by itself. The options exist to study what Pingora's own knobs are worth; a comparison
//! runs it without any.

use std::net::SocketAddr;

use async_trait::async_trait;
use pingora_core::listeners::ListenerConfig;
use pingora_core::modules::http::HttpModules;
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

/// Where to listen and forward, and Pingora's knobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Address that gets every request
    #[arg(long)]
    provider: SocketAddr,
    /// Tokio's current-thread runtimes instead of the work-stealing one
    #[arg(long)]
    no_steal: bool,
    /// Leave out the downstream modules that Pingora adds (response compression)
    #[arg(long)]
    no_modules: bool,
    /// Bytes of the downstream read buffer [Pingora: 65536]
    #[arg(long)]
    read_buffer: Option<usize>,
    /// Bytes of the downstream write buffer [Pingora: 1460]
    #[arg(long)]
    write_buffer: Option<usize>,
    /// Idle upstream connections kept per thread
    #[arg(long, default_value_t = 128)]
    keepalive_pool: usize,
}

struct PassThrough {
    provider: HttpPeer,
    no_modules: bool,
}

#[async_trait]
impl ProxyHttp for PassThrough {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    fn init_downstream_modules(&self, modules: &mut HttpModules) {
        if !self.no_modules {
            modules.add_module(
                pingora_core::modules::http::compression::ResponseCompressionBuilder::enable(0),
            );
        }
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        _ctx: &mut Self::CTX,
    ) -> pingora_core::Result<Box<HttpPeer>> {
        Ok(Box::new(self.provider.clone()))
    }
}

/// Serves on one thread until the process is ended.
pub(crate) fn serve(options: &Options) -> ! {
    let conf = ServerConf {
        work_stealing: !options.no_steal,
        upstream_keepalive_pool_size: options.keepalive_pool,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    #[expect(clippy::disallowed_methods, reason = "the address is resolved already")]
    let provider = HttpPeer::new(options.provider, false, String::new());
    let pass_through = PassThrough {
        provider,
        no_modules: options.no_modules,
    };
    let mut service = http_proxy_service(&server.configuration, pass_through);
    let buffers = L4BufferSettings {
        read: options.read_buffer,
        write: options.write_buffer,
    };
    service.add_listener(ListenerConfig::tcp(options.listen.to_string()).l4_buffer(buffers));
    server.add_service(service);
    server.run_forever()
}
