//! A provider of any API: it keeps what it is asked, and answers by a script.

use super::{Act, bounded, eventually};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

type Script = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

/// The provider.
pub struct Service {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    /// Answers each request, once its body is there, by what `script` says.
    pub async fn answering(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (script, kept): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&kept)));
            }
        });
        Self { address, seen }
    }

    /// The requests whose head has come.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub fn last(&self) -> Seen {
        self.seen().pop().expect("a request")
    }

    /// Waits until so many bytes of the last request's body have come.
    pub async fn has_bytes(&self, bytes: usize) {
        let look = async || {
            let seen = self.seen.lock();
            seen.last()
                .is_some_and(|it| it.body.len() >= bytes)
                .then_some(())
        };
        eventually(&format!("{bytes} bytes"), look).await;
    }
}

async fn serve(stream: TcpStream, script: Arc<Script>, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream, &seen).await {
        for act in script(&request) {
            match act {
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Act::Wait(reported) => bounded("the test", reported.notified()).await,
                Act::Hang => while stream.read_u8().await.is_ok() {},
                Act::Reset => {
                    stream.get_ref().set_zero_linger().unwrap();
                    return;
                }
                other => panic!("{other:?} is not played here"),
            }
        }
    }
}

/// Reads a request, and shows it while its body comes. `None`: the connection has ended.
async fn read(stream: &mut BufReader<TcpStream>, seen: &Mutex<Vec<Seen>>) -> Option<Seen> {
    let mut lines = vec![line(stream).await?];
    while !lines.last()?.is_empty() {
        lines.push(line(stream).await?);
    }
    let mut first = lines.first()?.split(' ');
    let headers = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let mut request = Seen {
        method: first.next()?.to_owned(),
        target: first.next()?.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: Vec::new(),
    };
    let at = {
        let mut seen = seen.lock();
        seen.push(request.clone());
        seen.len() - 1
    };
    let is_chunked = request.header("transfer-encoding") == Some("chunked");
    let mut left: usize = match request.header("content-length") {
        Some(length) => length.parse().unwrap(),
        None => 0,
    };
    loop {
        if left == 0 && is_chunked {
            left = usize::from_str_radix(&line(stream).await?, 16).unwrap();
            if left == 0 {
                line(stream).await?;
                break;
            }
        } else if left == 0 {
            break;
        }
        let mut piece = vec![0; left.min(64 * 1024)];
        let read = stream.read(&mut piece).await.ok().filter(|it| *it > 0)?;
        left -= read;
        request.body.extend_from_slice(&piece[..read]);
        seen.lock()[at].body.extend_from_slice(&piece[..read]);
        if left == 0 && is_chunked {
            line(stream).await?;
        }
    }
    Some(request)
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.ok()?);
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).ok()
}
