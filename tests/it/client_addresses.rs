//! The client's address behind a load balancer: the PROXY protocol and `x-forwarded-for`, trusted
//! from trusted networks alone.

use crate::support::slow::from;
use crate::support::{
    self, Authority, CHAT, Config, Connection, Ending, Gateway, Http2, Nginx, Provider, Request,
    bounded, prompt,
};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_ledger::ApiKey;

/// The address of the load balancer in these tests, the only one that is trusted, and another.
const BALANCER: [u8; 4] = [127, 0, 0, 1];
const STRANGER: [u8; 4] = [127, 0, 0, 2];

const V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

async fn gateway(more: impl FnOnce(Config) -> Config) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.trusted_proxies", json!(["127.0.0.1"]));
    let gateway = Gateway::start(more(config)).await;
    (provider, gateway)
}

fn behind_proxy_protocol(config: Config) -> Config {
    config.with("server.listen", json!([{"proxy_protocol": true}]))
}

fn ask(key: &str) -> Request {
    Request::post(CHAT, &prompt(CHAT, "test-model", "Hi", Value::Null)).key(key)
}

/// A header of version 2: command, family and protocol, and what follows.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [&V2[..], &[0x20 | command, family], &length, block].concat()
}

/// The addresses of a client at 203.0.113.7 and of the balancer, in the blocks of version 2.
fn block_of_v4() -> Vec<u8> {
    let addresses = [[203, 0, 113, 7], [127, 0, 0, 1]].concat();
    [addresses, vec![0x9c, 0x40, 0x01, 0xbb]].concat()
}

fn block_of_v6() -> Vec<u8> {
    let client: std::net::Ipv6Addr = "2001:db8::7".parse().unwrap();
    let addresses = [client.octets(), client.octets()].concat();
    [addresses, vec![0x9c, 0x40, 0x01, 0xbb]].concat()
}

/// The client of the request that got the last line of the access log with this path.
async fn client_of(gateway: &Gateway, answer: &support::Answer) -> Value {
    answer.assert_ok();
    gateway.line_of(answer).await["client"].clone()
}

#[tokio::test]
async fn a_header_of_the_proxy_protocol_names_the_client() {
    let (_provider, gateway) = gateway(behind_proxy_protocol).await;
    let unix = vec![b'/'; 216];
    let with_more = [block_of_v4(), b"\x04\0\x02hi".to_vec()].concat();
    let large = [block_of_v4(), vec![0; 4000]].concat();
    for (header, client) in [
        (
            b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec(),
            "203.0.113.7",
        ),
        (
            b"PROXY TCP6 2001:db8::7 ::1 40000 443\r\n".to_vec(),
            "2001:db8::7",
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (
            b"PROXY UNKNOWN ff:: ff:: 65535 65535\r\n".to_vec(),
            "127.0.0.1",
        ),
        (v2(1, 0x11, &block_of_v4()), "203.0.113.7"),
        (v2(1, 0x11, &with_more), "203.0.113.7"),
        (v2(1, 0x11, &large), "203.0.113.7"),
        (v2(1, 0x21, &block_of_v6()), "2001:db8::7"),
        // The balancer's own, as for health checks; what stands in the block says nothing then.
        (v2(0, 0x00, &[]), "127.0.0.1"),
        (v2(0, 0x11, &block_of_v4()), "127.0.0.1"),
        (v2(0, 0x11, &[]), "127.0.0.1"),
        (v2(1, 0x00, &[]), "127.0.0.1"),
        (v2(1, 0x31, &unix), "127.0.0.1"),
    ] {
        let shown = String::from_utf8_lossy(&header).into_owned();
        // With the request in one piece, and byte by byte.
        for in_pieces in [false, true] {
            let mut stream = from(BALANCER, gateway.address).await;
            stream.set_nodelay(true).unwrap();
            if in_pieces && header.len() < 100 {
                for byte in &header {
                    stream.write_all(&[*byte]).await.unwrap();
                }
            } else {
                let first = [&header[..], &ask(&gateway.key).bytes()].concat();
                stream.write_all(&first).await.unwrap();
                let mut connection = Connection::over(stream);
                let answer = connection.answer(&ask(&gateway.key)).await;
                assert_eq!(client_of(&gateway, &answer).await, client, "{shown:?}");
                // The next request is of the same client, and begins without a header.
                let answer = connection.send(&ask(&gateway.key)).await;
                assert_eq!(client_of(&gateway, &answer).await, client, "{shown:?}");
                continue;
            }
            let answer = Connection::over(stream).send(&ask(&gateway.key)).await;
            assert_eq!(client_of(&gateway, &answer).await, client, "{shown:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_without_a_good_header_is_closed_without_an_answer() {
    let (_provider, gateway) = gateway(|it| {
        behind_proxy_protocol(it).with("server.limits", json!({"head_timeout": "1s"}))
    })
    .await;
    let too_long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
    let much = [block_of_v4(), vec![0; 5000]].concat();
    let headers = [
        // None at all.
        ask(&gateway.key).bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and the rest of a hello".to_vec(),
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40000\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443 5\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\n".to_vec(),
        b"PROXY TCP4 203.0.113.07 127.0.0.1 40000 443\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.7 127.0.0.1 +4000 443\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 65536\r\n".to_vec(),
        b"PROXY TCP4 2001:db8::7 127.0.0.1 40000 443\r\n".to_vec(),
        b"PROXY TCP6 203.0.113.7 ::1 40000 443\r\n".to_vec(),
        b"PROXY  TCP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec(),
        b"proxy TCP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec(),
        b"PROXYxTCP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec(),
        b"PROXY UNKNOWNs\r\n".to_vec(),
        b"PROXY UDP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec(),
        too_long.into_bytes(),
        v2(2, 0x11, &block_of_v4()),
        v2(1, 0x11, &block_of_v4()[..11]),
        v2(1, 0x21, &block_of_v4()),
        v2(1, 0x12, &block_of_v4()),
        v2(1, 0x41, &block_of_v4()),
        v2(1, 0x11, &much),
        [&V2[..], &[0x11, 0x11, 0, 12], &block_of_v4()].concat(),
    ];
    for header in &headers {
        let shown = String::from_utf8_lossy(header);
        let mut stream = from(BALANCER, gateway.address).await;
        stream.write_all(header).await.unwrap();
        // It may be reset, since what follows is not read.
        let _ = stream.write_all(&ask(&gateway.key).bytes()).await;
        assert_eq!(said(&mut stream).await, "", "{shown:?}");
    }
    // One that does not come, and one that trickles.
    for byte in [None, Some(b'P')] {
        let mut stream = from(BALANCER, gateway.address).await;
        if let Some(byte) = byte {
            stream.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(said(&mut stream).await, "");
    }
    let refused = "tollgate_connections_refused_total{reason=\"proxy_header\"}";
    let count = u32::try_from(headers.len() + 2).unwrap();
    gateway.sample_is(refused, f64::from(count)).await;
    gateway.sample_is("tollgate_connections", 0.0).await;
    // None of them became a request.
    assert_eq!(gateway.total("tollgate_requests_total").await, 0.0);
}

/// All that comes until the other side closes.
async fn said(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = bounded("the end of a connection", stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn an_untrusted_peer_is_not_served_behind_the_proxy_protocol() {
    let (_provider, gateway) = gateway(behind_proxy_protocol).await;
    let header = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n".to_vec();
    for first in [header.clone(), Vec::new()] {
        let mut stream = from(STRANGER, gateway.address).await;
        let _ = stream.write_all(&first).await;
        let _ = stream.write_all(&ask(&gateway.key).bytes()).await;
        assert_eq!(said(&mut stream).await, "");
    }
    let refused = "tollgate_connections_refused_total{reason=\"untrusted\"}";
    gateway.sample_is(refused, 2.0).await;
    // Trust is looked at anew with each connection.
    let config = gateway.config();
    gateway.rewrite(config.with("server.trusted_proxies", json!(["127.0.0.2/32", "::1"])));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    let mut stream = from(STRANGER, gateway.address).await;
    stream.write_all(&header).await.unwrap();
    let answer = Connection::over(stream).send(&ask(&gateway.key)).await;
    assert_eq!(client_of(&gateway, &answer).await, "203.0.113.7");
}

#[tokio::test]
async fn the_proxy_protocol_goes_before_tls_and_before_http2() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = TempDir::new().unwrap();
    authority.issue("gateway.test").write(folder.path(), "tls");
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    let config = Config::of(&provider)
        .with(
            "server.listen",
            json!([{"proxy_protocol": true, "tls": tls}]),
        )
        .with("server.limits", json!({"head_timeout": "10s"}))
        .with("server.trusted_proxies", json!(["127.0.0.0/31"]));
    let gateway = Gateway::start_in(folder, config).await;
    let header = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n";
    for header in [header.to_vec(), v2(1, 0x11, &block_of_v4())] {
        let open = async |alpn| {
            let mut stream = from(BALANCER, gateway.address).await;
            stream.write_all(&header).await.unwrap();
            let alpn = [alpn];
            let session = authority.try_connect_over(stream, "gateway.test", &alpn);
            session.await.unwrap()
        };
        let mut connection = Connection::over(open("http/1.1").await);
        let answer = connection.send(&ask(&gateway.key)).await;
        assert_eq!(client_of(&gateway, &answer).await, "203.0.113.7");
        let mut connection = Http2::over(open("h2").await).await;
        let answer = connection.send(&ask(&gateway.key)).await;
        assert_eq!(client_of(&gateway, &answer).await, "203.0.113.7");
    }
    // Without a header, and from elsewhere.
    for (address, first) in [(BALANCER, &b""[..]), (STRANGER, header)] {
        let mut stream = from(address, gateway.address).await;
        stream.write_all(first).await.unwrap();
        // It may be reset, since what follows is not read.
        let _ = stream.write_all(b"\x16\x03\x01\x00\x05hello").await;
        assert_eq!(said(&mut stream).await, "");
    }
    gateway.sample_is("tollgate_connections", 0.0).await;
}

#[tokio::test]
async fn a_real_balancer_passes_its_clients_on() {
    let (_provider, gateway) = gateway(behind_proxy_protocol).await;
    let Some(nginx) = Nginx::balancing(gateway.address).await else {
        return;
    };
    let mut connection = Connection::over(from([127, 0, 0, 9], nginx.address).await);
    for _ in 0..2 {
        let answer = connection.send(&ask(&gateway.key)).await;
        assert_eq!(client_of(&gateway, &answer).await, "127.0.0.9");
    }
    nginx.stop().await;
}

#[tokio::test]
async fn connections_are_bounded_by_the_clients_address_and_not_by_the_balancers() {
    let (_provider, gateway) = gateway(|it| {
        behind_proxy_protocol(it).with("server.limits", json!({"connections_per_address": 2}))
    })
    .await;
    let open = async |client: u8| {
        let mut stream = from(BALANCER, gateway.address).await;
        let header = format!("PROXY TCP4 203.0.113.{client} 127.0.0.1 40000 443\r\n");
        stream.write_all(header.as_bytes()).await.unwrap();
        stream
    };
    let mut held = Vec::new();
    for client in [1, 1, 2, 2] {
        let mut connection = Connection::over(open(client).await);
        connection.send(&ask(&gateway.key)).await.assert_ok();
        held.push(connection);
    }
    assert_eq!(said(&mut open(1).await).await, "");
    let refused = "tollgate_connections_refused_total{reason=\"address\"}";
    gateway.sample_is(refused, 1.0).await;
    drop(held.remove(0));
    gateway.sample_is("tollgate_connections", 3.0).await;
    let mut connection = Connection::over(open(1).await);
    connection.send(&ask(&gateway.key)).await.assert_ok();
}

#[tokio::test]
async fn a_proxy_that_is_trusted_says_whose_a_request_is() {
    let trusted = json!(["127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48"]);
    let (provider, gateway) = gateway(|it| it.with("server.trusted_proxies", trusted)).await;
    for (headers, client) in [
        (&[][..], "127.0.0.1"),
        (&["203.0.113.7"][..], "203.0.113.7"),
        (&["2001:db8::7"][..], "2001:db8::7"),
        // What the client itself has sent stands before what the proxies have added.
        (&["8.8.8.8, 203.0.113.7"], "203.0.113.7"),
        (&["8.8.8.8, 203.0.113.7, 10.1.2.3"], "203.0.113.7"),
        (
            &["8.8.8.8", "203.0.113.7", "10.1.2.3,2001:db8:1::5"],
            "203.0.113.7",
        ),
        (&["10.1.2.3, 10.1.2.4"], "10.1.2.3"),
        (&["::ffff:203.0.113.7, ::ffff:10.1.2.3"], "203.0.113.7"),
        (&["203.0.113.7:4711, 10.1.2.3:80"], "203.0.113.7"),
        (&["[2001:db8::7]:4711"], "2001:db8::7"),
        // Anything that is not an address ends it: what stands before it cannot be trusted.
        (&["203.0.113.7, unknown, 10.1.2.3"], "10.1.2.3"),
        (&["203.0.113.7, "], "127.0.0.1"),
        (&["'; drop table clients"], "127.0.0.1"),
    ] {
        let mut request = ask(&gateway.key);
        for header in headers {
            request = request.header("x-forwarded-for", header);
        }
        let stream = from(BALANCER, gateway.address).await;
        let answer = Connection::over(stream).send(&request).await;
        assert_eq!(client_of(&gateway, &answer).await, client, "{headers:?}");
        // From anywhere else it says nothing.
        let stream = from(STRANGER, gateway.address).await;
        let answer = Connection::over(stream).send(&request).await;
        assert_eq!(
            client_of(&gateway, &answer).await,
            "127.0.0.2",
            "{headers:?}"
        );
    }
    for received in provider.received() {
        let names = received.headers.keys().map(|name| name.as_str());
        let forwarded: Vec<_> = names.filter(|it| it.contains("forwarded")).collect();
        assert_eq!(forwarded, [""; 0], "no provider hears of it");
    }
}

#[tokio::test]
async fn without_trusted_proxies_forwarded_addresses_are_ignored() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let request = ask(&gateway.key).header("x-forwarded-for", "203.0.113.7");
    let answer = gateway.send(&request).await;
    assert_eq!(client_of(&gateway, &answer).await, "127.0.0.1");
}

#[tokio::test]
async fn wrong_keys_are_counted_by_client() {
    let (_provider, gateway) = gateway(|it| {
        it.with("keys.failed_attempts_per_minute", json!(3))
            .with("server.limits", json!({"connections_per_address": 1}))
    })
    .await;
    let guess = |client: &str| {
        let key = ApiKey::generate().unwrap();
        let guess = Request::get("/v1").key(key.expose());
        guess.header("x-forwarded-for", client)
    };
    // The balancer itself may have as many connections as it needs.
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(Connection::over(from(BALANCER, gateway.address).await));
    }
    let connection = &mut connections[2];
    for status in [401, 401, 401, 429, 429] {
        let answer = connection.send(&guess("203.0.113.7")).await;
        assert_eq!(answer.status, status);
    }
    let answer = connection.send(&guess("203.0.113.8")).await;
    assert_eq!(answer.status, 401);
    // A peer that is not trusted is counted by its own address.
    let mut connection = Connection::over(from(STRANGER, gateway.address).await);
    for (client, status) in [(1, 401), (2, 401), (3, 401), (4, 429)] {
        let answer = connection
            .send(&guess(&format!("203.0.113.{client}")))
            .await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn a_header_that_comes_in_time_but_slowly_is_taken() {
    let (_provider, gateway) = gateway(behind_proxy_protocol).await;
    let mut stream = from(BALANCER, gateway.address).await;
    stream.set_nodelay(true).unwrap();
    for piece in ["PROXY TCP4 203.0", ".113.7 127.0.0.1 40000 443", "\r", "\n"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut connection = Connection::over(stream);
    let answer = connection.send(&ask(&gateway.key)).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert_eq!(client_of(&gateway, &answer).await, "203.0.113.7");
}
