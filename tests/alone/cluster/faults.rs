//! What goes wrong: a deck of faults, so that a run has each of them, in random order.

/// A fault of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A gateway does not reach the database.
    Partition,
    /// For longer than a lease term: others take its tokens.
    LongPartition,
    /// Packets between a gateway and the database are late or lost.
    Flaky,
    /// The same for the link of the database.
    FlakyDatabase,
    KillNode,
    /// It starts again when others have taken its tokens.
    KillNodeForLong,
    KillDatabase,
    /// A gateway is suspended.
    Stop,
    LongStop,
    /// The primary's machine is gone, and its standby takes over.
    Promote,
}

impl Fault {
    /// Nothing twice in five rounds, and the most important first in a short run.
    const FEW: [Self; 5] = [
        Self::Partition,
        Self::KillNode,
        Self::KillDatabase,
        Self::Promote,
        Self::Stop,
    ];
    const ALL: [Self; 20] = [
        Self::Partition,
        Self::Partition,
        Self::Partition,
        Self::LongPartition,
        Self::Flaky,
        Self::Flaky,
        Self::Flaky,
        Self::FlakyDatabase,
        Self::FlakyDatabase,
        Self::KillNode,
        Self::KillNode,
        Self::KillNode,
        Self::KillNodeForLong,
        Self::KillDatabase,
        Self::KillDatabase,
        Self::Stop,
        Self::Stop,
        Self::Stop,
        Self::LongStop,
        Self::Promote,
    ];

    /// Whether others may take the tokens of a gateway.
    pub fn is_long(self) -> bool {
        matches!(
            self,
            Self::LongPartition | Self::KillNodeForLong | Self::LongStop
        )
    }

    /// The faults of a run: decks one after the other.
    pub fn draw(rounds: usize, random: &mut fastrand::Rng) -> Vec<Self> {
        let mut drawn = Vec::new();
        while drawn.len() < rounds {
            let mut deck = match rounds {
                ..=5 => Self::FEW.to_vec(),
                _ => Self::ALL.to_vec(),
            };
            random.shuffle(&mut deck);
            drawn.extend(deck);
        }
        drawn.truncate(rounds);
        drawn
    }
}
