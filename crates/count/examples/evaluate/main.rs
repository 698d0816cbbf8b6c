//! Counts recorded requests and compares with what their providers reported: median and p95 of
//! the relative error per family, by the rules alone and after a fit per model and format that
//! was learnt on the other half of its requests.
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
use std::{collections::BTreeMap, process::ExitCode};
use tollgate_count::{Fit, Tokenizer};
use tollgate_types::Format;

fn main() -> ExitCode {
    let folder = recorded::folder();
    let cases = match recorded::cases(&folder) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("no recorded requests in {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let judged = judge(&cases);
    if let Some(family) = std::env::args().nth(1) {
        judged
            .iter()
            .filter(|it| it.case.family.as_str() == family)
            .for_each(Judged::print);
    }
    let table = |title, wanted: fn(&Case) -> bool| {
        let judged: Vec<&Judged<'_>> = judged.iter().filter(|it| wanted(it.case)).collect();
        print_table(title, &judged);
    };
    table("Text only", |it| it.is_self_contained() && !it.count.tools);
    table("Text with tools", |it| {
        it.is_self_contained() && it.count.tools
    });
    table("Media, hosted tools, stored state", |it| {
        !it.is_self_contained()
    });
    print_exactness(&judged);
    speed::print();
    ExitCode::SUCCESS
}

/// A request with its count by the rules, and by the fit of its model.
struct Judged<'c> {
    case: &'c Case,
    fitted: u64,
}

impl Judged<'_> {
    fn print(&self) {
        let Case {
            model,
            reported,
            count,
            body,
            ..
        } = self.case;
        let (tokens, fitted) = (count.tokens, self.fitted);
        let body: String = body.chars().take(160).collect();
        println!(
            "{model:<28} {reported:>7} {tokens:>7} {fitted:>7} {:?} {body}",
            count.basis
        );
    }
}

/// Every request is counted with what the other half of the requests has taught.
fn judge(cases: &[Case]) -> Vec<Judged<'_>> {
    let mut fits: BTreeMap<(&str, Format, bool), Fit> = BTreeMap::new();
    let half = |place: usize| place.is_multiple_of(2);
    for (place, case) in cases.iter().enumerate() {
        let fit = fits
            .entry((&case.model, case.format, half(place)))
            .or_default();
        fit.learn(&case.count, case.reported);
    }
    let fitted = |(place, case)| {
        let case: &Case = case;
        let fit = fits.get(&(case.model.as_str(), case.format, !half(place)));
        let fitted = fit.map_or(case.count, |fit| case.count.refined(fit));
        Judged {
            case,
            fitted: fitted.tokens,
        }
    };
    cases.iter().enumerate().map(fitted).collect()
}

/// How many requests of plain text the rules count to the token, for models whose vocabulary is
/// public; what the recordings contradict themselves in is listed.
fn print_exactness(judged: &[Judged<'_>]) {
    let is_plain = |it: &&Judged<'_>| recorded::is_plain_o200k(it.case);
    let plain: Vec<_> = judged.iter().filter(is_plain).collect();
    let is_exact = |it: &&&Judged<'_>| it.case.count.tokens == it.case.reported;
    let exact = plain.iter().filter(is_exact).count();
    println!(
        "\no200k_base, text only: {exact} of {} counted to the token",
        plain.len()
    );
    for judged in plain.iter().filter(|it| !is_exact(it)) {
        judged.print();
    }
}

fn print_table(title: &str, judged: &[&Judged<'_>]) {
    println!("\n{title}\n");
    println!("| family | requests | median | p95 | median, fitted | p95, fitted |");
    println!("|---|---|---|---|---|---|");
    for family in Tokenizer::ALL {
        let of_family = || judged.iter().filter(move |it| it.case.family == family);
        let requests = of_family().count();
        if requests == 0 {
            continue;
        }
        let before: Vec<f64> = of_family()
            .map(|it| it.case.error(it.case.count.tokens))
            .collect();
        let after: Vec<f64> = of_family().map(|it| it.case.error(it.fitted)).collect();
        println!(
            "| {} | {requests} | {} | {} | {} | {} |",
            family.as_str(),
            percent(&before, 50),
            percent(&before, 95),
            percent(&after, 50),
            percent(&after, 95)
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
