//! What a signature of AWS costs by the size of the body.

#![allow(missing_docs, reason = "criterion's macros write undocumented items")]
#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot begin has no result"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::Request;
use std::{hint::black_box, path::PathBuf, time::SystemTime};
use tollgate_providers::{AwsLogIn, Building};
use tollgate_settings::{Environment, KeyPath};

/// Variables that hold keys.
struct Keys;

impl Environment for Keys {
    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("EXAMPLE+{name}+EXAMPLE+EXAMPLE+EXAMPLE"))
    }

    fn read_bytes(&self, _: &std::path::Path, _: u64) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn benches(criterion: &mut Criterion) {
    let settings = r#"{"region": "us-east-1", "access_key": "env:ID", "secret_key": "env:SECRET",
        "session_token": "env:TOKEN"}"#;
    let settings = serde_json::from_str(settings).unwrap();
    let mut faults = Vec::new();
    let mut building = Building {
        environment: &Keys,
        folder: &|_| PathBuf::new(),
        faults: &mut faults,
    };
    let built = AwsLogIn::build(&settings, &KeyPath::root(), &mut building);
    let Some(AwsLogIn::Fixed(signer)) = built else {
        unreachable!("the settings have fixed keys");
    };
    let request = Request::post("/model/us.anthropic.claude-opus-5-5/invoke-with-response-stream")
        .header("host", "bedrock-runtime.us-east-1.amazonaws.com")
        .header("content-type", "application/json")
        .header("user-agent", "tollgate")
        .header("accept", "application/vnd.amazon.eventstream");
    let (head, ()) = request.body(()).unwrap().into_parts();
    let mut group = criterion.benchmark_group("sign");
    for (name, size) in [
        ("1 KB", 1 << 10),
        ("100 KB", 100 << 10),
        ("10 MB", 10 << 20),
    ] {
        let body = vec![b'x'; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut head = head.clone();
                let signed = signer.sign(&mut head, black_box(&body), SystemTime::now());
                signed.unwrap();
                head
            });
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
