//! `tollgate check`: whether the gateway would start with a configuration, and if not, why.

use super::Outcome;
use crate::config::{self, Config};
use crate::server;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What `check` takes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The file.
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let config = config::load(&arguments.file)?;
    server::check(&config)?;
    print!("{}", summary(&arguments.file, &config));
    Ok(())
}

/// What there is, for the operator to compare with what was meant.
fn summary(path: &Path, config: &Config) -> String {
    let catalog = &config.catalog;
    let counts = [
        count(catalog.models().len(), "model"),
        count(catalog.providers().len(), "provider"),
        count(config.plans.len(), "plan"),
        count(config.filters.len(), "filter"),
    ];
    let mut text = format!("{}: no fault ({})\n", path.display(), counts.join(", "));
    if !catalog.unserved().is_empty() {
        let _ = writeln!(
            text,
            "not offered, because no provider serves it: {}",
            catalog.unserved().join(", ")
        );
    }
    text
}

fn count(many: usize, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{many} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loader;
    use std::io;
    use tollgate_settings::{Environment, ProcessEnvironment};

    /// Variables are all set; files are those on disk.
    struct Workshop;

    impl Environment for Workshop {
        fn variable(&self, _: &str) -> Option<String> {
            Some("s3cret".to_owned())
        }

        fn read(&self, path: &Path, max_bytes: u64) -> io::Result<String> {
            ProcessEnvironment.read(path, max_bytes)
        }
    }

    fn told(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
        let config = Loader::new(&Workshop).load(&folder.join(name)).unwrap();
        summary(Path::new(name), &config)
    }

    #[test]
    fn a_good_file_is_summed_up() {
        assert_eq!(
            told("default.yaml"),
            "default.yaml: no fault (44 models, 4 providers, 3 plans, 7 filters)\n"
        );
    }

    #[test]
    fn what_nobody_serves_is_mentioned_and_is_no_fault() {
        let told = told("catalog.yaml");
        let wanted = "not offered, because no provider serves it: alpha-fable-5-1, ";
        assert!(told.contains(wanted), "{told}");
    }
}
