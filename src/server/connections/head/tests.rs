use super::*;

const MOST: usize = 8 * 1024;

fn read(head: &[u8]) -> Result<Option<Head>, Fault> {
    let mut reader = HeadReader::default();
    let whole = reader.read(head, MOST);
    // Byte by byte it comes to the same.
    let mut reader = HeadReader::default();
    let mut grown = Ok(None);
    for end in 1..=head.len() {
        grown = reader.read(&head[..end], MOST);
        if !matches!(grown, Ok(None)) {
            break;
        }
    }
    assert_eq!(grown, whole, "{}", head.escape_ascii());
    whole
}

fn reason(head: &[u8]) -> Reason {
    match read(head) {
        Err(fault) => fault.reason,
        Ok(read) => panic!("{} was read: {read:?}", head.escape_ascii()),
    }
}

fn with(headers: &str) -> Vec<u8> {
    format!("POST /v1/messages HTTP/1.1\r\nHost: a\r\n{headers}\r\n").into_bytes()
}

#[test]
fn a_head_is_read_to_its_end_and_no_further() {
    let head = with("Content-Length: 5\r\n");
    let size = head.len();
    let behind = [&head[..], b"hello"].concat();
    let read = HeadReader::default().read(&behind, MOST).unwrap().unwrap();
    assert_eq!((read.size, read.body), (size, Framing::Length(5)));

    let mut reader = HeadReader::default();
    let head = b"\r\nGET http://a:80/v1?x=1 HTTP/1.1\r\nhost:  a:80 \r\n\r\n";
    let read = reader.read(head, MOST).unwrap().unwrap();
    assert_eq!((read.size, read.body), (head.len(), Framing::Length(0)));
    assert_eq!(reader.path(head), Some("/v1"));
    assert_eq!(
        super::HeadReader::default()
            .read(&with("transfer-encoding: Chunked\r\nx: \u{e4}\t\r\n"), MOST)
            .unwrap()
            .unwrap()
            .body,
        Framing::chunked()
    );
    assert_eq!(read_ok(b"GET / HTTP/1.0\r\n\r\n"), Framing::Length(0));
}

fn read_ok(head: &[u8]) -> Framing {
    read(head).unwrap().unwrap().body
}

#[test]
fn a_body_that_could_end_in_two_places_is_refused() {
    for headers in [
        "content-length: 5\r\ncontent-length: 5\r\n",
        "content-length: 5\r\nContent-Length: 6\r\n",
        "content-length: 5, 5\r\n",
        "content-length: +5\r\n",
        "content-length: -5\r\n",
        "content-length: 0x5\r\n",
        "content-length: 5 5\r\n",
        "content-length:\r\n",
        "content-length: 99999999999999999999\r\n",
        "content_length: 5\r\n",
        "Content_Length: 5\r\n",
        "transfer_encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: \"chunked\"\r\n",
        "transfer-encoding: chunked;q=1\r\n",
        "transfer-encoding:\r\n",
    ] {
        assert_eq!(reason(&with(headers)), Reason::Framing, "{headers:?}");
    }
    let old = b"POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(reason(old), Reason::Framing);
}

#[test]
fn lines_that_are_not_http_are_refused() {
    for head in [
        &b"\x16\x03\x01"[..],
        b"get / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GeT / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1 \r\nhost: a\r\n\r\n",
        b"GET\t/\tHTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.2\r\nhost: a\r\n\r\n",
        b"GET / http/1.1\r\nhost: a\r\n\r\n",
        b"GET a HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /a\\b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /a`b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET http://b@a/x HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET ftp://a/x HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\nhost: a\n\n",
        b"GET / HTTP/1.1\r\nhost: a\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n\n",
        b"GET / HTTP/1.1\rhost: a\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        assert_eq!(reason(head), Reason::Malformed, "{}", head.escape_ascii());
    }
    for headers in [
        "x: a\r\n b\r\n",
        "x: a\r\n\tb\r\n",
        " x: a\r\n",
        "x : a\r\n",
        "x\t: a\r\n",
        ": a\r\n",
        "x\r\n",
        "x(y): a\r\n",
        "x: a\0b\r\n",
        "x: a\rb\r\n",
        "x: a\x0bb\r\n",
        "x: a\x7fb\r\n",
        "x\u{e4}: a\r\n",
        "content-type: a\r\ncontent-type: b\r\n",
    ] {
        assert_eq!(reason(&with(headers)), Reason::Malformed, "{headers:?}");
    }
}

#[test]
fn a_request_names_one_host() {
    for head in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nhost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost:\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a, b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: b@a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        b"GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET http://A/ HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        assert_eq!(reason(head), Reason::Host, "{}", head.escape_ascii());
    }
    read_ok(b"GET / HTTP/1.1\r\nhost: [::1]:8080\r\n\r\n");
    read_ok(b"GET http://A/ HTTP/1.1\r\nhost: A\r\n\r\n");
}

#[test]
fn methods_of_no_endpoint_are_refused() {
    for head in [
        &b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"TRACE / HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        assert_eq!(reason(head), Reason::Method);
    }
}

#[test]
fn too_much_of_a_head_is_refused_before_its_end() {
    let line = [&b"GET /"[..], &[b'a'; MOST]].concat();
    assert_eq!(reason(&line), Reason::TooLarge);
    let large = with(&format!("x: {}\r\n", "a".repeat(MOST)));
    assert_eq!(reason(&large), Reason::TooLarge);
    let long = format!(
        "GET /{} HTTP/1.1\r\nhost: a\r\n\r\n",
        "a".repeat(MOST_OF_TARGET)
    );
    let fault = HeadReader::default().read(long.as_bytes(), 2 * MOST_OF_TARGET);
    assert_eq!(fault.unwrap_err().reason, Reason::TooLarge);
    let many: String = (0..200).map(|n| format!("x-{n}: a\r\n")).collect();
    assert_eq!(reason(&with(&many)), Reason::TooLarge);
}
