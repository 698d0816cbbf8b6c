//! What the vocabularies cost: time and resident memory before and after the first use.
//!
//!     cargo run -p tollgate-count --example memory

#![allow(clippy::print_stdout)]

use std::time::Instant;
use tollgate_count::Vocabulary;

fn main() {
    println!("{:<28} {:>10} kB", "at the start", resident());
    for vocabulary in [Vocabulary::O200k, Vocabulary::Cl100k] {
        let start = Instant::now();
        vocabulary.load();
        let loaded = start.elapsed();
        println!(
            "{vocabulary:?} loaded in {loaded:<12.0?} {:>10} kB",
            resident()
        );
        let text = "Some text of words, 123 numbers, and 漢字. ".repeat(20_000);
        let tokens = vocabulary.count(&text);
        println!(
            "{:<28} {:>10} kB",
            format!("{tokens} tokens counted"),
            resident()
        );
    }
}

/// Resident kilobytes of this process; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let digits = line.and_then(|line| line.split_whitespace().next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
