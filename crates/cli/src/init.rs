//! `tollgate init`: writes a configuration for providers that the program has ready files of.
//!
//! The configuration names environment variables; no secret passes through this command. It is checked
//! as `tollgate check` does before any file is written.

mod providers;

use super::partial::Partial;
use super::{ConfigFile, Failure, Outcome, note, print};
use clap::Args;
use providers::{READY_FILES, ReadyFile};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use tollgate_config::{ListenAddress, Loader};
use tollgate_settings::{Environment, ProcessEnvironment, did_you_mean};

/// The folder of the providers' files, beside the configuration.
const FOLDER: &str = "providers";

/// The arguments of `init`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// A provider to use; repeat for several. NAME is anthropic, azure-openai, bedrock, bedrock-runtime, cohere,
    /// deepseek, fireworks, gemini, groq, llama-cpp, mistral, ollama, openai, openrouter, sglang,
    /// together, vertex, vllm or xai. Give an ADDRESS if the provider is not at its usual one. Default: the
    /// command asks, if standard input is a terminal.
    #[arg(long = "provider", value_name = "NAME[=ADDRESS]")]
    providers: Vec<String>,
    /// The address on which clients are served.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: ListenAddress,
    /// The address of the operator port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080", value_parser = address)]
    admin_listen: ListenAddress,
    /// The file for keys and usage.
    #[arg(long, value_name = "FILE", default_value = "tollgate.db")]
    store: PathBuf,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
}

fn address(text: &str) -> Result<ListenAddress, String> {
    let expected = "expected an IP address and a port such as 127.0.0.1:8080";
    text.parse::<std::net::SocketAddr>()
        .map(ListenAddress::from)
        .map_err(|_| expected.to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let choices = if !arguments.providers.is_empty() {
        let choices = arguments.providers.iter().map(|text| Choice::parse(text));
        choices.collect::<Result<Vec<_>, _>>()?
    } else if io::stdin().is_terminal() {
        ask(&mut io::stdin().lock())?
    } else {
        return Err(format!(
            "no provider is given: name each with --provider ({})",
            names()
        )
        .into());
    };
    let plan = Plan::new(arguments, choices)?;
    plan.check()?;
    plan.write(arguments.force)?;
    print(plan.next_steps()?)
}

fn names() -> String {
    let names: Vec<_> = READY_FILES.iter().map(|file| file.name).collect();
    names.join(", ")
}

/// A provider that the operator has chosen.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    file: &'static ReadyFile,
    /// Instead of the one in the file.
    address: Option<String>,
}

impl Choice {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (name, Some(address)),
            None => (text, None),
        };
        let file = READY_FILES.iter().find(|file| file.name == name);
        let known = READY_FILES.iter().map(|file| file.name);
        let file = file.ok_or_else(|| match did_you_mean(name, known) {
            Some(near) => format!("no provider '{name}'; did you mean '{near}'?"),
            None => format!("no provider '{name}'; known are {}", names()),
        })?;
        if address.is_none_or(str::is_empty)
            && let Some(example) = file.example_address()
        {
            return Err(format!(
                "the provider {name} needs the address of your resource: \
                 --provider {name}={example}"
            ));
        }
        Ok(Self {
            file,
            address: address.filter(|it| !it.is_empty()).map(str::to_owned),
        })
    }
}

/// Asks for providers until all of the answers can be used.
fn ask(input: &mut dyn BufRead) -> Result<Vec<Choice>, Failure> {
    loop {
        note(format_args!("Ready providers: {}", names()));
        let line = prompt(input, "Which ones? (names, separated by spaces)")?;
        let named = line.split([' ', ',', '\t']).filter(|name| !name.is_empty());
        let chosen: Result<Vec<_>, String> = named
            .map(|name| {
                let file = READY_FILES.iter().find(|file| file.name == name);
                match file {
                    Some(file) if file.needs_address() => {
                        let question = format!("The address of your resource at {name}?");
                        let address = prompt(input, &question)?;
                        Choice::parse(&format!("{name}={address}"))
                    }
                    _ => Choice::parse(name),
                }
            })
            .collect();
        match chosen {
            Ok(chosen) if chosen.is_empty() => note("name one provider at least, or Ctrl-C"),
            Ok(chosen) => return Ok(chosen),
            Err(fault) => note(fault),
        }
    }
}

fn prompt(input: &mut dyn BufRead, question: &str) -> Result<String, String> {
    // On standard error, so that the next steps alone are on standard output.
    let _ = write!(io::stderr(), "{question} ");
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) => Err("the input ended before an answer".to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(fault) => Err(format!("the answer cannot be read: {fault}")),
    }
}

/// The files to write.
struct Plan {
    config: PathBuf,
    /// By path, the configuration last: nothing names a file that is not written yet.
    files: Vec<(PathBuf, String)>,
    variables: Vec<&'static str>,
}

impl Plan {
    fn new(arguments: &Arguments, mut choices: Vec<Choice>) -> Result<Self, String> {
        choices.sort_by_key(|choice| choice.file.name);
        for pair in choices.windows(2) {
            if let [one, other] = pair
                && one.file == other.file
            {
                return Err(format!("the provider {} is given twice", one.file.name));
            }
        }
        let config = arguments.config.path.clone();
        let folder = config.parent().unwrap_or(Path::new("")).join(FOLDER);
        let file = |choice: &Choice| {
            let path = folder.join(format!("{}.yaml", choice.file.name));
            (path, choice.file.text.to_owned())
        };
        let mut files: Vec<_> = choices.iter().map(file).collect();
        files.push((config.clone(), text(arguments, &choices)));
        let mut variables = Vec::new();
        for variable in choices.iter().filter_map(|choice| choice.file.variable()) {
            // Two files may have the same credential.
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        }
        Ok(Self {
            config,
            files,
            variables,
        })
    }

    /// Checks the files as they will be, with any secret.
    fn check(&self) -> Outcome {
        let files = self.files.iter();
        let planned = Planned(files.map(|(path, text)| (&**path, &**text)).collect());
        Loader::new(&planned).load(&self.config)?;
        Ok(())
    }

    fn write(&self, force: bool) -> Outcome {
        let unchanged = |(path, text): &&(PathBuf, String)| {
            fs::read(path).is_ok_and(|found| found == text.as_bytes())
        };
        let existing: Vec<_> = self
            .files
            .iter()
            .filter(|it| it.0.symlink_metadata().is_ok() && !unchanged(it))
            .map(|(path, _)| path.display().to_string())
            .collect();
        let mut paths = self.files.iter().map(|(path, _)| path);
        if let Some(path) = paths.find(|it| it.metadata().is_ok_and(|it| !it.is_file())) {
            // A device would be replaced.
            return Err(format!("{} is not a regular file", path.display()).into());
        }
        if !force && !existing.is_empty() {
            return Err(format!(
                "{} exists: choose another file with --config, or overwrite with --force",
                existing.join(", ")
            )
            .into());
        }
        for (path, text) in self.files.iter().filter(|it| !unchanged(it)) {
            write_private(path, text)
                .map_err(|fault| format!("{} cannot be written: {fault}", path.display()))?;
        }
        Ok(())
    }

    fn next_steps(&self) -> io::Result<String> {
        let written: Vec<_> = self
            .files
            .iter()
            .map(|(path, _)| path.display().to_string())
            .collect();
        let by_name = std::env::var_os("TOLLGATE_CONFIG").is_some_and(|it| it == *self.config);
        let option = match self.config.to_str() {
            Some("tollgate.yaml") => String::new(),
            _ if by_name => String::new(),
            _ => format!(" --config {}", quoted(&self.config.to_string_lossy())),
        };
        if self.config.with_file_name("environment").exists() {
            return self.next_steps_of_the_package(&written.join(", "));
        }
        let mut text = format!(
            "wrote {}\n\n\
             Create the two secrets of the gateway once, and keep them:\n  \
             (umask 077; openssl rand -hex 32 > pepper; openssl rand -hex 32 > admin.token)\n\n\
             Export the variables that the configuration names, here and for the service:\n  \
             export TOLLGATE_PEPPER=\"$(cat pepper)\"\n  \
             export TOLLGATE_ADMIN_TOKEN=\"$(cat admin.token)\"\n",
            written.join(", ")
        );
        for variable in &self.variables {
            let _ = writeln!(text, "  export {variable}=...");
        }
        let _ = write!(
            text,
            "\nThen:\n  tollgate check{option}\n  \
             tollgate keys create \"my app\" --plan pro{option}\n  tollgate serve{option}\n"
        );
        Ok(text)
    }

    /// The same where a package has made the secrets, the user and the service. systemd runs commands
    /// in another folder.
    fn next_steps_of_the_package(&self, written: &str) -> io::Result<String> {
        let file = std::path::absolute(&self.config)?;
        let word = |path: &Path| quoted(&path.to_string_lossy());
        let config = word(&file);
        let secrets = word(&file.with_file_name("environment"));
        let providers = word(&file.with_file_name(FOLDER));
        let mut text = format!("wrote {written}\n\nThe secrets of the gateway are in {secrets}.");
        if !self.variables.is_empty() {
            text.push_str(" Add a line for each provider:\n");
            for variable in &self.variables {
                let _ = writeln!(text, "  {variable}=...");
            }
        } else {
            text.push('\n');
        }
        let _ = write!(
            text,
            "\nThen, as root:\n  chmod -R g+rX {config} {providers}\n  \
             systemctl enable --now tollgate\n\n\
             Other commands run as the service does, for example:\n  \
             systemd-run -qP --uid=tollgate -p EnvironmentFile={secrets} \
             tollgate keys create \"my app\" --plan pro --config {config}\n"
        );
        Ok(text)
    }
}

/// The configuration.
fn text(arguments: &Arguments, choices: &[Choice]) -> String {
    let mut text = "\
# Written by `tollgate init`. `tollgate check` reports every fault; docs/reference/configuration.md lists
# every key. Secrets never stand in this file: `env:` names a variable, `file:` a file.

# Each file has a provider with its models and prices. What is given here replaces what is there.
include:
"
    .to_owned();
    // Writing to a string cannot fail.
    for choice in choices {
        let _ = writeln!(text, "  - {FOLDER}/{}.yaml", choice.file.name);
    }
    let store = arguments.store.to_string_lossy();
    let _ = write!(
        text,
        "\nserver:\n  listen:\n    - address: \"{}\"           # for clients\n\n\
         admin:\n  listen: \"{}\"                # for operators\n  \
         token: env:TOLLGATE_ADMIN_TOKEN\n\n\
         store:\n  path: {}                # keys and usage\n\n\
         keys:\n  # API keys are hashed under it. Keep it: with another one the gateway does not start.\n  \
         pepper: env:TOLLGATE_PEPPER\n",
        arguments.listen,
        arguments.admin_listen,
        in_yaml(&store),
    );
    let mut moved = choices
        .iter()
        .filter_map(|choice| choice.address.as_ref().map(|it| (choice.file.name, it)))
        .peekable();
    if moved.peek().is_some() {
        text.push_str("\nproviders:\n");
    }
    for (name, address) in moved {
        let _ = writeln!(text, "  {name}: {{ address: {} }}", in_yaml(address));
    }
    text.push_str(
        "\nplans:\n  # A key without tokens gets 402. `limits` and `groups` can be set, too.\n  \
         pro: { tokens: 10M, validity: 30d }\n",
    );
    text
}

/// A text as a string of JSON, which YAML reads as well.
fn in_yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Writes a file that its owner alone can read, in one step, so that a gateway never reads a part of it.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|it| it.ends_with(FOLDER)) {
        match fs::create_dir(folder) {
            Err(fault) if fault.kind() != ErrorKind::AlreadyExists => return Err(fault),
            _ => {}
        }
    }
    let mut file = Partial::of(path)?;
    file.write_all(text.as_bytes())?;
    file.complete()
}

/// The files as they will be, and a value for every variable.
struct Planned<'a>(BTreeMap<&'a Path, &'a str>);

impl Environment for Planned<'_> {
    fn variable(&self, _: &str) -> Option<String> {
        Some("x".repeat(64))
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        match self.0.get(path) {
            Some(text) => Ok(text.as_bytes().to_owned()),
            None => ProcessEnvironment.read_bytes(path, max_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_until_the_answers_can_be_used() {
        let mut input = "\nopnai\nopenai, azure-openai\nhttps://x.openai.azure.com\n".as_bytes();
        let chosen = ask(&mut input).unwrap_or_else(|_| panic!("it gives up"));
        let chosen: Vec<_> = chosen
            .iter()
            .map(|it| (it.file.name, it.address.as_deref()))
            .collect();
        let azure = Some("https://x.openai.azure.com");
        assert_eq!(chosen, [("openai", None), ("azure-openai", azure)]);
        assert!(ask(&mut "opnai\n".as_bytes()).is_err(), "the input ends");
    }

    #[test]
    fn the_help_names_every_provider() {
        use clap::Args;
        let command = Arguments::augment_args(clap::Command::new("init"));
        let option = command
            .get_arguments()
            .find(|it| it.get_id() == "providers");
        let help = option.unwrap().get_help().unwrap().to_string();
        let words: Vec<_> = help.split([' ', ',', '.']).collect();
        for file in READY_FILES {
            assert!(words.contains(&file.name), "{}", file.name);
        }
    }

    #[test]
    fn a_word_of_a_shell_stays_one() {
        assert_eq!(quoted("etc/tollgate.yaml"), "etc/tollgate.yaml");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
