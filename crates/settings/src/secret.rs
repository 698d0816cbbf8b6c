//! Secrets: where a configuration says they are, and the value that never shows itself.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    borrow::Cow,
    env::VarError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A secret value. It has no `Display`; `Debug` and `Serialize` write `[redacted]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    const REDACTED: &'static str = "[redacted]";

    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself. The caller must not show it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::REDACTED)
    }
}

/// Why a secret could not be had. Never holds the secret or any part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Text that says neither where the secret is.
    #[error(
        "expected env:NAME or file:PATH, so that the secret itself does not stand in this file"
    )]
    Literal,
    /// The environment has no such variable.
    #[error("the environment variable {0} is not set")]
    UnsetVariable(String),
    /// The variable is set to bytes that are no text.
    #[error("the environment variable {0} is not valid UTF-8")]
    VariableNotText(String),
    /// The variable or file is there and holds nothing.
    #[error("the secret in {0} is empty")]
    Empty(String),
    /// The file cannot be read.
    #[error("the file {path} cannot be read: {cause}")]
    Unreadable {
        /// The file, as looked for.
        path: String,
        /// The message of the system.
        cause: String,
    },
    /// The value cannot be sent in a header.
    #[error("the secret in {0} contains a line break or another control character")]
    Control(String),
}

/// Where secrets are looked up. Tests and embedders bring their own.
pub trait Environment {
    /// The environment variable `name`, where set.
    fn variable(&self, name: &str) -> Option<String>;

    /// Whether the environment variable `name` is set to bytes that are not UTF-8.
    fn is_not_text(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Reads a file of at most `max_bytes`. The caller resolves relative paths.
    ///
    /// # Errors
    /// Whatever the system says; a longer file is refused.
    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;

    /// The same where it is text.
    ///
    /// # Errors
    /// As [`Environment::read_bytes`]; what is not UTF-8 is refused too.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<String> {
        let bytes = self.read_bytes(path, max_bytes)?;
        // Without the bytes, which the error would bring along.
        String::from_utf8(bytes).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "stream did not contain valid UTF-8",
            )
        })
    }
}

/// The environment and the file system of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn is_not_text(&self, name: &str) -> bool {
        matches!(std::env::var(name), Err(VarError::NotUnicode(_)))
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        use io::Read;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?.take(max_bytes.saturating_add(1));
        let read = io::BufReader::new(file).read_to_end(&mut bytes)?;
        if u64::try_from(read).unwrap_or(u64::MAX) > max_bytes {
            let message = format!("it is longer than {max_bytes} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(bytes)
    }
}

/// Where a secret is to be had: `env:NAME` or `file:PATH`. The secret itself never
/// stands in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file; one line break at its end is not part of the secret.
    File(PathBuf),
}

impl SecretSource {
    /// No secret that a provider or an operator uses is longer.
    const MAX_FILE_BYTES: u64 = 64 * 1024;

    /// Reads `env:NAME` or `file:PATH`.
    ///
    /// # Errors
    /// [`SecretError::Literal`] for any other text, without repeating it.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(SecretError::Literal),
        }
    }

    /// Fetches the secret. A relative file path is taken from `folder`.
    ///
    /// # Errors
    /// When it is absent, unreadable, empty or cannot stand in a header.
    pub fn resolve(
        &self,
        environment: &dyn Environment,
        folder: &Path,
    ) -> Result<Secret, SecretError> {
        let text = self.text(environment, folder)?;
        let value = text.expose();
        let value = value.strip_suffix('\n').unwrap_or(value);
        let value = value.strip_suffix('\r').unwrap_or(value);
        if value.is_empty() {
            return Err(SecretError::Empty(self.to_string()));
        }
        if value.chars().any(char::is_control) {
            return Err(SecretError::Control(self.to_string()));
        }
        Ok(Secret::new(value))
    }

    /// Fetches a secret of any number of lines, such as a file with a key, as it is. A relative file path is
    /// taken from `folder`.
    ///
    /// # Errors
    /// When it is absent, unreadable or empty.
    pub fn text(
        &self,
        environment: &dyn Environment,
        folder: &Path,
    ) -> Result<Secret, SecretError> {
        let text = match self {
            Self::Env(name) => match environment.variable(name) {
                Some(text) => text,
                None if environment.is_not_text(name) => {
                    return Err(SecretError::VariableNotText(name.clone()));
                }
                None => return Err(SecretError::UnsetVariable(name.clone())),
            },
            Self::File(path) => {
                let path = folder.join(path);
                environment
                    .read(&path, Self::MAX_FILE_BYTES)
                    .map_err(|cause| SecretError::Unreadable {
                        path: path.display().to_string(),
                        cause: cause.to_string(),
                    })?
            }
        };
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if text.trim().is_empty() {
            return Err(SecretError::Empty(self.to_string()));
        }
        Ok(Secret::new(text))
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Serialize for SecretSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for SecretSource {
    fn schema_name() -> Cow<'static, str> {
        "SecretSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "secret",
            "description": "The source of a secret: env:NAME or file:PATH.",
            "type": "string",
            "pattern": "^(env|file):.+$",
            "writeOnly": true,
            "x-expected": "env:NAME or file:PATH, so that the secret itself does not stand in this file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_in_no_output() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"[redacted]\"");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_secret_written_into_the_file_is_refused_and_not_repeated() {
        for text in ["hunter2", "env:", "file:", "", "ENV:X"] {
            let fault = serde_json::from_value::<SecretSource>(text.into()).unwrap_err();
            assert!(
                fault.to_string().contains("env:NAME or file:PATH"),
                "{fault}"
            );
            assert!(text.is_empty() || !fault.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_file_gives_its_text_without_the_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["s3cret\r\n", "\u{feff}s3cret\n"] {
            std::fs::write(folder.path().join("key"), text).unwrap();
            let source = SecretSource::parse("file:key").unwrap();
            let secret = source.resolve(&ProcessEnvironment, folder.path()).unwrap();
            assert_eq!(secret.expose(), "s3cret");
        }
    }

    #[test]
    fn a_variable_that_is_no_text_is_not_called_unset() {
        struct Bytes;
        impl Environment for Bytes {
            fn variable(&self, _: &str) -> Option<String> {
                None
            }

            fn is_not_text(&self, name: &str) -> bool {
                name == "BYTES"
            }

            fn read_bytes(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
                Err(io::ErrorKind::NotFound.into())
            }
        }
        let fault = |name: &str| {
            let source = SecretSource::Env(name.to_owned());
            source.text(&Bytes, Path::new("")).unwrap_err().to_string()
        };
        assert_eq!(
            fault("BYTES"),
            "the environment variable BYTES is not valid UTF-8"
        );
        assert_eq!(fault("UNSET"), "the environment variable UNSET is not set");
    }

    #[test]
    fn absent_empty_huge_and_broken_secrets_say_which() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        std::fs::write(folder.path().join("lines"), "hunter2\nhunter3\n").unwrap();
        std::fs::write(folder.path().join("huge"), "x".repeat(70_000)).unwrap();
        for (text, wanted) in [
            ("env:TOLLGATE_TEST_UNSET", "TOLLGATE_TEST_UNSET is not set"),
            ("file:absent", "absent cannot be read"),
            ("file:empty", "file:empty is empty"),
            ("file:lines", "control character"),
            ("file:huge", "longer than 65536 bytes"),
        ] {
            let fault = SecretSource::parse(text)
                .unwrap()
                .resolve(&ProcessEnvironment, folder.path())
                .unwrap_err()
                .to_string();
            assert!(fault.contains(wanted), "{fault}");
            assert!(!fault.contains("hunter"), "{fault}");
        }
    }
}
