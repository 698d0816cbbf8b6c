//! A real nginx: as the provider, whose log says what has reached it, or as a load balancer before
//! the gateway.

use super::config::free_address;
use super::{bounded, eventually, skip_without};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// An nginx that answers every request with one answer.
pub struct Nginx {
    pub address: SocketAddr,
    folder: TempDir,
    process: Child,
}

impl Nginx {
    /// Starts one, or says why there is none on this machine.
    pub async fn start(answer: &str) -> Option<Self> {
        Self::run(|folder, address| http(folder, address, answer)).await
    }

    /// Starts a load balancer that passes connections on to `gateway` with the PROXY protocol, or
    /// says why there is none on this machine.
    pub async fn balancing(gateway: SocketAddr) -> Option<Self> {
        let module = ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules"]
            .map(|folder| Path::new(folder).join("ngx_stream_module.so"))
            .into_iter()
            .find(|it| it.is_file());
        let Some(module) = module else {
            skip_without("the stream module of nginx");
            return None;
        };
        let module = module.display();
        Self::run(|_, address| {
            format!(
                "load_module {module};
stream {{ server {{ listen {address}; proxy_pass {gateway}; proxy_protocol on; }} }}"
            )
        })
        .await
    }

    async fn run(servers: impl FnOnce(&Path, SocketAddr) -> String) -> Option<Self> {
        let program = find()?;
        let folder = TempDir::new().unwrap();
        let address = free_address();
        let file = folder.path().join("nginx.conf");
        let servers = servers(folder.path(), address);
        std::fs::write(&file, configuration(folder.path(), &servers)).unwrap();
        let process = Command::new(program)
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(folder.path())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("nginx", async || TcpStream::connect(address).await.ok()).await;
        Some(Self {
            address,
            folder,
            process,
        })
    }

    /// A line for each request that has reached it so far.
    pub fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("access.log"));
        log.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Ends it.
    pub async fn stop(mut self) {
        bounded("the end of nginx", self.process.kill())
            .await
            .unwrap();
    }
}

/// Where the program is; `None`, and said so, where there is none.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let found = folders
        .into_iter()
        .map(|it| it.join("nginx"))
        .find(|it| it.is_file());
    if found.is_none() {
        skip_without("nginx");
    }
    found
}

fn configuration(folder: &Path, servers: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
{servers}
events {{ worker_connections 256; }}
"
    )
}

fn http(folder: &Path, address: SocketAddr, answer: &str) -> String {
    let folder = folder.display();
    format!(
        "http {{
  log_format requests '$request';
  access_log {folder}/access.log requests;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen {address}; default_type application/json; return 200 '{answer}'; }}
}}"
    )
}
