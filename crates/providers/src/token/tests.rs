//! When tokens are fetched and how long they are used, by a clock of the test's own.

use super::*;
use crate::error::FetchFault;
use crate::{Building, CommandSettings};
use tollgate_settings::{KeyPath, ProcessEnvironment, Secret};

const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;

fn token() -> Token {
    let settings = CommandSettings {
        run: vec!["true".to_owned()],
        timeout: tollgate_settings::Duration::from_secs(1),
    };
    let mut building = Building {
        environment: &ProcessEnvironment,
        folder: &|_| "".into(),
        faults: &mut Vec::new(),
    };
    let source = Source::command(&settings, &KeyPath::root(), &mut building).unwrap();
    let names = ["provider".into(), "credential".into()];
    Token::new(Arc::new(source), header::AUTHORIZATION, names)
}

/// Fetches a token that is valid for this long.
fn fetch(token: &Token, text: &str, lifetime: u64, now: u64) -> Outcome {
    assert!(token.begin(now), "it is due");
    let fetched = Fetched::token(Secret::new(text), Duration::from_millis(lifetime));
    token
        .end(Ok(fetched), now, now, 0.5)
        .map_err(|(error, _)| error)
        .unwrap()
}

fn fail(token: &Token, now: u64, random: f64) -> Outcome {
    assert!(token.begin(now), "it is due");
    let error = FetchError::new(FetchFault::Refused, "invalid_grant");
    let ended = token.end(Err(error), now, now, random);
    ended.map(|_| ()).unwrap_err().1
}

fn sent(token: &Token) -> String {
    let Some(Proof::Header(name, value)) = token.proof() else {
        panic!("no token");
    };
    assert!(value.is_sensitive());
    format!("{name}: {}", value.to_str().unwrap())
}

/// The first moment at which it is due.
fn due(token: &Token, from: u64) -> u64 {
    let found = (from..from + 2 * HOUR).step_by(100).find(|now| {
        let is_due = token.begin(*now);
        if is_due {
            token.abandon();
        }
        is_due
    });
    found.unwrap()
}

#[test]
fn the_first_token_is_due_at_once_and_fetched_once_at_a_time() {
    let token = token();
    let lack = token.lack(1).unwrap();
    assert_eq!(lack.missing, Missing::First);
    assert!(token.proof().is_none());
    assert!(token.begin(1));
    assert!(!token.begin(1), "it is under way");
    token.abandon();
    assert!(fetch(&token, "one", HOUR, 5).is_news);
    assert_eq!(token.lack(5), None);
    assert_eq!(sent(&token), "authorization: Bearer one");
}

#[test]
fn a_token_is_fetched_anew_some_minutes_before_its_end_and_not_always_at_the_same() {
    for (lifetime, least, most) in [
        (HOUR, 5 * MINUTE, 225_000),
        (24 * HOUR, 5 * MINUTE, 225_000),
        // A short one in its last quarter.
        (8_000, 2_000, 1_500),
    ] {
        let dues = [0.0, 1.0].map(|random| {
            let token = token();
            assert!(token.begin(0));
            let fetched = Fetched::token(Secret::new("one"), Duration::from_millis(lifetime));
            assert!(token.end(Ok(fetched), 0, 0, random).is_ok());
            due(&token, lifetime.saturating_sub(6 * MINUTE))
        });
        assert_eq!(dues, [lifetime - most, lifetime - least], "of {lifetime}");
    }
}

#[test]
fn after_a_failure_the_old_token_stays_until_its_end_and_no_longer() {
    let token = token();
    fetch(&token, "one", HOUR, 0);
    let first = due(&token, 50 * MINUTE);
    let outcome = fail(&token, first, 0.5);
    assert_eq!(outcome.valid_for, Some(Duration::from_millis(HOUR - first)));
    assert_eq!(token.lack(HOUR - 1), None);
    let lack = token.lack(HOUR).unwrap();
    assert_eq!(lack.missing, Missing::Refresh);
    assert_eq!(token.valid_for(HOUR), None);
    let failure = token.failure().unwrap();
    assert_eq!(failure.to_string(), "invalid_grant");
    // The next success is news, and ends the failure.
    assert!(fetch(&token, "two", HOUR, HOUR).is_news);
    assert_eq!((token.lack(HOUR), token.failure()), (None, None));
    assert_eq!(sent(&token), "authorization: Bearer two");
    let next = due(&token, HOUR + 50 * MINUTE);
    assert!(!fetch(&token, "three", HOUR, next).is_news);
}

#[test]
fn failures_wait_twice_as_long_each_up_to_a_minute() {
    let token = token();
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..8 {
        let wait = fail(&token, now, 0.5).next_in;
        waits.push(wait.as_secs());
        now += u64::try_from(wait.as_millis()).unwrap();
        assert!(!token.begin(now - 1), "too early");
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    let spread = [0.0, 1.0].map(|random| {
        let token = self::token();
        fail(&token, 0, random).next_in.as_millis()
    });
    assert_eq!(spread, [750, 1250]);
    // The client hears of the wait, and never of less than a second.
    let lack = token.lack(now - 30_000).unwrap();
    assert_eq!(lack.retry_in.as_secs(), 30);
    assert_eq!(token.lack(now).unwrap().retry_in.as_secs(), 1);
}

#[test]
fn a_refused_token_is_fetched_anew_once_a_minute() {
    let token = token();
    token.refused(0, 0);
    fetch(&token, "one", HOUR, 1_000);
    assert!(!token.begin(10_000));
    // The request was sent with another token.
    token.refused(500, 10_000);
    assert!(!token.begin(10_000));
    token.refused(9_000, 10_000);
    let outcome = fetch(&token, "two", HOUR, 10_000);
    assert!(outcome.was_refused && !outcome.is_news);
    token.refused(11_000, 69_999);
    assert!(!token.begin(69_999), "within a minute");
    token.refused(11_000, 70_000);
    assert!(fetch(&token, "three", HOUR, 70_000).was_refused);
    assert_eq!(token.lack(70_000), None);
}

#[test]
fn a_refusal_is_remembered_until_a_new_token_is_there() {
    let token = token();
    fetch(&token, "one", HOUR, 0);
    token.refused(1_000, 2_000);
    assert!(fail(&token, 2_000, 0.5).was_refused);
    assert!(fetch(&token, "two", HOUR, 3_000).was_refused);
    let next = due(&token, 50 * MINUTE);
    assert!(!fetch(&token, "three", HOUR, next).was_refused);
}

#[test]
fn tokens_that_end_at_once_are_not_fetched_more_than_once_a_second() {
    let token = token();
    for now in [0, 1_000, 2_000] {
        assert_eq!(fetch(&token, "short", 1, now).next_in.as_millis(), 1_000);
        assert!(!token.begin(now + 999), "too early");
    }
}

#[test]
fn no_token_is_taken_that_a_header_cannot_carry_or_that_has_ended() {
    for (text, lifetime) in [
        ("a b", HOUR),
        ("", HOUR),
        ("a\r\nb", HOUR),
        ("ä", HOUR),
        ("a", 0),
    ] {
        let token = token();
        assert!(token.begin(0));
        let fetched = Fetched::token(Secret::new(text), Duration::from_millis(lifetime));
        let (error, _) = token.end(Ok(fetched), 0, 0, 0.5).map(|_| ()).unwrap_err();
        assert_eq!(error.fault, FetchFault::Answer, "{text}");
        assert!(token.proof().is_none(), "{text}");
    }
}

#[test]
fn nothing_shows_a_token() {
    let token = token();
    fetch(&token, "hunter2", HOUR, 0);
    let shown = format!("{token:?} {:?}", token.source());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("credential"), "{shown}");
}
