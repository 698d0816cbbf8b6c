use super::*;
use axum::Extension;
use axum::routing::get;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(300);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(10);

/// A server with a page, a body of 4 MiB, and an operation that ends on demand.
struct Server {
    address: std::net::SocketAddr,
    finish: Arc<Notify>,
    running: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(patience: Duration) -> Self {
        let finish = Arc::new(Notify::new());
        let running = Arc::new(AtomicUsize::new(0));
        let (reported, count) = (Arc::clone(&finish), Arc::clone(&running));
        let work = async move |Extension(activity): Extension<Arc<Activity>>| {
            let _working = activity.work();
            count.fetch_add(1, Ordering::Relaxed);
            reported.notified().await;
            "done"
        };
        let app = Router::new()
            .route("/page", get(async || "page"))
            .route("/large", get(async || "x".repeat(4 << 20)))
            .route("/body", axum::routing::post(async |body: String| body))
            .route("/work", get(work));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(serve(listener, app, patience, async {
            let _ = stopped.await;
        }));
        Self {
            address,
            finish,
            running,
            stop,
            ended,
        }
    }

    async fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }

    /// A connection on which the operation runs.
    async fn work(&self) -> TcpStream {
        let before = self.running.load(Ordering::Relaxed);
        let stream = self.send(&request("/work")).await;
        while self.running.load(Ordering::Relaxed) == before {
            tokio::task::yield_now().await;
        }
        stream
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SLACK, work).await.expect("in time")
}

/// Everything until the connection ends; an end by force is an end.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = bounded(stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

async fn answer(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut more = [0; 1024];
        let size = bounded(stream.read(&mut more)).await.unwrap();
        assert!(size > 0, "{text}");
        text += std::str::from_utf8(&more[..size]).unwrap();
    }
    text
}

#[tokio::test]
async fn a_connection_that_completes_no_request_is_closed_in_time() {
    let server = Server::start(SHORT).await;
    let half = "POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nhalf";
    for (what, bytes) in [
        ("silent", ""),
        ("half a head", "GET /page HTTP/1.1\r\nhost"),
        ("half a body", half),
        ("idle after an answer", &request("/page")),
    ] {
        let begun = Instant::now();
        let stream = server.send(bytes).await;
        rest(stream).await;
        assert!(begun.elapsed() >= SHORT, "{what}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_in_time() {
    let server = Server::start(SHORT).await;
    let mut stream = server.send(&request("/large").repeat(8)).await;
    // The server closes with bytes unread: no request gets through any more.
    let closed = async {
        while stream.write_all(request("/page").as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    bounded(closed).await;
}

#[tokio::test]
async fn a_head_that_trickles_in_is_not_kept_alive_by_its_bytes() {
    let server = Server::start(SHORT).await;
    let mut stream = server.send("GET /page HTTP/1.1\r\nx: ").await;
    let closed = async {
        while stream.write_all(b"y").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    bounded(closed).await;
}

#[tokio::test]
async fn an_operation_outlives_the_patience_and_any_number_of_newer_connections() {
    let server = Server::start(SHORT).await;
    let mut stream = server.work().await;
    let mut crowd = Vec::new();
    for _ in 0..2 * MOST {
        crowd.push(server.send("").await);
    }
    for silent in crowd {
        rest(silent).await;
    }
    server.finish.notify_waiters();
    let reported = answer(&mut stream, "done").await;
    assert!(reported.starts_with("HTTP/1.1 200"), "{reported}");
}

#[tokio::test]
async fn the_longest_waiting_connection_makes_room_for_a_new_one() {
    let server = Server::start(LONG).await;
    let mut crowd = Vec::new();
    for _ in 0..MOST_FROM_ONE {
        let mut stream = server.send(&request("/page")).await;
        answer(&mut stream, "page").await;
        crowd.push(stream);
    }
    // The first has just been used again: the second has waited longest.
    crowd[0]
        .write_all(request("/page").as_bytes())
        .await
        .unwrap();
    answer(&mut crowd[0], "page").await;
    let mut newest = server.send(&request("/page")).await;
    answer(&mut newest, "page").await;
    rest(crowd.remove(1)).await;
    for stream in &mut crowd {
        stream.write_all(request("/page").as_bytes()).await.unwrap();
        answer(stream, "page").await;
    }
}

#[tokio::test]
async fn at_the_end_an_operation_finishes_and_idle_connections_are_closed() {
    let server = Server::start(LONG).await;
    let mut idle = server.send(&request("/page")).await;
    answer(&mut idle, "page").await;
    let mut stream = server.work().await;
    server.stop.send(()).unwrap();
    rest(idle).await;
    assert!(!server.ended.is_finished());
    server.finish.notify_waiters();
    let reported = answer(&mut stream, "done").await;
    assert!(reported.starts_with("HTTP/1.1 200"), "{reported}");
    bounded(server.ended).await.unwrap();
}

/// Connections of `clients`, given as the last bytes of addresses, of which none works.
async fn room(clients: impl IntoIterator<Item = u8>) -> Room {
    let mut room = Room::default();
    for client in clients {
        room.open.push(Open {
            network: ClientNetwork::from(IpAddr::from([192, 0, 2, client])),
            activity: Arc::default(),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        });
    }
    room
}

#[tokio::test]
async fn of_several_networks_the_one_with_the_most_connections_makes_room() {
    let newcomer = ClientNetwork::from(IpAddr::from([198, 51, 100, 1]));
    // The oldest connections are the only ones of their networks.
    let few = (1..=20).chain(std::iter::repeat_n(100, MOST - 20));
    let mut room = room(few).await;
    assert!(room.make(newcomer));
    assert_eq!(room.open.len(), MOST - 1);
    let kept = |client| {
        room.open
            .iter()
            .any(|it| it.network == ClientNetwork::from(IpAddr::from([192, 0, 2, client])))
    };
    assert!((1..=20).all(kept));
}

#[tokio::test]
async fn a_working_connection_never_makes_room() {
    let mut room = room(std::iter::repeat_n(1, MOST_FROM_ONE)).await;
    let working: Vec<_> = room
        .open
        .iter()
        .map(|it| Arc::clone(&it.activity).work())
        .collect();
    let network = ClientNetwork::from(IpAddr::from([192, 0, 2, 1]));
    assert!(!room.make(network));
    assert!(room.make(ClientNetwork::from(IpAddr::from([192, 0, 2, 2]))));
    drop(working);
    assert!(room.make(network));
    assert_eq!(room.open.len(), MOST_FROM_ONE - 1);
}
