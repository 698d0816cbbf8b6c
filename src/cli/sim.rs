//! `tollgate sim`.

use super::Outcome;
use clap::Args;
use std::net::SocketAddr;
use tokio::signal::unix::{SignalKind, signal};
use tollgate_sim::{Sim, SimOptions};

/// What `sim` takes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let sim = Sim::bind(arguments.listen, SimOptions::default()).await?;
        println!("listening on {}", sim.local_addr()?);
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
