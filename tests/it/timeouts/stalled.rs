//! Providers of HTTP/2 that take no further request over a connection.

use super::*;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame, read_frame,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A setting: its identifier and its value.
type Setting = [u8; 6];

const NO_STREAMS: Setting = [0, 3, 0, 0, 0, 0];
const NO_WINDOW: Setting = [0, 4, 0, 0, 0, 0];

/// A provider that sends a setting over its first connection before it answers there. Returns its address and
/// counts its connections.
async fn provider_with(setting: Setting) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            tokio::spawn(serve(stream, is_first.then_some(setting)));
        }
    });
    (address, connections)
}

/// Answers each request whose end comes.
async fn serve(mut stream: TcpStream, setting: Option<Setting>) -> Option<()> {
    const PREFACE_BYTES: usize = 24;
    const ACK: u8 = 1;
    stream.read_exact(&mut [0; PREFACE_BYTES]).await.ok()?;
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    stream.write_all(&settings).await.ok()?;
    let head = block(&[(":status", "200"), ("content-type", "application/json")]);
    let message = json!({"role": "assistant", "content": "Hi"});
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let body = body.to_string();
    loop {
        let came = read_frame(&mut stream).await?;
        if matches!(came.kind, HEADERS | DATA) && came.flags & END_STREAM != 0 {
            let setting = setting.map(|it| frame(SETTINGS, 0, 0, &it));
            let answer = [
                setting.unwrap_or_default(),
                frame(HEADERS, END_HEADERS, came.stream, &head),
                frame(DATA, END_STREAM, came.stream, body.as_bytes()),
            ];
            stream.write_all(&answer.concat()).await.ok()?;
        }
    }
}

#[tokio::test]
async fn a_connection_over_which_a_write_timed_out_carries_no_other_request() {
    join_all([NO_STREAMS, NO_WINDOW].map(async |setting| {
        let (address, connections) = provider_with(setting).await;
        let mut provider = support::provider(address);
        provider["http2"] = json!("always");
        provider["timeouts"] = json!({"read": LATE, "write": SOON});
        let config = Config::new()
            .provider("stalls", provider)
            .with("routing.health", json!({"enabled": false}))
            .model("alone", json!(["stalls"]));
        let gateway = Gateway::start(config).await;
        // The second request is sent again: over a kept connection, the provider has not taken it.
        for number in 1..=3 {
            let answer = ask(&gateway, CHAT, "alone", false).await;
            assert_eq!(answer.status, 200, "{number}, {setting:?}: {answer:?}");
        }
        let connections = connections.load(Ordering::SeqCst);
        assert_eq!(connections, 2, "{setting:?}");
    }))
    .await;
}
