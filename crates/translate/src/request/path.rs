//! Where in a request something stands, as messages name it: `messages[2].content[0].text`.
//!
//! A path is a chain of steps on the stack and costs nothing until it is written.

use std::fmt;

/// A place in the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    /// The body itself.
    pub(crate) const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    /// A field of the object here.
    pub(crate) const fn field(&'p self, name: &'p str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    /// An element of the array here.
    pub(crate) const fn index(&'p self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }
}

impl Path<'_> {
    /// The place as the [table](crate::table) writes it: `messages[].content[].text`.
    pub(crate) fn place(&self) -> String {
        let mut place = self.parent.map(Self::place).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(name);
            }
            Step::Index(_) => place.push_str("[]"),
        }
        place
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let is_top = matches!(
            self.parent,
            None | Some(Path {
                step: Step::Root,
                ..
            })
        );
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if is_top => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_path_reads_as_one_would_write_it() {
        let messages = Path::ROOT.field("messages");
        let message = messages.index(2);
        let content = message.field("content");
        assert_eq!(
            content.index(0).field("text").to_string(),
            "messages[2].content[0].text"
        );
        assert_eq!(
            content.index(0).field("text").place(),
            "messages[].content[].text"
        );
        assert_eq!(Path::ROOT.to_string(), "");
        assert_eq!(Path::ROOT.place(), "");
    }
}
