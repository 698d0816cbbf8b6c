//! Where tokens come from: settings that were checked, and how one is fetched.

use crate::aws::{Aws, AwsSettings, Signer};
use crate::azure::{Azure, AzureSettings};
use crate::client::Client;
use crate::command::{Command, CommandSettings};
use crate::error::{FetchError, FetchFault};
use crate::google::{Google, GoogleSettings};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tollgate_settings::{Environment, Fault, KeyPath, Secret, SecretSource};

/// The environment in which a source is built.
pub struct Building<'a> {
    /// Where secrets and files are looked up.
    pub environment: &'a dyn Environment,
    /// The folder from which relative paths at a place are taken.
    pub folder: &'a dyn Fn(&KeyPath) -> PathBuf,
    /// Takes every fault.
    pub faults: &'a mut Vec<Fault>,
}

impl Building<'_> {
    pub(crate) fn fault(&mut self, at: &KeyPath, message: impl Into<String>) {
        self.faults.push(at.fault(message));
    }

    /// The source with a path that does not depend on the folder.
    pub(crate) fn located(&self, source: &SecretSource, at: &KeyPath) -> SecretSource {
        match source {
            SecretSource::File(path) => SecretSource::File((self.folder)(at).join(path)),
            SecretSource::Env(_) => source.clone(),
        }
    }

    /// A secret of one line.
    pub(crate) fn secret(&mut self, source: &SecretSource, at: &KeyPath) -> Option<Secret> {
        let folder = (self.folder)(at);
        let secret = source.resolve(self.environment, &folder);
        secret
            .map_err(|cause| self.fault(at, cause.to_string()))
            .ok()
    }

    /// A whole file, or what an environment variable has of it.
    pub(crate) fn document(&mut self, source: &SecretSource, at: &KeyPath) -> Option<Secret> {
        let folder = (self.folder)(at);
        let text = source.text(self.environment, &folder);
        text.map_err(|cause| self.fault(at, cause.to_string())).ok()
    }

    /// An object of JSON. The fault names a position and nothing of the content.
    pub(crate) fn json(
        &mut self,
        text: &Secret,
        at: &KeyPath,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        match serde_json::from_str(text.expose()) {
            Ok(serde_json::Value::Object(object)) => Some(object),
            Ok(_) => {
                self.fault(at, "expected a file with a JSON object");
                None
            }
            Err(cause) => {
                let (line, column) = (cause.line(), cause.column());
                let message =
                    format!("expected a file of JSON; line {line}, column {column} is not");
                self.fault(at, message);
                None
            }
        }
    }
}

/// Where tokens come from. `Debug` shows the kind alone.
pub struct Source {
    kind: Kind,
    settings: String,
    secrets: Vec<Secret>,
}

enum Kind {
    Aws(Aws),
    Google(Box<Google>),
    Azure(Azure),
    Command(Command),
}

impl Source {
    /// Whether its tokens sign requests.
    pub const fn signs(&self) -> bool {
        matches!(self.kind, Kind::Aws(_))
    }

    /// Checks the settings of Google.
    pub fn google(
        settings: &GoogleSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let mut secrets = Vec::new();
        let google = Google::build(settings, at, building, &mut secrets)?;
        Some(Self::new(Kind::Google(Box::new(google)), settings, secrets))
    }

    /// Checks the settings of Azure.
    pub fn azure(
        settings: &AzureSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let mut secrets = Vec::new();
        let azure = Azure::build(settings, at, building, &mut secrets)?;
        Some(Self::new(Kind::Azure(azure), settings, secrets))
    }

    /// Checks the settings of a command.
    pub fn command(
        settings: &CommandSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let command = Command::build(settings, at, building)?;
        Some(Self::new(Kind::Command(command), settings, Vec::new()))
    }

    /// Keys of AWS that are fetched.
    pub(crate) fn aws(aws: Aws, settings: &AwsSettings, secrets: Vec<Secret>) -> Self {
        Self::new(Kind::Aws(aws), settings, secrets)
    }

    fn new(kind: Kind, settings: &impl Serialize, secrets: Vec<Secret>) -> Self {
        Self {
            kind,
            // Settings are strings, numbers and switches: nothing of them cannot be written.
            settings: serde_json::to_string(settings).unwrap_or_default(),
            secrets,
        }
    }

    /// Why it cannot give tokens now, as far as this machine shows: a program or a file that is missing.
    /// Reads the file, runs nothing.
    pub fn obstacle(&self, environment: &dyn Environment) -> Option<Obstacle> {
        let (setting, file) = match &self.kind {
            Kind::Aws(aws) => aws.file()?,
            Kind::Google(google) => (["google", "workload_identity"], google.file()?),
            Kind::Azure(azure) => (["azure", "federated_token_file"], azure.file()?),
            Kind::Command(command) => return command.obstacle(),
        };
        let missing = file.text(environment, "".as_ref()).err()?;
        Some(Obstacle {
            setting,
            message: format!("no token can be fetched now: {missing}"),
            is_lasting: false,
        })
    }

    pub(crate) async fn fetch(&self, tools: &Tools) -> Result<Fetched, FetchError> {
        match &self.kind {
            Kind::Aws(aws) => aws.fetch(tools).await,
            Kind::Google(google) => google.fetch(tools).await,
            Kind::Azure(azure) => azure.fetch(tools).await,
            Kind::Command(command) => command.fetch().await,
        }
    }
}

/// Equal sources log in as the same account with the same secrets.
impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
            && (&self.settings, &self.secrets) == (&other.settings, &other.secrets)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Aws(_) => "Aws",
            Kind::Google(_) => "Google",
            Kind::Azure(_) => "Azure",
            Kind::Command(_) => "Command",
        })
    }
}

/// What prevents a source from giving tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The keys of its setting, below those of the credential.
    pub setting: [&'static str; 2],
    /// What is missing.
    pub message: String,
    /// Whether it is there until an operator acts. Otherwise the gateway may see more than this process, or
    /// another program may write the file later.
    pub is_lasting: bool,
}

/// A token or keys, and how long they are valid from now on.
pub(crate) struct Fetched {
    pub(crate) grant: Grant,
    pub(crate) lifetime: Duration,
}

impl Fetched {
    pub(crate) const fn token(token: Secret, lifetime: Duration) -> Self {
        let grant = Grant::Token(token);
        Self { grant, lifetime }
    }
}

/// The proof that a service grants.
pub(crate) enum Grant {
    /// A token, which a header carries.
    Token(Secret),
    /// Keys, which requests are signed with.
    Keys(Signer),
}

/// The means of fetching.
pub(crate) struct Tools {
    pub(crate) client: Client,
    pub(crate) environment: Arc<dyn Environment + Send + Sync>,
}

impl Tools {
    /// The content of a file that others write anew while the gateway runs.
    pub(crate) async fn document(&self, source: &SecretSource) -> Result<Secret, FetchError> {
        let (environment, source) = (Arc::clone(&self.environment), source.clone());
        let read = move || source.text(&*environment, "".as_ref());
        let local = |cause: String| FetchError::new(FetchFault::Local, cause);
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(|_| local("a file could not be read".to_owned()))?;
        read.map_err(|cause| local(cause.to_string()))
    }
}
