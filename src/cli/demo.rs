//! `tollgate demo`: the whole catalog on a simulated provider within this process.

use super::init_log;
use crate::server::{Hangups, RunError, Start};
use clap::Args;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tollgate_cli::{Failure, Outcome, print, print_line};
use tollgate_config::{Answering, Config, Faults, Loader, Sources};
use tollgate_engine::keys;
use tollgate_ledger::{GrantTerms, KeySelector, NewKey};
use tollgate_settings::{Environment, KeyPath};
use tollgate_sim::{Sim, SimOptions};

/// What `demo` takes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The port for clients, on the loopback address.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The port for operators, on the loopback address.
    #[arg(long, default_value_t = 9080)]
    admin_port: u16,
    /// The folder for the key and the ledger; created if missing.
    #[arg(long, value_name = "FOLDER", default_value = ".demo")]
    state_dir: PathBuf,
    /// A configuration to use instead of the built-in one.
    // Not `--config`: that one has a default and a variable, which name the operator's own file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The files of the demo, which therefore runs in any folder. Other files are read from the disk.
struct BuiltIn;

impl BuiltIn {
    const CONFIG: &str = "tollgate-demo/demo.yaml";
    const FILES: [(&str, &str); 3] = [
        (Self::CONFIG, include_str!("../../conf/demo.yaml")),
        (
            "tollgate-demo/catalog.yaml",
            include_str!("../../conf/catalog.yaml"),
        ),
        (
            "tollgate-demo/simulated-credential.txt",
            include_str!("../../conf/simulated-credential.txt"),
        ),
    ];
}

impl Environment for BuiltIn {
    fn variable(&self, name: &str) -> Option<String> {
        Answering.variable(name)
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        let file = Self::FILES.iter().find(|(name, _)| path == Path::new(name));
        file.map_or_else(
            || Answering.read_bytes(path, max_bytes),
            |(_, text)| Ok(text.as_bytes().to_vec()),
        )
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = &arguments.state_dir;
    std::fs::create_dir_all(folder).map_err(|cause| format!("{}: {cause}", folder.display()))?;
    let provider = start_provider()?;
    let load = loader(arguments, provider)?;
    let config = load(&mut Sources::default())?;
    init_log(config.log.level);
    let key = demo_key(&config, &arguments.state_dir)?;
    let port = arguments.port;
    let admin_port = arguments.admin_port;
    let start = Start {
        config,
        reload: Arc::new(load),
        predecessor: None,
        program: None,
    };
    let announced = move || {
        // Without a reader the demo serves all the same.
        let _ = announce(&key, port, admin_port);
    };
    match start.run(Hangups::take()?, announced) {
        Ok(()) => print_line("stopped"),
        Err(RunError::Listen { address, cause }) => Err(taken(arguments, address, &cause)),
        Err(fault) => Err(fault.into()),
    }
}

/// Which option gives the demo another port.
fn taken(arguments: &Arguments, address: SocketAddr, cause: &io::Error) -> Failure {
    let (option, variable) = match address.port() == arguments.admin_port {
        true => ("--admin-port", "DEMO_ADMIN_PORT"),
        false => ("--port", "DEMO_PORT"),
    };
    format!(
        "cannot listen on {address}: {cause}; choose another port with {option} \
         (make demo {variable}=…)"
    )
    .into()
}

/// Starts the simulated provider on a free port and a runtime of its own.
fn start_provider() -> Result<SocketAddr, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sim = runtime.block_on(Sim::bind(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        SimOptions::default(),
    ))?;
    let address = sim.local_addr()?;
    std::thread::Builder::new()
        .name("provider".to_owned())
        .spawn(move || runtime.block_on(sim.serve(std::future::pending())))?;
    Ok(address)
}

/// The demo's file, with what only this run knows put over it.
fn loader(
    arguments: &Arguments,
    provider: SocketAddr,
) -> Result<impl Fn(&mut Sources) -> Result<Config, Faults> + Send + Sync + use<>, Failure> {
    let store = std::path::absolute(&arguments.state_dir)?.join("tollgate.db");
    let file = arguments.file.clone();
    let file = file.unwrap_or_else(|| BuiltIn::CONFIG.into());
    let listen = |port: u16| SocketAddr::from(([127, 0, 0, 1], port)).to_string();
    let overrides = [
        ("providers.sim.address", format!("http://{provider}").into()),
        (
            "server.listen",
            serde_json::json!([{ "address": listen(arguments.port) }]),
        ),
        ("admin.listen", listen(arguments.admin_port).into()),
        ("store.path", store.display().to_string().into()),
    ];
    let overrides = overrides
        .into_iter()
        .map(|(path, value)| Ok((path.parse::<KeyPath>()?, value)))
        .collect::<Result<Vec<(KeyPath, serde_json::Value)>, Failure>>()?;
    Ok(move |sources: &mut Sources| {
        let loader = Loader::new(&BuiltIn);
        let with = |loader: Loader<'static>, (path, value): &(KeyPath, serde_json::Value)| {
            loader.with(path.clone(), value.clone())
        };
        overrides
            .iter()
            .fold(loader, with)
            .load_noting(&file, sources)
    })
}

/// The key of an earlier run, or a new one.
fn demo_key(config: &Config, state_dir: &Path) -> Result<String, Failure> {
    let file = state_dir.join("key");
    let store = keys::open_store(config)?;
    if let Ok(kept) = std::fs::read_to_string(&file)
        && KeySelector::parse(&kept).is_ok_and(|selector| store.find_key(&selector).is_ok())
    {
        return Ok(kept);
    }
    let created = store.create_key(&NewKey {
        grant: Some(GrantTerms {
            tokens: 1_000_000_000,
            validity: Duration::from_secs(365 * 86_400),
            ..GrantTerms::default()
        }),
        ..NewKey::named("demo")
    })?;
    let key = created.key.expose().to_owned();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&file)?.write_all(key.as_bytes())?;
    Ok(key)
}

fn announce(key: &str, port: u16, admin_port: u16) -> Outcome {
    print(format_args!(
        "Tollgate is serving the whole catalog from a simulated provider.

The key of this demo:

{key}

Try it:

curl -sN http://127.0.0.1:{port}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' -d '{{\"model\":\"beta-5.6-terra\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'

curl -s http://127.0.0.1:{port}/v1/messages -H 'x-api-key: {key}' -H 'content-type: application/json' -d '{{\"model\":\"alpha-sonnet-5\",\"max_tokens\":100,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'

curl -s http://127.0.0.1:{port}/v1/models -H 'x-api-key: {key}'

Base URL for SDKs: http://127.0.0.1:{port}/v1 (chat completions, responses), http://127.0.0.1:{port} (messages).
For operators: http://127.0.0.1:{admin_port}/metrics. Stop with Ctrl-C.

"
    ))
}
