//! The operator port stays reachable, and only under names that its operator has chosen.

use super::*;
use futures::future::join_all;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// How long a client writes to a port that takes no more.
const A_SECOND: Duration = Duration::from_secs(1);
const CROWD: u16 = 300;
/// The loopback address has a whole /8 of neighbours.
const ADDRESSES: u16 = 6;

const CHECKED: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/api/v1/keys"];

/// What a client does with a connection before it goes quiet.
#[derive(Clone, Copy, Debug)]
enum Quiet {
    Silent,
    HalfHead,
    Idle,
    HalfBody,
}

impl Quiet {
    async fn open(self, server: SocketAddr, from: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, from));
        socket.bind(SocketAddr::new(address, 0)).unwrap();
        let mut stream = bounded("a connection", socket.connect(server))
            .await
            .unwrap();
        let order = Request::post("/api/v1/keys", &json!({"name": "never whole"})).key(TOKEN);
        let bytes = match self {
            Self::Silent => Vec::new(),
            Self::HalfHead => b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx".to_vec(),
            Self::Idle => Request::get("/healthz").bytes(),
            Self::HalfBody => {
                let mut bytes = order.bytes();
                bytes.pop();
                bytes
            }
        };
        // One that is closed meanwhile has made room for another.
        if stream.write_all(&bytes).await.is_ok() && matches!(self, Self::Idle) {
            let _ = bounded("an answer", stream.read(&mut [0; 1024])).await;
        }
        stream
    }
}

async fn assert_reachable(office: &Office, what: &str, paths: &[&str]) {
    for path in paths {
        let begun = Instant::now();
        let answer = tokio::time::timeout(support::AT_ONCE, office.get(path)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{what}: no answer from {path}"));
        assert_eq!(answer.status, 200, "{what}: {path}");
        println!("{what}: {path} after {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn quiet_connections_of_one_address_keep_no_request_out() {
    let office = Office::open().await;
    let port = office.gateway.admin;
    for quiet in [Quiet::Silent, Quiet::HalfHead, Quiet::Idle, Quiet::HalfBody] {
        let crowd = join_all((0..CROWD).map(|_| quiet.open(port, 1))).await;
        assert_reachable(&office, &format!("{quiet:?}"), &CHECKED).await;
        drop(crowd);
    }
}

#[tokio::test]
async fn quiet_connections_of_several_addresses_keep_no_request_out() {
    let office = Office::open().await;
    let port = office.gateway.admin;
    let kinds = [Quiet::Silent, Quiet::HalfHead, Quiet::Idle, Quiet::HalfBody];
    let crowd = (0..CROWD).map(|number| {
        let quiet = kinds[usize::from(number) % kinds.len()];
        let from = 2 + u8::try_from(number % ADDRESSES).unwrap();
        quiet.open(port, from)
    });
    let crowd = join_all(crowd).await;
    assert_reachable(&office, "several addresses", &CHECKED).await;
    drop(crowd);
}

#[tokio::test]
async fn a_crowd_that_asks_for_metrics_keeps_no_health_check_waiting() {
    let office = Office::open().await;
    let many = Request::get("/metrics").bytes().repeat(20);
    let open = (0..48).map(async |_| {
        let mut stream = Quiet::Silent.open(office.gateway.admin, 1).await;
        // Nothing is read: what is not taken in stays where it is.
        let write = stream.write_all(&many);
        let _ = tokio::time::timeout(A_SECOND, write).await;
        stream
    });
    let crowd = join_all(open).await;
    for _ in 0..3 {
        assert_reachable(&office, "metrics", &CHECKED[..2]).await;
    }
    drop(crowd);
}

#[tokio::test]
async fn an_order_that_waits_for_the_ledger_keeps_its_connection() {
    let office = Office::open().await;
    let file = office.gateway.folder.path().join("tollgate.db");
    let other = rusqlite::Connection::open(file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let order = Request::post("/api/v1/keys", &json!({"name": "waits"})).key(TOKEN);
    let mut waiting = Connection::open(office.gateway.admin).await;
    waiting.write(&order.bytes()).await;
    let crowd = (0..CROWD).map(|_| Quiet::Silent.open(office.gateway.admin, 1));
    let crowd = join_all(crowd).await;
    // Orders wait for the ledger as well.
    assert_reachable(&office, "an order waits", &CHECKED[..3]).await;
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waiting.answer(&order).await.status, 201);
    drop(crowd);
}

/// Asks with a `Host` of one's own.
async fn ask(office: &Office, path: &str, host: &str) -> Answer {
    let mut connection = Connection::open(office.gateway.admin).await;
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    connection.write(head.as_bytes()).await;
    connection.answer(&Request::get(path)).await
}

#[tokio::test]
async fn a_host_name_that_the_operator_has_not_allowed_is_refused_on_every_path() {
    let office = Office::open().await;
    let paths = ["/", "/nothing", "/api/v1/openapi.json", "/api/v1/nothing"];
    for path in CHECKED.iter().chain(&paths) {
        for host in [
            "evil.example",
            "evil.example:9080",
            "127.0.0.1.evil.example",
        ] {
            let refused = ask(&office, path, host).await;
            refused.assert_error(403, "permission_denied");
            assert!(refused.message().contains("admin.hosts"), "{refused:?}");
            assert!(refused.header("x-request-id").is_some(), "{refused:?}");
        }
    }
    for path in CHECKED {
        for host in ["localhost", "127.0.0.1:9080", "[::1]", "192.0.2.1"] {
            ask(&office, path, host).await.assert_ok();
        }
    }
    for path in ["/nothing", "/api/v1/nothing"] {
        let missing = ask(&office, path, "localhost").await;
        missing.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn allowed_host_names_are_taken_from_the_next_configuration() {
    let office = Office::open().await;
    let host = "Tollgate.internal:9080";
    ask(&office, "/healthz", host)
        .await
        .assert_error(403, "permission_denied");
    let config = office.gateway.config();
    office
        .gateway
        .rewrite(config.with("admin.hosts", json!(["tollgate.internal"])));
    office.gateway.signal("HUP").await;
    office.gateway.log_line("was reloaded").await;
    ask(&office, "/healthz", host).await.assert_ok();
    ask(&office, "/healthz", "evil.example")
        .await
        .assert_error(403, "permission_denied");
}

#[tokio::test]
async fn a_request_without_a_host_is_malformed_unless_it_is_of_http_1_0() {
    let office = Office::open().await;
    for (version, status) in [("1.1", 400), ("1.0", 200)] {
        let mut connection = Connection::open(office.gateway.admin).await;
        let head = format!("GET /healthz HTTP/{version}\r\n\r\n");
        connection.write(head.as_bytes()).await;
        assert_eq!(connection.head().await.status, status, "HTTP/{version}");
    }
}

#[tokio::test]
async fn a_malformed_host_name_is_a_fault_of_the_configuration() {
    let folder = TempDir::new().unwrap();
    let provider = Provider::start().await;
    let file = folder.path().join("tollgate.yaml");
    for wrong in ["http://tollgate.internal", "tollgate.internal:9080", ""] {
        let config = Config::of(&provider).with("admin.hosts", json!([wrong]));
        std::fs::write(&file, config.0.to_string()).unwrap();
        let output = support::Output::of(tollgate().arg("check").arg(&file)).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains("admin.hosts[0]"), "{output:?}");
    }
}
