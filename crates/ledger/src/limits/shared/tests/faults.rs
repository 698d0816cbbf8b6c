//! Faults of the server.

use super::{redis_server::Redis, *};

#[tokio::test]
async fn a_stopped_server_costs_one_time_out_and_is_shared_again_when_it_goes_on() {
    let Some(redis) = Redis::start() else { return };
    let timeout = Duration::from_secs(3);
    let one = node(&redis, timeout);
    shared(&[&one], true).await;
    let (key, limits) = (KeyId::new("slow"), limits(10, 0, 0, 4));
    let running = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    redis.signal("STOP");
    let mut waited = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        // The first does not wait, the second times out, and the others take the share.
        let admitted = one.admit_shared(&key, &limits, 1, 1).await;
        waited.push(begun.elapsed());
        if let Ok(admission) = admitted {
            admission.finish(1, 1);
        }
    }
    let slow = waited.iter().filter(|it| **it > timeout / 2).count();
    assert_eq!(slow, 1, "{waited:?}");
    assert!(waited[1] < timeout * 3, "{waited:?}");
    let share = one.standing(&key, &limits).requests.unwrap();
    assert_eq!((share.limit, share.remaining), (5, 0), "{share:?}");
    redis.signal("CONT");
    shared(&[&one], true).await;
    running.finish(1, 1);
    let again = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    // All that were admitted are counted, and the one that timed out is not counted twice.
    let remaining = again.standing().requests.unwrap().remaining;
    assert!((3..=5).contains(&remaining), "{remaining}");
    assert_eq!(one.shared_stats().unwrap().fallbacks, 1);
}

/// Waits until the server counts so many running requests of the key `k`: the processes tell it, each over its own
/// connection.
async fn counted(redis: &Redis, running: u32) {
    const SUM: &str = "local all, sum = cmsgpack.unpack(redis.call('GET', KEYS[1])), 0 \
                       for i = 11, #all, 3 do sum = sum + all[i] end return sum";
    let sum = || redis.cli(&["EVAL", SUM, "1", "tollgate:limits:{k}"]);
    until("the count", || sum().trim() == running.to_string()).await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_is_shared_again() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let (one, two) = (node(&redis, PATIENT), node(&redis, PATIENT));
    shared(&[&one, &two], true).await;
    let (key, limits) = (KeyId::new("k"), limits(0, 0, 0, 3));
    let running = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    redis.kill();
    let during = two.admit_shared(&key, &limits, 1, 1).await.unwrap();
    shared(&[&one, &two], false).await;
    redis.restart();
    shared(&[&one, &two], true).await;
    // Both requests that run are counted again.
    counted(&redis, 2).await;
    let third = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    assert!(two.admit_shared(&key, &limits, 1, 1).await.is_err());
    for admission in [running, during, third] {
        admission.finish(1, 1);
    }
    counted(&redis, 0).await;
    for _ in 0..3 {
        let admitted = two.admit_shared(&key, &limits, 1, 1).await.unwrap();
        admitted.finish(1, 1);
    }
}

#[tokio::test]
async fn what_is_taken_without_the_server_counts_when_it_is_back() {
    let Some(redis) = Redis::start() else { return };
    let (one, two) = (node(&redis, TIMEOUT), node(&redis, PATIENT));
    shared(&[&one, &two], true).await;
    // 1 request and 10 input tokens flow back in 10 s.
    let (key, limits) = (KeyId::new("k"), limits(6, 60, 0, 0));
    let running = one.admit_shared(&key, &limits, 20, 0).await.unwrap();
    redis.signal("STOP");
    let ahead = one.admit_shared(&key, &limits, 10, 0).await.unwrap();
    // It times out. The share is 30 tokens, less the half of those of both requests.
    let share = one.admit_shared(&key, &limits, 15, 0).await.unwrap();
    assert!(one.admit_shared(&key, &limits, 5, 0).await.is_err());
    running.finish(15, 0);
    ahead.finish(12, 0);
    share.finish(14, 0);
    redis.signal("CONT");
    shared(&[&one, &two], true).await;
    // The server gets it before the next request of this process; the other one has another connection.
    let other = KeyId::new("other");
    let is_known = || redis.cli(&["EXISTS", "tollgate:limits:{other}"]).trim() == "1";
    let sent = tokio::time::timeout(PATIENT, async {
        while !is_known() {
            let _ = one.admit_shared(&other, &limits, 1, 0).await;
        }
    });
    sent.await.unwrap();
    let seen = two
        .admit_shared(&key, &limits, 1, 0)
        .await
        .unwrap()
        .standing();
    let left = [seen.requests, seen.input_tokens].map(|it| it.unwrap().remaining);
    // Less 4 requests and 15 + 12 + 14 + 1 tokens.
    assert!(
        (2..=3).contains(&left[0]) && (18..=28).contains(&left[1]),
        "{left:?}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_write_is_shared_again_when_it_can() {
    let Some(redis) = Redis::start() else { return };
    let one = node(&redis, TIMEOUT);
    for (number, (fault, repair)) in [
        (
            ["CONFIG", "SET", "maxmemory", "1"],
            ["CONFIG", "SET", "maxmemory", "0"],
        ),
        (
            ["REPLICAOF", "127.0.0.1", "1", ""],
            ["REPLICAOF", "NO", "ONE", ""],
        ),
        (["SCRIPT", "FLUSH", "", ""], ["PING", "", "", ""]),
    ]
    .into_iter()
    .enumerate()
    {
        let run = |command: [&str; 4]| {
            let words: Vec<_> = command
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let said = redis.cli(&words);
            assert!(["OK", "PONG"].contains(&said.trim()), "{said}");
        };
        shared(&[&one], true).await;
        let (key, limits) = (KeyId::new(format!("k{number}")), limits(10, 0, 0, 0));
        run(fault);
        let mut admitted = 0;
        for _ in 0..10 {
            let answer = one.admit_shared(&key, &limits, 1, 1).await;
            admitted += u32::from(answer.map(|it| it.finish(1, 1)).is_ok());
        }
        // A half of the limit.
        assert_eq!(admitted, 5, "{fault:?}");
        let logged = one.server().unwrap().state.logged.lock().clone();
        assert!(!logged.contains("not of Redis"), "{fault:?}: {logged}");
        run(repair);
        shared(&[&one], true).await;
        let seen = one
            .admit_shared(&key, &limits, 1, 1)
            .await
            .unwrap()
            .standing();
        assert!(
            (4..=5).contains(&seen.requests.unwrap().remaining),
            "{fault:?} {seen:?}"
        );
        assert_eq!(one.shared_stats().unwrap().fallbacks, number as u64 + 1);
    }
}

#[tokio::test]
async fn a_server_that_flaps_multiplies_no_limit() {
    let Some(redis) = Redis::start() else { return };
    let (one, two) = (node(&redis, TIMEOUT), node(&redis, TIMEOUT));
    shared(&[&one, &two], true).await;
    // One flows back in 10 s.
    let (key, limits) = (KeyId::new("k"), limits(6, 0, 0, 0));
    let take = async |limiter: &Limiter, key: &KeyId| {
        let admitted = limiter.admit_shared(key, &limits, 1, 1).await;
        admitted.map(|it| it.finish(1, 1)).is_ok()
    };
    while take(&one, &key).await {}
    let mut admitted = 0;
    for _ in 0..3 {
        redis.signal("STOP");
        // Requests of another key notice it.
        for _ in 0..3 {
            take(&one, &KeyId::new("other")).await;
        }
        shared(&[&one], false).await;
        while take(&one, &key).await {
            admitted += 1;
        }
        redis.signal("CONT");
        shared(&[&one], true).await;
    }
    assert!(admitted <= 1, "{admitted} beyond the limit");
}

#[tokio::test]
async fn a_value_of_another_kind_is_replaced() {
    let Some(redis) = Redis::start() else { return };
    let one = node(&redis, PATIENT);
    shared(&[&one], true).await;
    let (key, limits) = (KeyId::new("k"), limits(2, 0, 0, 0));
    for command in ["LPUSH", "SET"] {
        let name = "tollgate:limits:{k}";
        redis.cli(&["DEL", name]);
        redis.cli(&[command, name, "something else"]);
        let mut admitted = 0;
        for _ in 0..4 {
            let answer = one.admit_shared(&key, &limits, 1, 1).await;
            admitted += u32::from(answer.map(|it| it.finish(1, 1)).is_ok());
        }
        assert_eq!(admitted, 2, "{command}");
    }
    assert_eq!(one.shared_stats().unwrap().fallbacks, 0);
}

#[tokio::test]
async fn an_admission_that_is_lost_with_the_connection_is_counted_later() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let one = node(&redis, PATIENT);
    shared(&[&one], true).await;
    let (key, limits) = (KeyId::new("k"), limits(8, 0, 0, 0));
    let first = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    first.finish(1, 1);
    redis.signal("STOP");
    let ahead = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    ahead.finish(1, 1);
    redis.kill();
    shared(&[&one], false).await;
    redis.restart();
    shared(&[&one], true).await;
    let seen = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    // The server has forgotten the first one.
    let remaining = seen.standing().requests.unwrap().remaining;
    assert_eq!(remaining, 8 - 2);
}

/// Its other keys would be refused one by one.
#[test]
fn a_server_that_has_only_a_part_of_the_keys_is_refused() {
    let Some(redis) = Redis::start_with("cluster-enabled yes") else {
        return;
    };
    redis.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    redis.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    let begun = Instant::now();
    while !redis.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let fault = server(&redis).check().unwrap_err().to_string();
    assert!(fault.contains("is one of a cluster"), "{fault}");
    redis.cli(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    server(&redis).check().unwrap();
}

#[test]
fn each_fault_has_one_line_without_the_password() {
    let Some(redis) = Redis::start() else { return };
    let said = |server: &LimitServer| {
        let fault = server.check().unwrap_err().to_string();
        assert!(
            !fault.contains('\n') && !fault.contains(Redis::PASSWORD),
            "{fault}"
        );
        fault
    };
    let expect = |url: &str, words: &str| {
        let server = LimitServer::new(url, None).unwrap();
        let fault = said(&server);
        assert!(fault.contains(words), "{words}: {fault}");
    };
    server(&redis).check().unwrap();
    expect(&redis.url("wrong"), "user or the password");
    expect(
        &format!("redis://127.0.0.1:{}", redis.port),
        "user or the password",
    );
    expect("redis://127.0.0.1:1", "cannot be reached");
    let right = redis.url(Redis::PASSWORD);
    expect(&right.replace("redis:", "rediss:"), "does not support TLS");
    redis.cli(&[
        "ACL", "SETUSER", "clerk", "on", ">clerk", "~*", "+@all", "-set",
    ]);
    expect(
        &format!("redis://clerk:clerk@127.0.0.1:{}", redis.port),
        "lacks a permission",
    );
    redis.cli(&["ACL", "SETUSER", "clerk", "-evalsha", "+set"]);
    expect(
        &format!("redis://clerk:clerk@127.0.0.1:{}", redis.port),
        "lacks a permission",
    );
    redis.cli(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    expect(&right, "read-only replica");
    for url in [Redis::PASSWORD, "http://x:correct-horse-battery@host", ""] {
        let fault = LimitServer::new(url, None).unwrap_err().to_string();
        assert!(
            fault.contains("redis://USER") && !fault.contains(Redis::PASSWORD),
            "{fault}"
        );
    }
}
