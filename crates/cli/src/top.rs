//! `tollgate top`: the status of a running gateway and its rates, drawn anew until Ctrl-C.

mod rates;

use super::operator::{Operator, OperatorPort};
use super::status::view::Status;
use super::{ConfigFile, Failure, Outcome, print};
use clap::Args;
use console::{Term, truncate_str};
use rates::Rates;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The arguments of `top`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    port: OperatorPort,
    /// Seconds from one screen to the next.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    interval: u64,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if !io::stdout().is_terminal() {
        return Err("standard output is not a terminal: use tollgate status".into());
    }
    let operator = arguments.port.find(&arguments.config)?;
    let mut rates = Rates::default();
    let mut signals = Signals::new()?;
    // A gateway that is not there, or refuses the token, ends the command before a screen is drawn.
    let Some(first) = signals.unless_ended(page(&operator, &mut rates)) else {
        return Ok(());
    };
    let mut page = first?;
    let interval = Duration::from_secs(arguments.interval);
    let screen = Screen::open()?;
    loop {
        screen.draw(&page)?;
        let next = async {
            tokio::time::sleep(interval).await;
            self::page(&operator, &mut rates).await
        };
        page = match signals.unless_ended(next) {
            None => return Ok(()),
            Some(Ok(page)) => page,
            Some(Err(Failure::Fault(fault))) => format!("{fault}\n\nCtrl-C ends\n"),
            Some(Err(left)) => return Err(left),
        };
    }
}

/// The current report of the gateway.
async fn page(operator: &Operator, rates: &mut Rates) -> Result<String, Failure> {
    let status = Status::of(operator).await?;
    let metrics = operator.metrics().await?;
    let mut page = status.to_string();
    // Writing to a string cannot fail.
    let _ = write!(page, "\n{}", rates.since_last(&metrics));
    Ok(page)
}

/// The signals that end the command.
struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(inside);
        Ok(Self {
            runtime,
            interrupt,
            terminate,
        })
    }

    /// The result of `work`; `None`: a signal came first.
    fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let Self {
            runtime,
            interrupt,
            terminate,
        } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
                done = work => Some(done),
            }
        })
    }
}

/// A screen of its own; what was on the terminal before is back when it is dropped.
struct Screen(Term);

impl Screen {
    fn open() -> Result<Self, Failure> {
        print("\x1b[?1049h\x1b[?25l")?;
        Ok(Self(Term::stdout()))
    }

    /// As much of a page as there is room for.
    fn draw(&self, page: &str) -> Outcome {
        let (rows, columns) = self.0.size();
        let mut text = "\x1b[H".to_owned();
        for (place, line) in page.lines().take(rows.into()).enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            text.push_str(&truncate_str(line, columns.into(), "…"));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        print(text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print("\x1b[?25h\x1b[?1049l");
    }
}
