//! What a request was paid with: nearly always one piece of one grant, which takes no memory of
//! its own. A record is put together by the request's thread and dropped by the writer's, and
//! memory that one thread frees for another costs both.

use serde::{Deserialize, Serialize};

/// Pieces of grants, in the order in which they were taken: the grant's number, tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Piece>", into = "Vec<Piece>")]
pub(crate) struct Payments {
    first: Option<Piece>,
    more: Vec<Piece>,
}

type Piece = (i64, u64);

impl Payments {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.first.iter().chain(&self.more)
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()).saturating_add(self.more.len())
    }
}

impl FromIterator<Piece> for Payments {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Self {
        let mut pieces = pieces.into_iter();
        Self {
            first: pieces.next(),
            more: pieces.collect(),
        }
    }
}

impl From<Vec<Piece>> for Payments {
    fn from(pieces: Vec<Piece>) -> Self {
        pieces.into_iter().collect()
    }
}

impl From<Payments> for Vec<Piece> {
    fn from(payments: Payments) -> Self {
        payments.iter().copied().collect()
    }
}
