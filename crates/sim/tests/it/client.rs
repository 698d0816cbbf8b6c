//! A client that shows what is on the wire: it adds nothing, hides nothing and never waits
//! longer than [`PATIENCE`].

use serde_json::Value;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tollgate_sim::{Handle, Sim, SimOptions};

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const ALL: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// A server that runs for one test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
}

impl Server {
    pub(crate) async fn start(options: SimOptions) -> Self {
        let sim = options.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let server = Self {
            address: sim.local_addr().unwrap(),
            handle: sim.handle(),
        };
        tokio::spawn(sim.serve(std::future::pending()));
        server
    }

    pub(crate) async fn plain() -> Self {
        Self::start(Sim::builder()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ordered(path, "", body).await
    }

    /// A request with orders in its header.
    pub(crate) async fn ordered(&self, path: &str, orders: &str, body: &Value) -> Reply {
        let headers = format!("authorization: Bearer test\r\nx-sim: {orders}\r\n");
        self.send("POST", path, &headers, &body.to_string()).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read_reply(&mut stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Everything that came back until the connection ended.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) raw: Vec<u8>,
    /// How the connection ended, where not by an orderly end.
    pub(crate) broken: Option<std::io::ErrorKind>,
}

pub(crate) async fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut raw = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut raw))
        .await
        .expect("no end in time");
    Reply {
        raw,
        broken: ended.err().map(|fault| fault.kind()),
    }
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.head().split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn head(&self) -> String {
        String::from_utf8(self.raw[..self.head_end()].to_vec()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = self.head();
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.to_owned())
    }

    /// The chunks of the body, as the sender flushed them; the body alone where it has a
    /// length. The second is whether the body came to its end.
    pub(crate) fn chunks(&self) -> (Vec<Vec<u8>>, bool) {
        let mut rest = &self.raw[self.head_end()..];
        if let Some(length) = self.header("content-length") {
            return (
                vec![rest.to_vec()],
                rest.len() == length.parse::<usize>().unwrap(),
            );
        }
        let mut chunks = Vec::new();
        loop {
            let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(rest)
            else {
                return (chunks, false);
            };
            let size = usize::try_from(size).unwrap();
            if size == 0 {
                return (chunks, true);
            }
            let Some(chunk) = rest.get(line..line + size) else {
                return (chunks, false);
            };
            chunks.push(chunk.to_vec());
            rest = rest.get(line + size + 2..).unwrap_or_default();
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        self.chunks().0.concat()
    }

    pub(crate) fn whole(&self) -> bool {
        self.broken.is_none() && self.chunks().1
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
    }

    /// The data of each event; what is no JSON as a string.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
            .collect()
    }

    fn head_end(&self) -> usize {
        let end = memchr::memmem::find(&self.raw, b"\r\n\r\n");
        end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&self.raw))) + 4
    }
}

/// A request that says `said`, in the format of `path`.
pub(crate) fn request(path: &str, said: &str, more: Value) -> Value {
    let said = serde_json::json!([{"role": "user", "content": said}]);
    let mut body = match path {
        RESPONSES => serde_json::json!({"model": "m", "input": said}),
        MESSAGES => serde_json::json!({"model": "m", "messages": said, "max_tokens": 4096}),
        _ => serde_json::json!({"model": "m", "messages": said}),
    };
    let Value::Object(more) = more else {
        panic!("not an object")
    };
    body.as_object_mut().unwrap().extend(more);
    body
}
