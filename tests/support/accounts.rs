//! Keys with a balance of their own, and what the gateway charges them.

use super::config::PEPPER;
use super::{Answer, Gateway, Output, PATIENCE, eventually, tollgate};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tollgate_ledger::{Clock, GrantTerms, KeyHasher, KeySelector, NewKey, Store};

/// How long a grant lives that no test outlives.
pub const LONG: Duration = Duration::from_secs(86_400);

/// The store of a gateway whose configuration is in this folder.
pub fn store_in(folder: &Path) -> Store {
    let hasher = KeyHasher::new(PEPPER.1.as_bytes()).unwrap();
    Store::open(folder.join("tollgate.db"), hasher, Clock::system()).unwrap()
}

impl Gateway {
    /// The gateway's store, as another process opens it.
    pub fn store(&self) -> Store {
        store_in(self.folder.path())
    }

    /// A key that was given so many tokens for so long, which can be shorter than the
    /// command line has it.
    pub fn key_with(&self, tokens: u64, validity: Duration) -> String {
        self.key_of(GrantTerms {
            tokens,
            validity,
            ..GrantTerms::default()
        })
    }

    /// A key that was given this.
    pub fn key_of(&self, grant: GrantTerms) -> String {
        let created = self.store().create_key(&NewKey {
            grant: Some(grant),
            ..NewKey::named("test")
        });
        created.unwrap().key.expose().to_owned()
    }

    /// Gives a key more tokens for as long as the test lasts.
    pub fn top_up(&self, key: &str, tokens: u64) {
        let terms = GrantTerms {
            tokens,
            validity: LONG,
            ..GrantTerms::default()
        };
        let selector = KeySelector::parse(key).unwrap();
        self.store().top_up(&selector, &terms).unwrap();
    }

    /// The tokens that the ledger says a key has spent.
    pub async fn spent(&self, key: &str) -> u64 {
        let output = self.keys(&["grants", key, "--json"]).await;
        assert!(output.status.success(), "{output:?}");
        let grants: Value = serde_json::from_str(&output.stdout).unwrap();
        let used = grants.as_array().unwrap().iter();
        used.map(|grant| grant["used"].as_u64().unwrap()).sum()
    }

    /// Waits until the ledger says that a key has spent so many tokens.
    pub async fn has_spent(&self, key: &str, tokens: u64) {
        let mut spent = 0;
        let look = async || {
            spent = self.spent(key).await;
            (spent == tokens).then_some(())
        };
        eventually(&format!("{tokens} tokens are spent"), look).await;
    }

    /// The line of the access log for the request that got this answer.
    pub async fn line_of(&self, answer: &Answer) -> Value {
        let id = answer.header("x-request-id").expect("an id").to_owned();
        self.access_line(|line| line["id"] == *id).await
    }

    /// What `tollgate ledger verify` finds, whether the gateway runs or not: everything adds
    /// up.
    pub async fn verify(&self) -> Value {
        let mut command = tollgate();
        let config = self.folder.path().join("tollgate.yaml");
        command.args(["ledger", "verify", "--json", "--config"]);
        // After half an hour of load there are a million records.
        let output = Output::within(6 * PATIENCE, command.arg(config)).await;
        assert!(output.status.success(), "{output:?}");
        let found: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(found["faults"], json!([]));
        found
    }
}
