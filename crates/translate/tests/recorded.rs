//! Recorded requests of real clients, in every direction: each is translated into something
//! that the target's reader reads again, or refused with a field of its own named.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod sdk;

use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf};
use tollgate_translate::{Target, request};
use tollgate_types::Format;

/// The requests of a format, or nothing where the recordings are not there.
fn recorded(format: Format) -> Option<Vec<Vec<u8>>> {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    let file = folder.join(format!("{format}.jsonl"));
    let Ok(lines) = std::fs::read_to_string(&file) else {
        eprintln!("skipped: no recordings at {}", file.display());
        return None;
    };
    let requests = lines.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let request = &line["request"];
        request
            .is_object()
            .then(|| serde_json::to_vec(request).unwrap())
    });
    Some(requests.collect())
}

#[test]
fn every_recorded_request_is_translated_or_refused_by_name() {
    // There are no recordings of Gemini.
    for from in Format::OF_CLIENTS
        .into_iter()
        .filter(|it| *it != Format::Gemini)
    {
        let Some(requests) = recorded(from) else {
            return;
        };
        for to in Format::OF_CONVERSATIONS
            .into_iter()
            .filter(|to| *to != from)
        {
            for searches in [false, true] {
                sweep(from, to, searches, &requests);
            }
        }
    }
}

fn sweep(from: Format, to: Format, searches: bool, requests: &[Vec<u8>]) {
    let mut target = Target::new("upstream-model", "backend");
    target.responses.web_search = searches;
    target.messages.web_search = searches;
    let mut refusals = BTreeMap::<String, usize>::new();
    let mut dropped = BTreeMap::<String, usize>::new();
    let mut translated = 0;
    for body in requests {
        match request(from, to, body, &target) {
            Ok(done) => {
                translated += 1;
                let json: Value = serde_json::from_slice(&done.body).unwrap_or_else(|fault| {
                    panic!(
                        "{from} to {to}: {fault}\n{}",
                        String::from_utf8_lossy(&done.body)
                    )
                });
                if Format::OF_CLIENTS.contains(&to) {
                    // Gemini has the model in its address.
                    if to != Format::Gemini {
                        assert_eq!(json["model"], "upstream-model");
                    }
                    sdk::assert_known(to, &json);
                    // Gemini takes sound as a file; sound of other formats is not translated to files.
                    let has_sound = to == Format::Gemini && json.to_string().contains("\"audio/");
                    if let Err(fault) = request(to, from, &done.body, &target)
                        && !has_sound
                    {
                        panic!("{from} to {to}, read again: {fault}\n{json}");
                    }
                }
                for path in done.dropped {
                    *dropped.entry(path).or_default() += 1;
                }
            }
            Err(refusal) => {
                let field = refusal.path.split(['.', '[']).next().unwrap_or_default();
                let sent: Value = serde_json::from_slice(body).unwrap();
                let is_named = !sent[field].is_null() || refusal.message.contains("missing");
                assert!(is_named, "{refusal} in {sent}");
                *refusals.entry(refusal.to_string()).or_default() += 1;
            }
        }
    }
    println!(
        "{from} to {to}: {translated} of {} translated",
        requests.len()
    );
    for (what, count) in refusals {
        println!("  {count:4} refused: {what}");
    }
    for (what, count) in dropped {
        println!("  {count:4} dropped: {what}");
    }
}
