//! The contenders, and the command line and configuration with which each is started.
//!
//! Every contender listens on one loopback address, forwards to one provider and runs one
//! thread. nginx is configured as its documentation advises for such a job: upstream
//! keepalive, bodies in memory, no buffering for event streams.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::time::Instant;

use crate::client::Target;
use crate::failure::{Failure, Result};
use crate::gateway::{self, Setup};
use crate::machine::{self, Machine, Side};
use crate::process::Process;
use crate::watchers::Watchers;
use crate::workload::Format;

/// The contender to which every other is compared.
pub(crate) const YARDSTICK: &str = "bare Pingora";

/// A proxy that can be started any number of times.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// Name in the report.
    pub(crate) name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Bare,
    Nginx,
    Gateway(PathBuf, Setup),
    Custom(Vec<String>),
}

/// A started contender. The folder with its configuration lives as long as it.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its process, with a guard.
    pub(crate) process: Process,
    /// When the process was started; writing its configuration does not count.
    pub(crate) started: Instant,
    /// How to reach it.
    pub(crate) target: Target,
    /// Its collector of traces and its dashboard viewer, if it has them.
    pub(crate) watchers: Option<Watchers>,
    _folder: tempfile::TempDir,
}

/// A program to start and the credential that it will ask for.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The program.
    pub(crate) program: String,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Bearer token that it accepts.
    pub(crate) credential: Option<String>,
    /// Its collector of traces and its dashboard viewer, if it has them.
    pub(crate) watchers: Option<Watchers>,
}

impl Running {
    /// Waits until its dashboard viewer, if it has one, has received an event.
    pub(crate) async fn until_watched(&self) -> Result<()> {
        match &self.watchers {
            Some(watchers) => watchers.until_receiving().await,
            None => Ok(()),
        }
    }

    /// Fails if it has a dashboard viewer that receives nothing.
    pub(crate) fn check_watched(&self) -> Result<()> {
        self.watchers.as_ref().map_or(Ok(()), Watchers::check)
    }
}

impl Contender {
    /// Bare Pingora, from this very binary.
    pub(crate) fn bare() -> Self {
        Self {
            name: YARDSTICK.to_owned(),
            kind: Kind::Bare,
        }
    }

    /// nginx, where it is installed.
    pub(crate) fn nginx() -> Option<Self> {
        machine::run_quietly("nginx", &["-v"]).then(|| Self {
            name: "nginx".to_owned(),
            kind: Kind::Nginx,
        })
    }

    /// A build of the gateway.
    pub(crate) fn gateway(name: &str, binary: &Path, setup: Setup) -> Result<Self> {
        if !binary.is_file() {
            return Err(Failure::Usage(format!(
                "there is no gateway at {}",
                binary.display()
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            kind: Kind::Gateway(binary.to_owned(), setup),
        })
    }

    /// `name=command` of the command line. The words of the command are split at spaces;
    /// `{listen}`, `{provider}` and `{self}` stand for the two addresses and this binary.
    pub(crate) fn custom(definition: &str) -> Result<Self> {
        let usage = || Failure::Usage(format!("`{definition}` is not of the form name=command"));
        let (name, command) = definition.split_once('=').ok_or_else(usage)?;
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || words.is_empty() {
            return Err(usage());
        }
        Ok(Self {
            name: name.to_owned(),
            kind: Kind::Custom(words),
        })
    }

    /// The format in which a chat caller is answered when the provider speaks `spoken`: all
    /// but the gateway pass on what they get.
    pub(crate) fn writes(&self, spoken: Format) -> Format {
        match self.kind {
            Kind::Gateway(..) => Format::Chat,
            Kind::Bare | Kind::Nginx | Kind::Custom(_) => spoken,
        }
    }

    /// Starts it on a free address; it may not listen yet when this returns.
    pub(crate) async fn start(&self, machine: &Machine, provider: SocketAddr) -> Result<Running> {
        let folder = tempfile::tempdir()
            .map_err(|source| Failure::io("create a temporary folder", source))?;
        let listen = machine::free_address()?;
        let prepared = self.prepare(folder.path(), listen, provider).await?;
        let command = machine.command(Side::Proxy, &prepared.program, &prepared.arguments);
        let started = Instant::now();
        let process = Process::start(&self.name, command, folder.path())?;
        let target = Target {
            address: listen,
            credential: prepared.credential,
        };
        Ok(Running {
            process,
            started,
            target,
            watchers: prepared.watchers,
            _folder: folder,
        })
    }

    async fn prepare(
        &self,
        folder: &Path,
        listen: SocketAddr,
        provider: SocketAddr,
    ) -> Result<Prepared> {
        let open = |program: String, arguments: Vec<String>| {
            Ok(Prepared {
                program,
                arguments,
                credential: None,
                watchers: None,
            })
        };
        match &self.kind {
            Kind::Bare => {
                let arguments = ["bare", "--listen", &listen.to_string(), "--provider"];
                let mut arguments = arguments.map(str::to_owned).to_vec();
                arguments.push(provider.to_string());
                open(own_binary()?, arguments)
            }
            Kind::Nginx => {
                let file = write_file(folder, "nginx.conf", &nginx_conf(listen, provider))?;
                let prefix = folder.display().to_string();
                open(
                    "nginx".to_owned(),
                    ["-p", &prefix, "-c", &file].map(str::to_owned).to_vec(),
                )
            }
            Kind::Gateway(binary, setup) => {
                gateway::prepare(binary, setup, folder, listen, provider).await
            }
            Kind::Custom(words) => {
                let own = own_binary()?;
                let mut words = words.iter().map(|word| {
                    word.replace("{listen}", &listen.to_string())
                        .replace("{provider}", &provider.to_string())
                        .replace("{self}", &own)
                });
                open(words.next().unwrap_or_default(), words.collect())
            }
        }
    }
}

/// The path of this binary.
pub(crate) fn own_binary() -> Result<String> {
    std::env::current_exe()
        .map(|path| path.display().to_string())
        .map_err(|source| Failure::io("find this binary", source))
}

/// Writes a file and hands out its path.
pub(crate) fn write_file(folder: &Path, name: &str, text: &str) -> Result<String> {
    let path = folder.join(name);
    fs::write(&path, text)
        .map_err(|source| Failure::io(format!("write {}", path.display()), source))?;
    Ok(path.display().to_string())
}

fn nginx_conf(listen: SocketAddr, provider: SocketAddr) -> String {
    format!(
        r#"daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  tcp_nodelay on;
  upstream provider {{
    server {provider};
    keepalive 1024;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {listen};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_max_temp_file_size 0;
    location / {{
      if ($http_accept = text/event-stream) {{ rewrite ^ /unbuffered last; }}
      proxy_buffer_size 16k;
      proxy_buffers 8 64k;
      proxy_busy_buffers_size 128k;
      proxy_pass http://provider;
    }}
    location = /unbuffered {{
      internal;
      proxy_buffering off;
      proxy_read_timeout 120s;
      proxy_pass http://provider/v1/chat/completions;
    }}
  }}
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> (SocketAddr, SocketAddr) {
        (
            "127.0.0.1:4001".parse().unwrap(),
            "127.0.0.1:4002".parse().unwrap(),
        )
    }

    #[tokio::test]
    async fn a_custom_command_gets_its_addresses_filled_in() {
        let (listen, provider) = addresses();
        let contender = Contender::custom("other=proxy --bind={listen} to {provider}").unwrap();
        let prepared = contender
            .prepare(Path::new("."), listen, provider)
            .await
            .unwrap();
        assert_eq!(prepared.program, "proxy");
        assert_eq!(
            prepared.arguments,
            ["--bind=127.0.0.1:4001", "to", "127.0.0.1:4002"]
        );
        assert_eq!(prepared.credential, None);
    }

    #[test]
    fn a_custom_command_without_name_or_words_is_refused() {
        for wrong in ["proxy", "=proxy", "name=", "name=  "] {
            assert!(Contender::custom(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_gateway_that_was_not_built_is_reported_with_its_path() {
        let nowhere = Path::new("/nowhere/tollgate");
        let fault = Contender::gateway("tollgate", nowhere, Setup::Usual).unwrap_err();
        assert!(fault.to_string().contains("/nowhere/tollgate"), "{fault}");
    }

    #[test]
    fn nginx_takes_the_configuration_where_it_is_installed() {
        if Contender::nginx().is_none() {
            eprintln!("skipped: nginx is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (listen, provider) = addresses();
        let file = write_file(folder.path(), "nginx.conf", &nginx_conf(listen, provider)).unwrap();
        let prefix = folder.path().display().to_string();
        assert!(machine::run_quietly(
            "nginx",
            &["-t", "-q", "-p", &prefix, "-c", &file]
        ));
    }
}
