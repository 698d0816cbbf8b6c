//! The end-to-end tests that measure memory, or need the whole machine for their load. They are a program of
//! their own, which cargo runs beside no other, and run one after the other: see [`alone`].

#![cfg(test)]

mod cluster;
mod crash;
mod memory;
mod slow;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod unread;

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test of this program runs: what one test measures, the load of another would
/// change.
async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}
