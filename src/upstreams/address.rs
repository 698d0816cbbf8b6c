//! The addresses of a provider, in rotation. An unreachable address comes last for 30 seconds.

use pingora_core::protocols::l4::socket::SocketAddr as PeerAddress;
use pingora_core::upstreams::peer::HttpPeer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How long an unreachable address comes last, in milliseconds. The provider's breaker covers all addresses.
const REST_MS: u64 = 30_000;

/// One address, ready to connect to.
pub(super) struct Address {
    peer: HttpPeer,
    address: SocketAddr,
    rests_until: AtomicU64,
}

impl Address {
    pub(super) fn new(template: &HttpPeer, address: SocketAddr) -> Arc<Self> {
        let mut peer = template.clone();
        peer._address = PeerAddress::Inet(address);
        Arc::new(Self {
            peer,
            address,
            rests_until: AtomicU64::new(0),
        })
    }

    /// Where it is.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The peer to connect to; `None` if there is no address.
    pub(super) fn choose<'a>(
        all: &'a [Arc<Self>],
        turn: &AtomicUsize,
        now: u64,
    ) -> Option<&'a HttpPeer> {
        if let [only] = all {
            return Some(&only.peer);
        }
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        let (behind, ahead) = all.split_at_checked(turn.checked_rem(all.len())?)?;
        let in_turn = || ahead.iter().chain(behind);
        let rest = |it: &&Arc<Self>| match it.rests_until.load(Ordering::Relaxed) {
            until if until <= now => 0,
            until => until,
        };
        in_turn().min_by_key(rest).map(|it| &it.peer)
    }

    /// Tries the address of a peer last for half a minute. Returns whether another address was not found unreachable
    /// at `since` or later.
    pub(super) fn rest(all: &[Arc<Self>], peer: &HttpPeer, since: u64, now: u64) -> bool {
        for it in all.iter().filter(|it| it.peer._address == peer._address) {
            let until = now.saturating_add(REST_MS);
            it.rests_until.store(until, Ordering::Relaxed);
        }
        let mut rests = all.iter().map(|it| it.rests_until.load(Ordering::Relaxed));
        rests.any(|until| until < since.saturating_add(REST_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "an address in numbers resolves to itself"
    )]
    fn addresses(count: u16) -> Vec<Arc<Address>> {
        let template = HttpPeer::new(("127.0.0.1", 1), false, String::new());
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let all = (1..=count).map(|port| Address::new(&template, address(port)));
        all.collect()
    }

    fn next(all: &[Arc<Address>], turn: &AtomicUsize, now: u64) -> String {
        let peer = Address::choose(all, turn, now).unwrap();
        peer._address.to_string()
    }

    #[test]
    fn addresses_are_used_in_turn_and_one_that_refuses_last_for_a_while() {
        let (all, turn) = (addresses(3), AtomicUsize::new(0));
        let ports = |now, count: usize| -> Vec<String> {
            let all = (0..count).map(|_| next(&all, &turn, now));
            all.map(|it| it.rsplit(':').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(ports(1, 4), ["1", "2", "3", "1"]);
        let refusing = Address::choose(&all, &AtomicUsize::new(1), 1).unwrap();
        assert!(Address::rest(&all, refusing, 1, 1), "two others are left");
        assert_eq!(ports(2, 6), ["3", "3", "1", "3", "3", "1"]);
        assert!(ports(2 + REST_MS, 3).contains(&"2".to_owned()));
        let left: Vec<bool> = all
            .iter()
            .map(|it| Address::rest(&all, &it.peer, 10, 10))
            .collect();
        assert_eq!(
            left,
            [true, true, false],
            "what refused before is tried again"
        );
        assert_eq!(ports(11, 1).len(), 1, "an address is tried all the same");
    }

    #[test]
    fn without_an_address_there_is_no_peer() {
        assert!(Address::choose(&[], &AtomicUsize::new(0), 1).is_none());
    }
}
