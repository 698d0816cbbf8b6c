//! The simulated provider by itself, for scripts: `cargo run -p tollgate-sim --example sim -- [RECORDINGS] ADDRESS`.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use tollgate_sim::{Recordings, Sim, SimOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments.pop().ok_or("an address is expected")?;
    let address: SocketAddr = address.parse()?;
    let mut options = SimOptions::default();
    if let Some(file) = arguments.first() {
        options.recordings = Recordings::read(Path::new(file))?;
    }
    let sim = Sim::bind(address, options).await?;
    sim.serve(pending()).await;
    Ok(())
}
