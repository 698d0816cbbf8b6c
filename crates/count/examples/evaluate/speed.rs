//! How fast counting is: a megabyte on one core, and what an agent asks for at once.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tollgate_count::{Family as _, Rules, Tokenizer, Vocabulary, count};
use tollgate_types::Format;

/// The processor time of this thread, which is more exact than a clock if others work too;
/// `None` where the system does not say.
fn on_processor() -> Option<Duration> {
    let reported = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = reported.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
const PROSE: &str = "The gateway counts the tokens of a request before it leaves, by the same \
    rules for every caller; what the provider reports afterwards makes the next count better. ";
const CODE: &str = "fn total(&self) -> u64 { self.items.iter().map(|it| it.price).sum() } ";

fn body(text: &str, bytes: usize) -> String {
    let text = text.repeat(bytes.div_ceil(text.len()));
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

/// Prints what a user waits for.
pub fn print() {
    let rules = Tokenizer::Openai.rules();
    Vocabulary::O200k.load();
    println!("\nTime of one core, every byte counted, best of five:\n");
    println!("| body | MB/s |\n|---|---|");
    let all = Rules {
        exact_bytes: u64::MAX,
        ..rules
    };
    let texts = [
        ("prose", PROSE),
        ("code", CODE),
        ("spaces", " "),
        ("one letter", "a"),
        ("emoji", "😀👩‍👩‍👧‍👦"),
    ];
    for (name, text) in texts {
        for (size, bytes) in [("35 KB", 35_000), ("1 MB", 1_000_000)] {
            let body = body(text, bytes);
            // The system counts a thread's time in ticks of some milliseconds.
            let times = 10_000_000_usize.div_ceil(body.len());
            let best = best_of_five(|| {
                for _ in 0..times {
                    black_box(count(Format::Chat, black_box(body.as_bytes()), &all));
                }
            });
            let rate = (body.len() * times) as f64 / best.as_secs_f64() / 1e6;
            println!("| {name}, {size} | {rate:.0} |");
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "\n26 counts of 35 KB of code at once, on {cores} cores: {:.1?}",
        at_once(cores, &rules)
    );
}

/// The least time of a processor that a piece of work took.
fn best_of_five(work: impl Fn()) -> Duration {
    let runs = (0..5).map(|_| {
        let (begun, before) = (Instant::now(), on_processor());
        work();
        let spent = before.zip(on_processor());
        spent.map_or_else(
            || begun.elapsed(),
            |(before, after)| after.saturating_sub(before),
        )
    });
    runs.min().unwrap_or_default()
}

/// The least time by the clock.
fn quickest_of_five(work: impl Fn()) -> Duration {
    let runs = (0..5).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    });
    runs.min().unwrap_or_default()
}

fn at_once(cores: usize, rules: &Rules) -> Duration {
    const CALLS: usize = 26;
    let body = body(CODE, 35_000);
    quickest_of_five(|| {
        std::thread::scope(|scope| {
            for core in 0..cores {
                let mine = (core..CALLS).step_by(cores);
                let body = &body;
                scope.spawn(move || {
                    for _ in mine {
                        black_box(count(Format::Chat, black_box(body.as_bytes()), rules));
                    }
                });
            }
        });
    })
}
