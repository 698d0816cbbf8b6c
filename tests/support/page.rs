//! Pages of the documentation as scripts: their blocks run in order, in an empty folder and a network
//! of their own, in which the ports that a page names are free.
//!
//! | Block | In the script |
//! |---|---|
//! | `sh` | runs; if it ends with `tollgate serve`, `demo` or `sim`, that runs in the background |
//! | `sh not-run` | is left out |
//! | `yaml`, if its first line is `# NAME.yaml` | becomes this file |
//! | any other `yaml` | is merged into `tollgate.yaml`, which must pass `tollgate check` |
//! | `text output` | has lines that must be in the output |
//!
//! Readers of the pages see no mark: renderers take the first word of a fence alone.

use super::{Output, PATIENCE, tollgate};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A fenced block of a page.
#[derive(Clone, Debug)]
struct Block {
    /// What follows the fence: `sh`, `sh not-run`.
    info: String,
    text: String,
}

/// The blocks of a page.
#[derive(Clone, Debug)]
pub struct Page {
    name: String,
    blocks: Vec<Block>,
}

impl Page {
    /// Reads a page by its path in the repository.
    pub fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).expect(path);
        Self::of(path, &text)
    }

    /// The same, one section of it.
    pub fn section(path: &str, title: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).expect(path);
        let (_, rest) = text.split_once(&format!("\n## {title}\n")).expect(title);
        Self::of(path, rest.split("\n## ").next().unwrap())
    }

    fn of(name: &str, text: &str) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_open = false;
        for line in text.lines() {
            match line.strip_prefix("```") {
                Some(_) if is_open => is_open = false,
                Some(info) => {
                    is_open = true;
                    blocks.push(Block {
                        info: info.to_owned(),
                        text: String::new(),
                    });
                }
                None if is_open => {
                    let block = blocks.last_mut().unwrap();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None => {}
            }
        }
        Self {
            name: name.to_owned(),
            blocks,
        }
    }

    /// Whether a script would run anything.
    pub fn has_commands(&self) -> bool {
        let runs = |block: &Block| block.info == "sh" || block.info == "yaml";
        self.blocks.iter().any(runs)
    }

    /// This page with another one behind it.
    #[must_use]
    pub fn before(mut self, next: &Self) -> Self {
        self.name.clone_from(&next.name);
        self.blocks.extend(next.blocks.iter().cloned());
        self
    }

    /// This page with a simulated provider in the place of the providers that it names.
    #[must_use]
    pub fn simulated(mut self) -> Self {
        for block in &mut self.blocks {
            for name in ["alpha", "beta"] {
                let address = format!("https://api.{name}.example");
                block.text = block.text.replace(&address, "http://127.0.0.1:9100");
            }
        }
        let sim = Block {
            info: "sh".to_owned(),
            text: "tollgate sim --listen 127.0.0.1:9100\n".to_owned(),
        };
        self.blocks.insert(0, sim);
        self
    }

    fn script(&self) -> String {
        let mut script = "set -euo pipefail\nip link set lo up\n".to_owned();
        for (number, block) in self.blocks.iter().enumerate() {
            let Block { info, text } = block;
            match info.as_str() {
                "sh" => script.push_str(&in_background(text)),
                "yaml" => script.push_str(&file(number, text)),
                _ => {}
            }
        }
        script
    }

    /// Runs it in `folder`, in a network of its own.
    pub async fn run(&self, network: &Network, folder: &Path) -> Output {
        let mut command = network.command();
        command
            .args(["bash", "-c", &self.script()])
            .current_dir(folder)
            .env_clear()
            .env("PATH", path())
            .kill_on_drop(true);
        Output::within(PATIENCE * 6, &mut command).await
    }

    /// What is wrong with the output of a run, if anything is.
    pub fn fault(&self, output: &Output) -> Option<String> {
        let name = &self.name;
        if !output.status.success() {
            return Some(format!("{name}: {}\n{output:?}", output.status));
        }
        let blocks = self.blocks.iter().filter(|it| it.info == "text output");
        let mut lines = blocks.flat_map(|block| block.text.lines());
        let missing = lines.find(|line| !output.stdout.contains(line.trim_end()))?;
        Some(format!("{name}: the output lacks '{missing}'\n{output:?}"))
    }
}

/// The commands of a block. What serves goes on in the background, as in a terminal of its own, once
/// it is ready.
fn in_background(text: &str) -> String {
    const SERVERS: [(&str, &str); 3] = [
        ("tollgate serve", "-f http://127.0.0.1:9080/readyz"),
        ("tollgate demo", "-f http://127.0.0.1:9080/readyz"),
        ("tollgate sim", "http://127.0.0.1:9100/v1/models"),
    ];
    let (before, last) = text
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or(("", text.trim_end()));
    let found = SERVERS.iter().find(|(server, _)| last.starts_with(server));
    let Some((server, ready)) = found else {
        return text.to_owned();
    };
    let log = server.rsplit(' ').next().unwrap();
    format!(
        "{before}\n{last} > {log}.out 2> {log}.log &\n\
         trap 'kill -TERM $! 2> /dev/null && wait $! || true' EXIT\n\
         for i in $(seq 300); do curl -s -o /dev/null {ready} && break; sleep 0.1; done\n"
    )
}

/// A file of its own, or a part of `tollgate.yaml`.
fn file(number: usize, text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let named = first.strip_prefix("# ").filter(|it| it.ends_with(".yaml"));
    let mut script = String::new();
    let name = named.unwrap_or("tollgate.yaml");
    // Writing to a string cannot fail.
    let _ = match named {
        Some(_) => writeln!(script, "cat > {name} <<'END_OF_FILE'"),
        None => writeln!(
            script,
            "mv tollgate.yaml before-{number}.yaml\n\
             cat > {name} <<'END_OF_FILE'\ninclude: before-{number}.yaml"
        ),
    };
    let _ = writeln!(script, "{text}END_OF_FILE");
    if named.is_none() {
        script.push_str("tollgate check > /dev/null\n");
    }
    script
}

/// The folders in which programs are found, that of `tollgate` first.
fn path() -> String {
    let program = PathBuf::from(tollgate().as_std().get_program());
    let folder = program.parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// How a command gets a network and processes of its own.
#[derive(Clone, Debug)]
pub struct Network(Vec<&'static str>);

impl Network {
    /// `None`, and a line that says so, if the system does not allow it.
    pub async fn new(test: &str) -> Option<Self> {
        const AS_ROOT: &[&str] = &["--net"];
        const AS_ANYBODY: &[&str] = &["--user", "--map-root-user", "--net"];
        for arguments in [AS_ROOT, AS_ANYBODY] {
            let network = Self(arguments.to_vec());
            let mut probe = network.command();
            probe.args(["ip", "link", "set", "lo", "up"]);
            let status = probe.stderr(Stdio::null()).status().await;
            if status.is_ok_and(|status| status.success()) {
                return Some(network);
            }
        }
        eprintln!("SKIPPED: {test}: it needs a network namespace, and `ip` of iproute2");
        None
    }

    /// Whatever it starts ends with it.
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(&self.0)
            .args(["--pid", "--fork", "--kill-child"]);
        command
    }
}
