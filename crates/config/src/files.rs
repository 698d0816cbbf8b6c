//! From files to one tree: the file named, what it includes, and what the command line
//! puts over it.

use super::{
    faults::{Faults, Located},
    tree::{Node, NodeValue, Position},
    yaml,
};
use serde_json::Value;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tollgate_settings::{Environment, Fault, KeyPath};

/// Longer than any configuration that a person keeps.
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_FILES: usize = 64;
const INCLUDE: &str = "include";

/// A value that replaces the one in the file, as `--set server.threads=4` does.
#[derive(Clone, Debug)]
pub struct Override {
    /// Where it goes.
    pub path: KeyPath,
    /// The value for that place.
    pub value: Value,
}

/// Reads `path` with everything that it includes.
pub(super) fn read(path: &Path, environment: &dyn Environment) -> Result<Node, Faults> {
    let mut files = Files {
        environment,
        open: Vec::new(),
        read: 0,
    };
    files.read(path)
}

/// That a file cannot be read.
pub(super) fn unreadable(path: &Path, cause: &io::Error) -> Located {
    let position = whole(path.display().to_string());
    located(position, format!("the file cannot be read: {cause}"))
}

/// Takes `text` for the file `path`; what it includes is read.
pub(super) fn read_text(
    text: &str,
    path: &Path,
    environment: &dyn Environment,
) -> Result<Node, Faults> {
    let mut files = Files {
        environment,
        open: Vec::new(),
        read: 1,
    };
    files.parse(text, path)
}

/// Puts the overrides over the tree, each at a position that names it.
pub(super) fn apply(tree: &mut Node, overrides: &[Override]) -> Result<(), Faults> {
    let mut faults = Faults::default();
    for Override { path, value } in overrides {
        let position = whole(format!("override of {path}"));
        let node = Node::from_value(value.clone(), &position);
        if !tree.set(path.segments(), node) {
            let message = "there is no such place in the configuration";
            faults.push(located(position, message));
        }
    }
    faults.none()
}

struct Files<'a> {
    environment: &'a dyn Environment,
    /// Those that include the one being read.
    open: Vec<PathBuf>,
    read: usize,
}

impl Files<'_> {
    fn read(&mut self, path: &Path) -> Result<Node, Faults> {
        self.read = self.read.saturating_add(1);
        let text = self
            .environment
            .read(path, MAX_FILE_BYTES)
            .map_err(|cause| {
                let mut faults = Faults::default();
                faults.push(unreadable(path, &cause));
                faults
            })?;
        self.parse(&text, path)
    }

    fn parse(&mut self, text: &str, path: &Path) -> Result<Node, Faults> {
        let name: Arc<str> = path.display().to_string().into();
        let mut tree = yaml::parse(text, &name)?;
        match tree.value {
            // An empty file, or one of comments alone.
            NodeValue::Scalar(Value::Null) => tree.value = NodeValue::Mapping(Vec::new()),
            NodeValue::Mapping(_) => {}
            _ => {
                return Err(one(
                    tree.position,
                    "a configuration is a mapping of sections",
                ));
            }
        }
        let Some(included) = tree.take(INCLUDE) else {
            return Ok(tree);
        };
        self.open.push(path.to_owned());
        let base = self.include(&included, path);
        self.open.pop();
        Ok(match base? {
            Some(base) => tree.over(base),
            None => tree,
        })
    }

    /// Reads the files of `include`; a later file lies over an earlier one.
    fn include(&mut self, included: &Node, path: &Path) -> Result<Option<Node>, Faults> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let names = match &included.value {
            NodeValue::Sequence(items) => items.iter().collect(),
            _ => vec![included],
        };
        let mut base: Option<Node> = None;
        let mut faults = Faults::default();
        for node in names {
            let NodeValue::Scalar(Value::String(name)) = &node.value else {
                faults.push(include_fault(
                    &node.position,
                    "expected the name of a file, or a list of them",
                ));
                continue;
            };
            let file = folder.join(name);
            if self.open.contains(&file) {
                let message = format!("'{name}' includes this file in turn");
                faults.push(include_fault(&node.position, message));
                continue;
            }
            if self.read >= MAX_FILES {
                let message = format!("more than {MAX_FILES} files");
                faults.push(include_fault(&node.position, message));
                break;
            }
            match self.read(&file) {
                Ok(tree) => {
                    base = Some(match base {
                        Some(lower) => tree.over(lower),
                        None => tree,
                    });
                }
                Err(inner) => faults.extend(inner.iter().cloned().map(|fault| {
                    // A missing file is best reported at the setting that names it.
                    if fault.position.line == 0 {
                        let message = format!("{}: {}", fault.position.file, fault.fault.message);
                        return include_fault(&node.position, message);
                    }
                    fault
                })),
            }
        }
        faults.none().map(|()| base)
    }
}

fn include_fault(position: &Position, message: impl Into<String>) -> Located {
    Located {
        position: position.clone(),
        fault: KeyPath::root().key(INCLUDE).fault(message),
    }
}

fn located(position: Position, message: impl Into<String>) -> Located {
    Located {
        position,
        fault: Fault {
            path: KeyPath::root(),
            message: message.into(),
        },
    }
}

fn one(position: Position, message: impl Into<String>) -> Faults {
    let mut faults = Faults::default();
    faults.push(located(position, message));
    faults
}

/// Something as a whole rather than a place in it.
fn whole(name: String) -> Position {
    Position {
        file: name.into(),
        line: 0,
        column: 0,
    }
}
