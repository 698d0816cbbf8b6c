//! What was learnt, as it is kept: one JSON file beside the ledger's, written as a whole and put
//! in place of the old one.
//!
//! A file and no table: it is no money, it changes with every request and is worth nothing by
//! the row, and the ledger's one writer has better things to do. Two processes on one ledger
//! write the whole in turn; the last one is as good as the other.

use super::{Learnt, Source, learnt::Fits};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_count::Fit;
use tollgate_types::Format;

/// What a file of this program can have at most.
const MOST_BYTES: u64 = 64 << 20;
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    sources: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    model: Arc<str>,
    provider: Arc<str>,
    upstream_model: Arc<str>,
    format: Format,
    text: Fit,
    length: Fit,
}

/// The file that belongs to a ledger's.
pub fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".counts.json");
    name.into()
}

/// What is in a file. What cannot be read is left out, with a line in the log: it is learnt
/// again.
pub fn read(path: &Path) -> Vec<(Source, Learnt)> {
    let kept = match read_text(path) {
        Ok(None) => return Vec::new(),
        Ok(Some(text)) => serde_json::from_str::<Kept>(&text).map_err(io::Error::from),
        Err(fault) => Err(fault),
    };
    match kept {
        Ok(kept) if kept.version == VERSION => {
            let entries = kept.sources.into_iter().map(serde_json::from_value);
            let sound = entries.filter_map(|entry: Result<Entry, _>| {
                entry
                    .map_err(|fault| {
                        log::warn!("{}: an entry is left out: {fault}", path.display())
                    })
                    .ok()
            });
            sound.map(Entry::into_parts).collect()
        }
        Ok(Kept { version, .. }) => {
            log::warn!("{}: version {version} is not known", path.display());
            Vec::new()
        }
        Err(fault) => {
            log::warn!(
                "{}: what was learnt of counts is lost: {fault}",
                path.display()
            );
            Vec::new()
        }
    }
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(fault),
        Ok(data) if data.len() > MOST_BYTES => {
            return Err(io::Error::other("the file is too large to be one of ours"));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some)
}

/// Writes a file anew: whole, or not at all.
///
/// # Errors
///
/// When the disk does not take it; the old one stays.
pub fn write(path: &Path, all: &[(Source, Arc<Learnt>)]) -> io::Result<()> {
    let entries = all.iter().filter_map(|(source, learnt)| {
        let entry = Entry::of(source, learnt.fits());
        (entry.length.reports() > 0).then(|| serde_json::to_value(entry))
    });
    let kept = Kept {
        version: VERSION,
        sources: entries.collect::<Result<_, _>>()?,
    };
    let mut name = path.as_os_str().to_owned();
    // Another process may be writing its own.
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let written =
        write_new(&new, &serde_json::to_vec(&kept)?).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text)?;
    file.sync_data()
}

impl Entry {
    fn of(source: &Source, fits: Fits) -> Self {
        let Fits { text, length } = fits;
        let Source {
            model,
            provider,
            upstream_model,
            format,
        } = source.clone();
        Self {
            model,
            provider,
            upstream_model,
            format,
            text,
            length,
        }
    }

    fn into_parts(self) -> (Source, Learnt) {
        let source = Source {
            model: self.model,
            provider: self.provider,
            upstream_model: self.upstream_model,
            format: self.format,
        };
        let fits = Fits {
            text: self.text,
            length: self.length,
        };
        (source, Learnt::with(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_count::Count;

    fn source(model: &str) -> Source {
        Source {
            model: model.into(),
            provider: "p".into(),
            upstream_model: "m".into(),
            format: Format::Chat,
        }
    }

    fn taught() -> Arc<Learnt> {
        let learnt = Learnt::default();
        for bytes in (1_000..60_000).step_by(500) {
            let count = Count::by_bytes(bytes, 0, false);
            learnt.learn(&count, Some(&count), bytes / 3 + 17);
        }
        Arc::new(learnt)
    }

    #[test]
    fn what_was_learnt_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("tollgate.db"));
        let all = [(source("one"), taught()), (source("two"), Arc::default())];
        write(&path, &all).unwrap();
        write(&path, &all).unwrap();
        let read = read(&path);
        assert_eq!(read.len(), 1, "what has learnt nothing is not worth a line");
        let (found, learnt) = &read[0];
        assert_eq!(found, &source("one"));
        let (kept, was) = (learnt.fits(), all[0].1.fits());
        assert_eq!(learnt.rates(), all[0].1.rates());
        assert_eq!(kept.text.reports(), was.text.reports());
        assert_eq!(kept.text.error_p95(), was.text.error_p95());
        assert!((kept.text.factor() - was.text.factor()).abs() < 1e-9);
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1, "nothing half-written is left");
    }

    #[test]
    fn what_is_broken_is_learnt_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts.json");
        assert!(read(&path).is_empty());
        for text in ["", "{", "[]", r#"{"version":9,"sources":[]}"#] {
            fs::write(&path, text).unwrap();
            assert!(read(&path).is_empty(), "{text}");
        }
        let all = [(source("one"), taught()), (source("two"), taught())];
        write(&path, &all).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"matrix\":[", "\"matrix\":[null,", 1)).unwrap();
        assert_eq!(read(&path).len(), 1, "the other one is sound");
    }
}
