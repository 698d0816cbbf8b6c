//! Counts recorded requests and compares with what their providers reported: median and p95 of
//! the relative error per family.
//!
//!     cargo run --release -p tollgate-count --example evaluate [-- FAMILY]
//!
//! Then how fast counting is on one core, and how long an agent waits for 26 counts of 35 KB that
//! it asks for at once. `make eval-count` runs it.
//!
//! The folder in `TOLLGATE_FIXTURES` holds `chat.jsonl`, `responses.jsonl` and `messages.jsonl`:
//! an object a line, with `request`, `response`, `stream` and `status`. With the name of a
//! family, each of its requests is listed too.

#![allow(clippy::print_stdout)]

mod recorded;
mod speed;

use recorded::Case;
use std::process::ExitCode;
use tollgate_count::Tokenizer;

fn main() -> ExitCode {
    let folder = recorded::folder();
    let cases = match recorded::cases(&folder) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("no recorded requests in {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    if let Some(family) = std::env::args().nth(1) {
        let of_family = cases.iter().filter(|it| it.family.as_str() == family);
        of_family.for_each(print_case);
    }
    let table = |title, wanted: fn(&Case) -> bool| {
        let cases: Vec<&Case> = cases.iter().filter(|it| wanted(it)).collect();
        print_table(title, &cases);
    };
    table("Text only", |it| it.is_self_contained() && !it.count.tools);
    table("Text with tools", |it| {
        it.is_self_contained() && it.count.tools
    });
    table("Media, hosted tools, stored state", |it| {
        !it.is_self_contained()
    });
    print_exactness(&cases);
    speed::print();
    ExitCode::SUCCESS
}

fn print_case(case: &Case) {
    let Case {
        model,
        format,
        reported,
        count,
        body,
        ..
    } = case;
    let (format, tokens, basis) = (format.as_str(), count.tokens, count.basis);
    let body: String = body.chars().take(160).collect();
    println!("{model:<28} {format:<9} {reported:>7} {tokens:>7} {basis:?} {body}");
}

/// How many requests of plain text the rules count to the token, for models whose vocabulary is
/// public; what the recordings contradict themselves in is listed.
fn print_exactness(cases: &[Case]) {
    let plain: Vec<_> = cases
        .iter()
        .filter(|it| recorded::is_plain_o200k(it))
        .collect();
    let is_exact = |it: &&&Case| it.count.tokens == it.reported;
    let exact = plain.iter().filter(is_exact).count();
    println!(
        "\no200k_base, text only: {exact} of {} counted to the token",
        plain.len()
    );
    for case in plain.iter().filter(|it| !is_exact(it)) {
        print_case(case);
    }
}

fn print_table(title: &str, cases: &[&Case]) {
    println!("\n{title}\n");
    println!("| family | requests | median | p95 |");
    println!("|---|---|---|---|");
    for family in Tokenizer::ALL {
        let of_family = cases.iter().filter(|it| it.family == family);
        let errors: Vec<f64> = of_family.map(|it| it.error(it.count.tokens)).collect();
        if errors.is_empty() {
            continue;
        }
        println!(
            "| {} | {} | {} | {} |",
            family.as_str(),
            errors.len(),
            percent(&errors, 50),
            percent(&errors, 95)
        );
    }
}

fn percent(errors: &[f64], hundredths: usize) -> String {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    let place = (errors.len() * hundredths).div_ceil(100);
    let error = errors
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or_default();
    format!("{:.1} %", error * 100.0)
}
