//! The simulated provider by itself, for scripts: `cargo run -p tollgate-sim --example sim -- ADDRESS`.

use std::future::pending;
use std::net::SocketAddr;
use tollgate_sim::{Sim, SimOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address is expected")?;
    let address: SocketAddr = address.parse()?;
    let sim = Sim::bind(address, SimOptions::default()).await?;
    sim.serve(pending()).await;
    Ok(())
}
