//! `tollgate sim`.

use super::Outcome;
use clap::Args;
use std::net::SocketAddr;
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
        sim.serve(async {
            // Without the signal there is no other end than a kill.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await;
        Ok(())
    })
}
