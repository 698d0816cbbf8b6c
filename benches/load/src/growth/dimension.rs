//! The dimensions: their sizes, and the configuration and the requests of each size.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde::Serialize;

use crate::workload::{SILENT_STREAMS, SMALL, Workload};

/// The pepper of the keys.
pub(super) const PEPPER: &str = "a pepper for a comparison and nothing else";
/// The model that every size has.
pub(super) const FIRST_MODEL: &str = "model-0";
/// The model of streams that keep silent.
pub(super) const SILENT_MODEL: &str = "silent";
/// What the canned provider understands as ten minutes of silence after the first event.
const SILENT: &str = "canned-stream-2x600000";
/// Keys and models among which the requests of one size change.
const MOST_USED: u64 = 4_000;
/// Keys of a ledger with a history.
const HISTORY_KEYS: u64 = 1_000;
/// Keys with open streams: one alone may use half of the open files.
const STREAM_KEYS: u64 = 100;
/// Connections besides those of streams.
const SPARE_CONNECTIONS: u64 = 100;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dimension {
    /// Keys in the ledger.
    Keys,
    /// Models in the configuration, each a family of its own.
    Models,
    /// Deployments of one model, each a provider of its own.
    Deployments,
    /// Records in the ledger.
    History,
    /// Open event streams that keep silent.
    Streams,
}

impl Dimension {
    pub(super) const ALL: [Self; 5] = [
        Self::Keys,
        Self::Models,
        Self::Deployments,
        Self::History,
        Self::Streams,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Models => "models",
            Self::Deployments => "deployments",
            Self::History => "history",
            Self::Streams => "streams",
        }
    }

    /// The sizes, ascending. `open_files` is how many a process may have open: the gateway uses up to
    /// three for each stream, and keeps others for itself.
    pub(super) fn sizes(self, records: u64, open_files: Option<u64>) -> Vec<u64> {
        match self {
            Self::Keys => vec![10, 1_000, 100_000, 1_000_000],
            Self::Models => vec![10, 100, 1_000, 5_000],
            // A model has room for 64.
            Self::Deployments => vec![1, 4, 16, 64],
            Self::History => {
                let tenfold = std::iter::successors(Some(10_000), |size| Some(size * 10));
                let mut sizes: Vec<u64> = tenfold.take_while(|size| *size < records).collect();
                sizes.push(records);
                sizes
            }
            Self::Streams => {
                let most = open_files.unwrap_or(1_024) / 4;
                let most = most.saturating_sub(SPARE_CONNECTIONS).max(10);
                let mut sizes: Vec<u64> =
                    [10, 100, 1_000, 10_000].map(|size| most.min(size)).into();
                sizes.dedup();
                sizes
            }
        }
    }

    /// Whether the data stay in the ledger, so that memory need not grow with them.
    pub(super) const fn is_on_disk(self) -> bool {
        matches!(self, Self::Keys | Self::History)
    }

    /// Addresses of the provider for the largest size.
    pub(super) fn addresses(self, largest: u64) -> usize {
        match self {
            Self::Deployments => usize::try_from(largest).unwrap_or(1),
            _ => 1,
        }
    }

    /// Keys in the ledger.
    pub(super) fn keys(self, size: u64) -> u64 {
        match self {
            Self::Keys => size,
            Self::History => HISTORY_KEYS,
            Self::Streams => STREAM_KEYS,
            _ => 1,
        }
    }

    /// Keys whose requests alternate.
    pub(super) fn used_keys(self, size: u64) -> u64 {
        self.keys(size).min(MOST_USED)
    }

    /// Records in the ledger.
    pub(super) const fn records(self, size: u64) -> u64 {
        match self {
            Self::History => size,
            _ => 0,
        }
    }

    /// Open streams.
    pub(super) const fn streams(self, size: u64) -> u64 {
        match self {
            Self::Streams => size,
            _ => 0,
        }
    }

    fn models(self, size: u64) -> u64 {
        match self {
            Self::Models => size,
            _ => 1,
        }
    }

    /// One request of each key and model in use.
    pub(super) fn requests(self, size: u64, keys: &[String]) -> Vec<Vec<u8>> {
        let models = self.models(size).min(MOST_USED);
        let of_key = |key: &String| {
            let request = |model| SMALL.request_for(&model_name(model), Some(key));
            (0..models).map(request).collect::<Vec<_>>()
        };
        keys.iter().flat_map(of_key).collect()
    }

    /// The configuration of a gateway before a provider at these addresses.
    pub(super) fn configuration(
        self,
        size: u64,
        listen: SocketAddr,
        admin: SocketAddr,
        provider: &[SocketAddr],
    ) -> String {
        let mut yaml = format!(
            "\
server:
  listen: [{{ address: '{listen}' }}]
  threads: 1
  limits: {{ connections: 100000, connections_per_address: null, requests_in_flight: 100000 }}
admin: {{ listen: '{admin}' }}
store: {{ path: tollgate.db }}
keys: {{ pepper: 'literal:{PEPPER}' }}
log: {{ access: stdout }}
plans: {{ plenty: {{ tokens: 1000G, validity: 365d }} }}
providers:
"
        );
        let deployments = match self {
            Self::Deployments => size,
            _ => 1,
        };
        // Writing to a string cannot fail.
        for (number, address) in (0..deployments).zip(provider.iter().cycle()) {
            let _ = writeln!(
                yaml,
                "  canned-{number}: {{ address: 'http://{address}', formats: [chat], timeouts: {{ read: 20m }} }}"
            );
        }
        let deployments: Vec<String> = (0..deployments)
            .map(|number| format!("canned-{number}/{}", SMALL.model))
            .collect();
        let deployments = deployments.join(", ");
        yaml.push_str("families:\n");
        let _ = writeln!(
            yaml,
            "  silent: {{ group: other, deployments: [canned-0/{SILENT}] }}"
        );
        for number in 0..self.models(size) {
            let _ = writeln!(
                yaml,
                "  family-{number}: {{ group: other, deployments: [{deployments}] }}"
            );
        }
        yaml.push_str("models:\n");
        let _ = writeln!(yaml, "  {SILENT_MODEL}: {{ family: silent }}");
        for number in 0..self.models(size) {
            let name = model_name(number);
            let _ = writeln!(yaml, "  {name}: {{ family: family-{number} }}");
        }
        yaml
    }
}

/// What each size is asked.
pub(super) const ASKED: Workload = Workload {
    model: FIRST_MODEL,
    ..SMALL
};
/// The streams that keep silent.
pub(super) const KEPT_OPEN: Workload = Workload {
    model: SILENT_MODEL,
    ..SILENT_STREAMS
};

fn model_name(number: u64) -> String {
    format!("model-{number}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn addresses(count: u16) -> Vec<SocketAddr> {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], 4000 + port));
        (0..count).map(address).collect()
    }

    #[test]
    fn sizes_ascend_from_a_small_one() {
        for dimension in Dimension::ALL {
            let sizes = dimension.sizes(25_000_000, Some(100_000));
            assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
            assert!(sizes.len() > 3, "{sizes:?}");
        }
        let history = Dimension::History.sizes(25_000_000, None);
        assert_eq!(history.last_chunk(), Some(&[10_000_000, 25_000_000]));
    }

    #[test]
    fn no_more_streams_are_opened_than_files_allow() {
        let sizes = |files| Dimension::Streams.sizes(0, files);
        assert_eq!(sizes(Some(20_000)), [10, 100, 1_000, 4_900]);
        assert_eq!(sizes(Some(50_000)), [10, 100, 1_000, 10_000]);
        assert_eq!(sizes(Some(100)), [10]);
    }

    #[test]
    fn every_deployment_has_an_address_of_its_own() {
        let addresses = addresses(64);
        let yaml = Dimension::Deployments.configuration(64, addresses[0], addresses[1], &addresses);
        for (number, address) in addresses.iter().enumerate() {
            let provider = format!("canned-{number}: {{ address: 'http://{address}'");
            assert_eq!(yaml.matches(&provider).count(), 1, "{yaml}");
        }
        let family = yaml.lines().find(|line| line.contains("family-0")).unwrap();
        assert_eq!(family.matches("/canned-1024").count(), 64, "{family}");
    }

    #[test]
    fn requests_reach_every_model_and_key_in_use() {
        let asked = |dimension: Dimension, size, keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            let requests = dimension.requests(size, &keys);
            requests.into_iter().collect::<BTreeSet<_>>().len()
        };
        assert_eq!(asked(Dimension::Models, 100, &["sk-a"]), 100);
        assert_eq!(asked(Dimension::Models, 5_000, &["sk-a"]), 4_000);
        assert_eq!(asked(Dimension::Keys, 2, &["sk-a", "sk-b"]), 2);
        assert_eq!(asked(Dimension::Deployments, 500, &["sk-a"]), 1);
    }

    #[test]
    fn every_model_that_is_asked_is_configured() {
        let addresses = addresses(2);
        let yaml = Dimension::Models.configuration(50, addresses[0], addresses[1], &addresses);
        let names = (0..50).map(model_name).chain([SILENT_MODEL.to_owned()]);
        for name in names {
            assert_eq!(yaml.matches(&format!("\n  {name}: {{ family")).count(), 1);
        }
    }
}
