//! A program of the operator's that prints a token.

use crate::error::{FetchError, FetchFault};
use crate::source::{Building, Fetched, Obstacle};
use rustix::process::{Pid, Signal, kill_process_group};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::AsyncReadExt;
use tollgate_settings::{KeyPath, Secret};

/// The longest output.
const MOST_BYTES: u64 = 64 * 1024;

/// A program that prints `{"token": "…", "expires_in": 3600}`, or `expires_at` with a time in RFC 3339.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments, run without a shell. A relative path with a `/` starts at the
    /// folder of this file.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// How long it may run.
    #[serde(default = "ten_seconds")]
    pub timeout: tollgate_settings::Duration,
}

const fn ten_seconds() -> tollgate_settings::Duration {
    tollgate_settings::Duration::from_secs(10)
}

pub(crate) struct Command {
    program: PathBuf,
    arguments: Vec<String>,
    timeout: Duration,
}

impl Command {
    pub(crate) fn build(
        settings: &CommandSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let path = at.key("run");
        let program = settings.run.first().filter(|it| !it.is_empty());
        let Some((program, arguments)) = program.zip(settings.run.get(1..)) else {
            building.fault(&path, "expected a program and its arguments");
            return None;
        };
        Some(Self {
            program: match program.contains('/') {
                true => (building.folder)(&path).join(program),
                false => program.into(),
            },
            arguments: arguments.to_vec(),
            timeout: settings.timeout.get(),
        })
    }

    /// Why the program cannot be run. One that is named without a folder may be in the `PATH` of the gateway.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        let program = &self.program;
        let has_folder = program.components().nth(1).is_some();
        let message = if has_folder {
            unrunnable(program)?
        } else {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let mut folders = std::env::split_paths(&folders);
            if folders.any(|folder| unrunnable(&folder.join(program)).is_none()) {
                return None;
            }
            format!("{} is in no folder of PATH", program.display())
        };
        Some(Obstacle {
            setting: ["command", "run"],
            message,
            is_lasting: has_folder,
        })
    }

    pub(crate) async fn fetch(&self) -> Result<Fetched, FetchError> {
        let program = self.program.display();
        let local = |message: String| FetchError::new(FetchFault::Local, message);
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It may hold a secret.
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| local(format!("{program} cannot be run: {cause}")))?;
        let mut group = Group::of(child.id());
        let output = child.stdout.take();
        let running = async {
            let mut text = Vec::new();
            if let Some(output) = output {
                let mut output = output.take(MOST_BYTES);
                output.read_to_end(&mut text).await?;
            }
            Ok::<_, std::io::Error>((text, child.wait().await?))
        };
        let ended = tokio::time::timeout(self.timeout, running).await;
        let (text, status) = ended
            .map_err(|_| {
                let message = format_args!("{program} has not ended within {:?}", self.timeout);
                FetchError::new(FetchFault::Timeout, message)
            })?
            .map_err(|cause| local(format!("{program} cannot be read: {cause}")))?;
        group.release();
        if !status.success() {
            return Err(local(format!(
                "{program} has failed ({status}); run it by hand to see why"
            )));
        }
        printed(&text).ok_or_else(|| {
            let message = format_args!(
                "{program} prints something else than {{\"token\": …, \"expires_in\": seconds}}"
            );
            FetchError::new(FetchFault::Answer, message)
        })
    }
}

/// Why no user can run a file. `None` also if this user may not look at it.
fn unrunnable(program: &Path) -> Option<String> {
    let shown = program.display();
    match program.metadata() {
        Ok(file) if !file.is_file() => Some(format!("{shown} is not a file")),
        Ok(file) if file.mode() & 0o111 == 0 => {
            Some(format!("{shown} is not executable: chmod +x {shown}"))
        }
        Err(cause) if cause.kind() != ErrorKind::PermissionDenied => {
            Some(format!("{shown} cannot be run: {cause}"))
        }
        Ok(_) | Err(_) => None,
    }
}

/// The processes of a program. Dropping it kills them: a script that hangs waits for a program of its own,
/// and each attempt would leave another one.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok());
        Self(leader.and_then(Pid::from_raw))
    }

    /// The leader has ended by itself, and its id may become that of another process.
    const fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if all of them have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn printed(text: &[u8]) -> Option<Fetched> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let lifetime = match (value.get("expires_in"), value.get("expires_at")) {
        (Some(seconds), None) => seconds.as_u64().map(Duration::from_secs)?,
        (None, Some(at)) => until(at.as_str()?)?,
        _ => return None,
    };
    let token = Secret::new(value.get("token")?.as_str()?);
    Some(Fetched::token(token, lifetime))
}

/// How long until a time in RFC 3339; 0 if it is past.
pub(crate) fn until(moment: &str) -> Option<Duration> {
    let moment = OffsetDateTime::parse(moment, &Rfc3339).ok()?;
    let left = moment - OffsetDateTime::now_utc();
    Some(Duration::try_from(left).unwrap_or_default())
}
