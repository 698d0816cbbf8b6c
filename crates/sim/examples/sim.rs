//! Runs the simulated provider alone: `cargo run -p tollgate-sim --example sim -- 127.0.0.1:9100 [--canned BYTES] [--canned-stream CHUNKSxBYTES] [--replay FILE]`.

use std::{env, error::Error, path::Path};
use tollgate_sim::{Recordings, Sim};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:9100".to_owned())
        .parse()?;
    let mut options = Sim::builder();
    while let (Some(name), value) = (arguments.next(), arguments.next()) {
        let value = value.ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--canned" => {
                options.canned = true;
                options.canned_answers.bytes = value.parse()?;
            }
            "--canned-stream" => {
                let (chunks, bytes) = value.split_once('x').ok_or("want CHUNKSxBYTES")?;
                options.canned = true;
                options.canned_answers.chunks = Some(chunks.parse()?);
                options.canned_answers.chunk_bytes = bytes.parse()?;
            }
            "--replay" => options.recordings = Recordings::read(Path::new(&value))?,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let sim = options.bind(address).await?;
    eprintln!("listening on http://{}", sim.local_addr()?);
    sim.serve(async {
        // Without signals the process is ended from outside all the same.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}
