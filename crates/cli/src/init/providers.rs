//! The ready files of providers that the program brings along: those of `conf/providers`.

/// A provider with a ready file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadyFile {
    /// The name of the file, without `.yaml`, and of the provider in it.
    pub(super) name: &'static str,
    /// The file.
    pub(super) text: &'static str,
}

macro_rules! ready_files {
    ($($name:literal),* $(,)?) => {
        &[$(ReadyFile {
            name: $name,
            text: include_str!(concat!("../../../../conf/providers/", $name, ".yaml")),
        }),*]
    };
}

/// All of them, by name.
pub(super) const READY_FILES: &[ReadyFile] = ready_files![
    "anthropic",
    "azure-openai",
    "bedrock",
    "bedrock-runtime",
    "cohere",
    "deepseek",
    "fireworks",
    "gemini",
    "groq",
    "llama-cpp",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
    "sglang",
    "together",
    "vertex",
    "vllm",
    "xai",
];

impl ReadyFile {
    /// The environment variable with the credential; `None` if the provider needs none.
    pub(super) fn variable(&self) -> Option<&'static str> {
        let (_, rest) = self.text.split_once("env:")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest.get(..end.unwrap_or(rest.len()))
    }

    /// Whether the address in the file stands for one that each account has of its own.
    pub(super) fn needs_address(&self) -> bool {
        self.example_address().is_some()
    }

    /// An example of such an address.
    pub(super) fn example_address(&self) -> Option<String> {
        let mut lines = self
            .text
            .lines()
            .filter_map(|it| it.split_once("address: "));
        let (_, address) = lines.find(|(_, address)| address.contains("your-"))?;
        Some(address.replace("your-", "my-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_ready_file_is_brought_along() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/providers");
        let files = folder.read_dir().unwrap();
        let files: BTreeSet<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let known: BTreeSet<_> = READY_FILES
            .iter()
            .map(|file| format!("{}.yaml", file.name))
            .collect();
        assert_eq!(files, known);
        assert!(READY_FILES.is_sorted_by_key(|file| file.name));
    }

    #[test]
    fn a_file_says_which_variable_it_reads_and_whether_its_address_is_one() {
        let of = |name| READY_FILES.iter().find(|it| it.name == name).unwrap();
        assert_eq!(of("openai").variable(), Some("OPENAI_API_KEY"));
        assert_eq!(of("bedrock").variable(), Some("AWS_BEARER_TOKEN_BEDROCK"));
        assert_eq!(of("ollama").variable(), None);
        let without: Vec<_> = READY_FILES
            .iter()
            .filter(|file| file.needs_address())
            .collect();
        assert_eq!(without, [of("azure-openai"), of("vertex")]);
        for file in READY_FILES {
            let provider = format!("\nproviders:\n  {}:\n", file.name);
            assert!(file.text.contains(&provider), "{}", file.name);
            assert!(
                file.text.matches("env:").count() < 2,
                "{}: one variable",
                file.name
            );
        }
    }
}
