//! Every fault of a configuration, each with its place in a file.

use super::tree::Position;
use std::fmt;
use tollgate_settings::Fault;

/// A fault and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The nearest known position.
    pub position: Position,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Located {
    /// `conf/x.yaml:12:5: models.alpha.deployments[0].provider: no provider 'x'`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { file, line, column } = &self.position;
        if *line == 0 {
            return write!(f, "{file}: {}", self.fault);
        }
        write!(f, "{file}:{line}:{column}: {}", self.fault)
    }
}

/// All faults of a configuration, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Located>);

impl Faults {
    /// No more are listed: a file of another kind would flood the terminal.
    const SHOWN: usize = 100;

    pub(super) fn push(&mut self, fault: Located) {
        self.0.push(fault);
    }

    pub(super) fn extend(&mut self, faults: impl IntoIterator<Item = Located>) {
        self.0.extend(faults);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults, by file, line and column.
    pub fn iter(&self) -> impl Iterator<Item = &Located> {
        let mut faults: Vec<_> = self.0.iter().collect();
        faults.sort_by(|a, b| a.position.cmp(&b.position));
        faults.into_iter()
    }

    /// `Ok` where there is none.
    pub(super) fn none(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Faults {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.iter().take(Self::SHOWN).enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        match self.0.len().saturating_sub(Self::SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}
