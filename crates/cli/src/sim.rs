//! `tollgate sim`.

use super::{Outcome, print_line};
use clap::Args;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::signal::unix::{SignalKind, signal};
use tollgate_sim::{Recordings, Sim, SimOptions};

/// The arguments of `sim`.
#[derive(Args)]
pub struct Arguments {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Answer every request with the same prebuilt body of this many bytes of text, for
    /// benchmarks.
    #[arg(long, value_name = "BYTES")]
    canned: Option<usize>,
    /// Answer every request with the same prebuilt stream, for benchmarks.
    #[arg(long, value_name = "CHUNKSxBYTES", conflicts_with = "canned")]
    canned_stream: Option<CannedStream>,
    /// A file of recorded answers for the order `replay-N`.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Threads of the server. Default: one for each core.
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,
}

/// A number of events, each with a number of bytes of text.
#[derive(Clone, Copy)]
struct CannedStream {
    chunks: usize,
    bytes: usize,
}

impl FromStr for CannedStream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('x')
            .and_then(|(chunks, bytes)| chunks.parse().ok().zip(bytes.parse().ok()));
        let (chunks, bytes) = numbers.ok_or("expected two numbers such as 100x64")?;
        Ok(Self { chunks, bytes })
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let options = options(arguments)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = arguments.threads {
        runtime.worker_threads(threads.get());
    }
    runtime.enable_all().build()?.block_on(async {
        let address = arguments.listen;
        let sim = Sim::bind(address, options).await;
        let sim = sim.map_err(|cause| format!("cannot listen on {address}: {cause}"))?;
        print_line(format_args!("listening on {}", sim.local_addr()?))?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        sim.serve(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
        Ok(())
    })
}

fn options(arguments: &Arguments) -> Result<SimOptions, super::Failure> {
    let mut options = SimOptions::default();
    if let Some(bytes) = arguments.canned {
        options.canned = true;
        options.canned_answers.bytes = bytes;
    }
    if let Some(CannedStream { chunks, bytes }) = arguments.canned_stream {
        options.canned = true;
        options.canned_answers.chunks = Some(chunks);
        options.canned_answers.chunk_bytes = bytes;
    }
    if let Some(file) = &arguments.replay {
        options.recordings = Recordings::read(file)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::CannedStream;

    #[test]
    fn a_canned_stream_is_two_numbers() {
        let stream: CannedStream = "100x64".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((stream.chunks, stream.bytes), (100, 64));
        for wrong in ["100", "x64", "100x", "1x2x3", "-1x2"] {
            assert!(wrong.parse::<CannedStream>().is_err(), "{wrong}");
        }
    }
}
