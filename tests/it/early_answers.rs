//! A provider that answers before it has taken the whole request has answered: its answer
//! reaches the caller, whichever HTTP it speaks.

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, block, frame,
};
use crate::support::{self, Authority, CHAT, Config, Gateway, Request, provider_at};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const KIB: usize = 1024;
const REFUSAL: &[u8] = br#"{"error":{"message":"no","type":"invalid_request_error"}}"#;

/// A provider that says a status as soon as it has the head, and wants nothing of the body.
struct Hasty {
    address: String,
    /// Requests of HTTP/1.1, and of HTTP/2.
    spoken: Arc<[AtomicUsize; 2]>,
}

/// What a provider does with a request over HTTP/2.
#[derive(Clone, Copy)]
enum OverHttp2 {
    Answers,
    DoesNotEnd,
    RequiresHttp1,
}

impl Hasty {
    async fn saying(status: u16, tls: Option<support::Identity>) -> Self {
        Self::start(status, OverHttp2::Answers, tls).await
    }

    async fn start(status: u16, over_http2: OverHttp2, tls: Option<support::Identity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let spoken: Arc<[AtomicUsize; 2]> = Arc::default();
        let counted = Arc::clone(&spoken);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let acceptor = tls.map(|it| it.acceptor_for(&["h2", "http/1.1"]));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    match acceptor {
                        None => answer(stream, status, over_http2, &counted).await,
                        Some(acceptor) => {
                            let stream = acceptor.accept(stream).await.unwrap();
                            answer(stream, status, over_http2, &counted).await;
                        }
                    }
                });
            }
        });
        Self {
            address: format!("{scheme}://{at}"),
            spoken,
        }
    }

    fn spoken(&self) -> [usize; 2] {
        [0, 1].map(|at| self.spoken[at].load(Ordering::SeqCst))
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    status: u16,
    over_http2: OverHttp2,
    counted: &[AtomicUsize; 2],
) {
    let mut begin = [0; 24];
    if stream.read_exact(&mut begin).await.is_err() {
        return;
    }
    if begin.starts_with(b"PRI ") {
        return answer_http2(stream, status, over_http2, &counted[1]).await;
    }
    counted[0].fetch_add(1, Ordering::SeqCst);
    let mut head = begin.to_vec();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let length = REFUSAL.len();
    let head = format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let said = [head.as_bytes(), REFUSAL].concat();
    stream.write_all(&said).await.unwrap();
    stream.flush().await.unwrap();
    // What still comes is read and thrown away, as servers do.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Answers each stream as it begins, and opens no window for more of its body.
async fn answer_http2(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    status: u16,
    over_http2: OverHttp2,
    counted: &AtomicUsize,
) {
    /// `HTTP_1_1_REQUIRED` (RFC 9113, section 7).
    const HTTP1_REQUIRED: &[u8] = &[0, 0, 0, 13];
    let status = status.to_string();
    let head = block(&[(":status", &status), ("content-type", "application/json")]);
    let mut said = frame(SETTINGS, 0, 0, &[]);
    loop {
        stream.write_all(&said).await.unwrap();
        stream.flush().await.unwrap();
        let Some(begun) = next_stream(&mut stream).await else {
            return;
        };
        counted.fetch_add(1, Ordering::SeqCst);
        said = match over_http2 {
            OverHttp2::RequiresHttp1 => frame(RST_STREAM, 0, begun, HTTP1_REQUIRED),
            OverHttp2::DoesNotEnd => [
                frame(HEADERS, END_HEADERS, begun, &head),
                frame(DATA, 0, begun, REFUSAL),
            ]
            .concat(),
            OverHttp2::Answers => [
                frame(HEADERS, END_HEADERS, begun, &head),
                frame(DATA, END_STREAM, begun, REFUSAL),
                // No fault: the rest of the body is not wanted (RFC 9113, section 8.1).
                frame(RST_STREAM, 0, begun, &[0; 4]),
            ]
            .concat(),
        };
    }
}

/// Reads on to the next stream that begins; `None` at the end of the connection.
async fn next_stream(stream: &mut (impl AsyncRead + Unpin)) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(size).unwrap()];
        stream.read_exact(&mut payload).await.ok()?;
        if head[3] == HEADERS {
            return Some(u32::from_be_bytes(head[5..9].try_into().unwrap()));
        }
    }
}

async fn gateway(hasty: &Hasty, authority: &Authority, http2: &str) -> Gateway {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
    let mut settings = provider_at(&hasty.address);
    settings["http2"] = json!(http2);
    if hasty.address.starts_with("https") {
        settings["tls"] = json!({"ca": "own.pem", "server_name": "provider.test"});
    }
    let config = Config::new()
        .provider("hasty", settings)
        .with("failover", json!({"again": 0}))
        .model("test-model", json!(["hasty"]));
    Gateway::start_in(folder, config).await
}

fn request(gateway: &Gateway, size: usize) -> Request {
    let said = "a ".repeat(size / 2);
    let body = support::prompt(CHAT, "test-model", &said, json!({}));
    Request::post(CHAT, &body).key(&gateway.key)
}

#[tokio::test]
async fn an_answer_before_the_whole_body_is_sent_reaches_the_client() {
    let authority = Authority::new();
    for (status, reported, code) in [
        (413, 413, "upstream_error"),
        (429, 429, "rate_limit_exceeded"),
        (401, 502, "upstream_error"),
    ] {
        let hasty = Hasty::saying(status, Some(authority.issue("provider.test"))).await;
        let gateway = gateway(&hasty, &authority, "auto").await;
        for size in [KIB, 60 * KIB, 70 * KIB, 2 * KIB * KIB] {
            let answer = gateway.send(&request(&gateway, size)).await;
            assert_eq!(
                answer.error(),
                (reported, code.to_owned()),
                "{size}: {answer:?}"
            );
        }
        assert_eq!(hasty.spoken(), [2, 2], "large bodies go over HTTP/1.1");
    }
}

#[tokio::test]
async fn a_provider_that_is_to_be_asked_over_http2_alone_is() {
    let authority = Authority::new();
    let hasty = Hasty::saying(413, None).await;
    let gateway = gateway(&hasty, &authority, "always").await;
    let answer = gateway.send(&request(&gateway, 60 * KIB)).await;
    answer.assert_error(413, "upstream_error");
    // What is larger breaks off: Pingora does not look for an answer before the whole body is taken.
    let answer = gateway.send(&request(&gateway, 2 * KIB * KIB)).await;
    answer.assert_error(503, "service_unavailable");
    assert_eq!(hasty.spoken(), [0, 2]);
}

#[tokio::test]
async fn a_provider_that_requires_http_1_1_is_asked_over_it() {
    let authority = Authority::new();
    let tls = Some(authority.issue("provider.test"));
    let hasty = Hasty::start(413, OverHttp2::RequiresHttp1, tls).await;
    let gateway = gateway(&hasty, &authority, "auto").await;
    for spoken in [[1, 1], [2, 1]] {
        let answer = gateway.send(&request(&gateway, KIB)).await;
        answer.assert_error(413, "upstream_error");
        assert_eq!(hasty.spoken(), spoken);
    }
}

#[tokio::test]
async fn an_error_over_http2_that_does_not_end_is_the_error_of_its_head() {
    let hasty = Hasty::start(429, OverHttp2::DoesNotEnd, None).await;
    let gateway = gateway(&hasty, &Authority::new(), "always").await;
    let answer = gateway.send(&request(&gateway, KIB)).await;
    answer.assert_error(429, "rate_limit_exceeded");
}

/// Says so much of an answer, and resets the connection.
async fn breaking_off(said: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(break_off(stream, said));
        }
    });
    address
}

async fn break_off(mut stream: TcpStream, said: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(said.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn an_error_that_is_cut_short_is_the_error_of_its_head() {
    let said = "HTTP/1.1 429 Slow\r\ncontent-type: application/json\r\nretry-after: 7\r\n\
                content-length: 500\r\n\r\n{\"error\":";
    let config = Config::new()
        .provider("cut", provider_at(&breaking_off(said).await))
        .model("test-model", json!(["cut"]));
    let gateway = Gateway::start(config).await;
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_error(429, "rate_limit_exceeded");
    assert_eq!(answer.header("retry-after"), Some("7"), "{answer:?}");
}
