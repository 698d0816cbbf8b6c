//! What an admission through a shared server takes more than a bare round trip to it.
//!
//! `TOLLGATE_REDIS=redis://… cargo bench -p tollgate-ledger --bench shared_limits`. Each figure is the median of
//! one task that waits for every answer, by turns with the others.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench has no caller to report to"
)]

use redis::aio::MultiplexedConnection;
use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, Instant},
};
use tollgate_ledger::{Clock, LimitServer, LimitServerTls, Limiter, SharedLimits};
use tollgate_types::{KeyId, Limits};

const ROUNDS: usize = 5000;

fn main() {
    let Ok(url) = std::env::var("TOLLGATE_REDIS") else {
        println!("TOLLGATE_REDIS has no URL: nothing is measured");
        return;
    };
    // As the gateway: requests on one thread, connections on another.
    let network = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = redis::Client::open(url.as_str()).unwrap();
    let connection = network
        .block_on(network.spawn(async move { client.get_multiplexed_async_connection().await }))
        .unwrap()
        .unwrap();
    let server = LimitServer::new(&url, &LimitServerTls::System).unwrap();
    let shared = SharedLimits::start(server, Duration::from_millis(500)).unwrap();
    let limiter = Limiter::new(100, Clock::system());
    let limiter = limiter.shared_by(Arc::new(AtomicU32::new(1)), Some(&shared));
    while !shared.stats().is_shared {
        std::thread::sleep(Duration::from_millis(10));
    }
    let requests = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    requests.block_on(measure(connection, &limiter));
}

async fn measure(mut connection: MultiplexedConnection, limiter: &Limiter) {
    let most = NonZeroU32::new(1_000_000_000);
    let limits = Limits {
        requests: most,
        input_tokens: most,
        output_tokens: most,
        concurrent: most,
    };
    let key = KeyId::new("bench");
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg("return 1");
    let sha: String = load.query_async(&mut connection).await.unwrap();
    let mut trivial = redis::cmd("EVALSHA");
    trivial.arg(sha).arg(1).arg("tollgate:limits:{bench}");
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await
            .unwrap();
        took[0].push(begun.elapsed());
        let begun = Instant::now();
        trivial.query_async::<i64>(&mut connection).await.unwrap();
        took[1].push(begun.elapsed());
        let begun = Instant::now();
        let admission = limiter.admit_shared(&key, &limits, 100, 100).await.unwrap();
        took[2].push(begun.elapsed());
        admission.finish(90, 80);
        // What it gives back is not a part of the next round.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    for (name, mut took) in ["PING", "trivial EVALSHA", "admission"]
        .into_iter()
        .zip(took)
    {
        took.sort_unstable();
        let at = |part: usize| took[took.len() * part / 100];
        println!(
            "{name}: median {:?}, 90% {:?}, 99% {:?}",
            at(50),
            at(90),
            at(99)
        );
    }
    assert_eq!(limiter.shared_stats().unwrap().fallbacks, 0);
}
