//! Requests that two servers could read in two ways, and others that are none. Each would
//! be served but for the one thing that is wrong with it.

use crate::support::CHAT;

/// What is sent, and what becomes of it.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The statuses that a caller may get.
    pub reported: &'static [u16],
}

const BODY: &str = r#"{"model":"test-model","messages":[{"role":"user","content":"Hi"}]}"#;
const BAD: &[u16] = &[400];
const NOT_FOUND: &[u16] = &[404];
const TOO_LARGE: &[u16] = &[431];

/// A request line, headers of its own, and whatever follows the empty line.
struct Template<'a> {
    key: &'a str,
}

impl Template<'_> {
    fn with(&self, line: &str, headers: &str, behind: impl AsRef<[u8]>) -> Vec<u8> {
        let mut bytes = format!(
            "{line}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{headers}\r\n",
            self.key
        )
        .into_bytes();
        bytes.extend_from_slice(behind.as_ref());
        bytes
    }

    /// With a good request line and a good host.
    fn post(&self, headers: &str, behind: impl AsRef<[u8]>) -> Vec<u8> {
        let line = format!("POST {CHAT} HTTP/1.1");
        self.with(&line, &format!("host: gateway\r\n{headers}"), behind)
    }

    /// With a body of its length.
    fn sized(&self, line: &str, headers: &str) -> Vec<u8> {
        let headers = format!("{headers}content-length: {}\r\n", BODY.len());
        self.with(line, &headers, BODY)
    }

    fn chunked(&self, body: impl AsRef<[u8]>) -> Vec<u8> {
        self.post("transfer-encoding: chunked\r\n", body)
    }
}

/// The whole body as one chunk, and what ends it.
fn in_chunks() -> String {
    format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len())
}

/// A request that is nothing but good.
pub fn good(key: &str) -> Vec<u8> {
    let line = format!("POST {CHAT} HTTP/1.1");
    Template { key }.sized(&line, "host: gateway\r\n")
}

/// Everything that must be refused.
pub fn corpus(key: &str) -> Vec<Case> {
    let mut cases = lengths(key);
    cases.extend(encodings(key));
    cases.extend(chunks(key));
    cases.extend(lines(key));
    cases.extend(headers(key));
    cases.extend(hosts(key));
    cases.extend(paths(key));
    cases.extend(sizes(key));
    cases
}

fn case(name: &'static str, bytes: Vec<u8>, reported: &'static [u16]) -> Case {
    Case {
        name,
        bytes,
        reported,
    }
}

fn lengths(key: &str) -> Vec<Case> {
    let it = Template { key };
    let size = BODY.len();
    let reported = |headers: &str| it.post(headers, BODY);
    let cl = |value: &str| reported(&format!("content-length: {value}\r\n"));
    let twice = |one: usize, other: usize| {
        reported(&format!(
            "content-length: {one}\r\ncontent-length: {other}\r\n"
        ))
    };
    vec![
        case("two lengths that agree", twice(size, size), BAD),
        case("two lengths that disagree", twice(size, 0), BAD),
        case("two lengths the other way", twice(0, size), BAD),
        case("a list of lengths", cl(&format!("{size}, {size}")), BAD),
        case("a list that disagrees", cl(&format!("{size}, 0")), BAD),
        case("a length with a plus", cl(&format!("+{size}")), BAD),
        case("a negative length", cl("-1"), BAD),
        case("a length in hexadecimal", cl(&format!("0x{size:x}")), BAD),
        case("a length with a space in it", cl("6 6"), BAD),
        case("a length with a point", cl(&format!("{size}.0")), BAD),
        case("an empty length", cl(""), BAD),
        case(
            "a length beyond all numbers",
            cl("18446744073709551616"),
            BAD,
        ),
        case("a length with an underscore", cl("6_6"), BAD),
        case("a length in other digits", cl("\u{0666}\u{0666}"), BAD),
        case(
            "a length whose name has an underscore",
            reported(&format!("Content_Length: {size}\r\ncontent-length: 0\r\n")),
            BAD,
        ),
        case(
            "a length with a space before its colon",
            reported(&format!("content-length : {size}\r\n")),
            BAD,
        ),
        case(
            "a length behind a vertical tab",
            reported(&format!("content-length:\x0b{size}\r\n")),
            BAD,
        ),
    ]
}

fn encodings(key: &str) -> Vec<Case> {
    let it = Template { key };
    let te = |value: &str| it.post(&format!("transfer-encoding:{value}\r\n"), in_chunks());
    let both =
        |first: &str, second: &str| it.post(&format!("{first}\r\n{second}\r\n"), in_chunks());
    let length = format!("content-length: {}", BODY.len());
    let chunked = "transfer-encoding: chunked";
    vec![
        case("a length and an encoding", both(&length, chunked), BAD),
        case("an encoding and a length", both(chunked, &length), BAD),
        case(
            "a length of 0 and an encoding",
            both("content-length: 0", chunked),
            BAD,
        ),
        case("two encodings", both(chunked, chunked), BAD),
        case("chunked twice", te(" chunked, chunked"), BAD),
        case("an encoding that is none", te(" xchunked"), BAD),
        case("chunked with more behind it", te(" chunkedx"), BAD),
        case("identity", te(" identity"), BAD),
        case("chunked, then identity", te(" chunked, identity"), BAD),
        case("identity, then chunked", te(" identity, chunked"), BAD),
        case("gzip, then chunked", te(" gzip, chunked"), BAD),
        case("an empty encoding", te(""), BAD),
        case("a comma ahead", te(" ,chunked"), BAD),
        case("chunked in quotes", te(" \"chunked\""), BAD),
        case("chunked with a parameter", te(" chunked;q=0.5"), BAD),
        case("chunked behind a vertical tab", te("\x0bchunked"), BAD),
        case("chunked before a null", te(" chunked\0"), BAD),
        case("a folded encoding", te("\r\n chunked"), BAD),
        case(
            "an encoding with a space before its colon",
            it.post("transfer-encoding : chunked\r\n", in_chunks()),
            BAD,
        ),
        case(
            "an encoding whose name has an underscore",
            both("transfer_encoding: chunked", &length),
            BAD,
        ),
        case(
            "an encoding behind a bare line feed",
            it.post(
                &format!("x: y\ntransfer-encoding: chunked\r\n{length}\r\n"),
                in_chunks(),
            ),
            BAD,
        ),
        case(
            "an encoding in HTTP/1.0",
            it.with(
                &format!("POST {CHAT} HTTP/1.0"),
                "host: gateway\r\ntransfer-encoding: chunked\r\n",
                in_chunks(),
            ),
            BAD,
        ),
    ]
}

fn chunks(key: &str) -> Vec<Case> {
    let it = Template { key };
    let size = BODY.len();
    let one = |size_line: &str, end: &str| it.chunked(format!("{size_line}{BODY}{end}0\r\n\r\n"));
    let hex = format!("{size:x}");
    vec![
        case("a size with 0x", one(&format!("0x{hex}\r\n"), "\r\n"), BAD),
        case(
            "a size with a plus",
            one(&format!("+{hex}\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "a size with a minus",
            one(&format!("-{hex}\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "a size behind a space",
            one(&format!(" {hex}\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "a size before a space",
            one(&format!("{hex} \r\n"), "\r\n"),
            BAD,
        ),
        case("a size with an underscore", one("4_2\r\n", "\r\n"), BAD),
        case("no size", one("\r\n", "\r\n"), BAD),
        case(
            "a size that wraps around",
            one(&format!("100000000000000{hex}\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "a size before a bare line feed",
            one(&format!("{hex}\n"), "\r\n"),
            BAD,
        ),
        case(
            "a size before a bare return",
            one(&format!("{hex}\r"), "\r\n"),
            BAD,
        ),
        case(
            "an extension with a line feed",
            one(&format!("{hex};a\nb\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "an extension with a null",
            one(&format!("{hex};\0\r\n"), "\r\n"),
            BAD,
        ),
        case(
            "an extension without end",
            one(&format!("{hex};{}\r\n", "x".repeat(4096)), "\r\n"),
            BAD,
        ),
        case(
            "data before a bare line feed",
            one(&format!("{hex}\r\n"), "\n"),
            BAD,
        ),
        case(
            "data before two other bytes",
            one(&format!("{hex}\r\n"), "XX"),
            BAD,
        ),
        case("data before nothing", one(&format!("{hex}\r\n"), ""), BAD),
        case(
            "a trailer",
            it.chunked(format!("{hex}\r\n{BODY}\r\n0\r\nx-trailer: 1\r\n\r\n")),
            BAD,
        ),
        case(
            "a trailer that frames",
            it.chunked(format!("{hex}\r\n{BODY}\r\n0\r\ncontent-length: 9\r\n\r\n")),
            BAD,
        ),
        case(
            "a trailer that is none",
            it.chunked(format!("{hex}\r\n{BODY}\r\n0\r\nGET /v1 HTTP/1.1\r\n\r\n")),
            BAD,
        ),
        case(
            "a last chunk before a bare line feed",
            it.chunked(format!("{hex}\r\n{BODY}\r\n0\n\n")),
            BAD,
        ),
    ]
}

fn lines(key: &str) -> Vec<Case> {
    let it = Template { key };
    let line = |line: String| it.sized(&line, "host: gateway\r\n");
    let bare = |from: &str, to: &str| {
        let text = String::from_utf8(good(key)).unwrap();
        text.replacen(from, to, 1).into_bytes()
    };
    vec![
        case(
            "a method in small letters",
            line(format!("post {CHAT} HTTP/1.1")),
            BAD,
        ),
        case(
            "a method in mixed letters",
            line(format!("Post {CHAT} HTTP/1.1")),
            BAD,
        ),
        case(
            "a method with a null",
            line(format!("PO\0ST {CHAT} HTTP/1.1")),
            BAD,
        ),
        case(
            "two spaces before the target",
            line(format!("POST  {CHAT} HTTP/1.1")),
            BAD,
        ),
        case(
            "two spaces behind the target",
            line(format!("POST {CHAT}  HTTP/1.1")),
            BAD,
        ),
        case(
            "tabs between the words",
            line(format!("POST\t{CHAT}\tHTTP/1.1")),
            BAD,
        ),
        case(
            "a space behind the version",
            line(format!("POST {CHAT} HTTP/1.1 ")),
            BAD,
        ),
        case(
            "a space ahead of the method",
            line(format!(" POST {CHAT} HTTP/1.1")),
            BAD,
        ),
        case("no version", line(format!("POST {CHAT}")), BAD),
        case("HTTP/0.9", line(format!("POST {CHAT} HTTP/0.9")), BAD),
        case("HTTP/1.2", line(format!("POST {CHAT} HTTP/1.2")), BAD),
        case("HTTP/2.0", line(format!("POST {CHAT} HTTP/2.0")), BAD),
        case("HTTP/01.1", line(format!("POST {CHAT} HTTP/01.1")), BAD),
        case(
            "http in small letters",
            line(format!("POST {CHAT} http/1.1")),
            BAD,
        ),
        case(
            "a word too many",
            line(format!("POST {CHAT} x HTTP/1.1")),
            BAD,
        ),
        case(
            "CONNECT",
            line("CONNECT gateway:80 HTTP/1.1".to_owned()),
            &[405],
        ),
        case("TRACE", line(format!("TRACE {CHAT} HTTP/1.1")), &[405]),
        case("TRACK", line(format!("TRACK {CHAT} HTTP/1.1")), &[405]),
        case(
            "a bare line feed behind the request line",
            bare("\r\n", "\n"),
            BAD,
        ),
        case(
            "a bare return behind the request line",
            bare("\r\n", "\r"),
            BAD,
        ),
        case(
            "a bare line feed behind a header",
            bare("gateway\r\n", "gateway\n"),
            BAD,
        ),
        case(
            "a bare line feed as the empty line",
            bare("\r\n\r\n", "\r\n\n"),
            BAD,
        ),
        case("bare line feeds as the end", bare("\r\n\r\n", "\n\n"), BAD),
        case(
            "two empty lines ahead",
            [b"\r\n\r\n", &good(key)[..]].concat(),
            BAD,
        ),
        case(
            "a greeting of TLS",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03".to_vec(),
            BAD,
        ),
        case("nonsense", b"hello\r\n\r\n".to_vec(), BAD),
        case(
            "a preface of another HTTP/2",
            b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(),
            BAD,
        ),
    ]
}

fn headers(key: &str) -> Vec<Case> {
    let it = Template { key };
    let line = format!("POST {CHAT} HTTP/1.1");
    let header = |header: &str| it.sized(&line, &format!("host: gateway\r\n{header}\r\n"));
    vec![
        case("a folded header", header("x: a\r\n b"), BAD),
        case("a header folded by a tab", header("x: a\r\n\tb"), BAD),
        case("a header without a colon", header("nonsense"), BAD),
        case("a header without a name", header(": a"), BAD),
        case("a name with a space", header("x y: a"), BAD),
        case("a name with a space behind it", header("x : a"), BAD),
        case("a name with a null", header("x\0: a"), BAD),
        case("a name with a letter of its own", header("x\u{e4}: a"), BAD),
        case("a name in brackets", header("(x): a"), BAD),
        case("a value with a null", header("x: a\0b"), BAD),
        case("a value with a bare return", header("x: a\rb"), BAD),
        case("a value with a bell", header("x: a\x07b"), BAD),
        case("a value with a delete", header("x: a\x7fb"), BAD),
        case("two content types", header("content-type: text/plain"), BAD),
        case("two keys", header("authorization: Bearer sk-x"), &[401]),
        case("a key in another header", header("x-api-key: sk-x"), &[401]),
    ]
}

fn hosts(key: &str) -> Vec<Case> {
    let it = Template { key };
    let line = format!("POST {CHAT} HTTP/1.1");
    let host = |host: &str| it.sized(&line, host);
    let absolute = |target: &str| {
        it.sized(
            &format!("POST {target}{CHAT} HTTP/1.1"),
            "host: gateway\r\n",
        )
    };
    vec![
        case("no host", host(""), BAD),
        case("two hosts", host("host: gateway\r\nhost: other\r\n"), BAD),
        case(
            "two hosts that agree",
            host("host: gateway\r\nHost: gateway\r\n"),
            BAD,
        ),
        case("an empty host", host("host:\r\n"), BAD),
        case("a list of hosts", host("host: gateway, other\r\n"), BAD),
        case("a host with a path", host("host: gateway/x\r\n"), BAD),
        case("a host with a user", host("host: user@gateway\r\n"), BAD),
        case("a host with a space", host("host: gate way\r\n"), BAD),
        case(
            "a host with an underscored twin",
            host("host : gateway\r\n"),
            BAD,
        ),
        case("another host in the target", absolute("http://other"), BAD),
        case("a user in the target", absolute("http://user@gateway"), BAD),
        case("no host in the target", absolute("http://"), BAD),
        case(
            "another scheme in the target",
            absolute("ftp://gateway"),
            BAD,
        ),
        case("a target without a slash", absolute("gateway"), BAD),
    ]
}

fn paths(key: &str) -> Vec<Case> {
    let it = Template { key };
    let path = |path: &str| it.sized(&format!("POST {path} HTTP/1.1"), "host: gateway\r\n");
    vec![
        case(
            "a path with two slashes ahead",
            path("//v1/chat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with two slashes within",
            path("/v1//chat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with a slash behind",
            path("/v1/chat/completions/"),
            NOT_FOUND,
        ),
        case(
            "a path with a dot",
            path("/v1/./chat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with two dots",
            path("/x/../v1/chat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with escaped dots",
            path("/x/%2e%2e/v1/chat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with an escaped slash",
            path("/v1%2fchat/completions"),
            NOT_FOUND,
        ),
        case(
            "a path with an escaped letter",
            path("/v1/ch%61t/completions"),
            NOT_FOUND,
        ),
        case("a path with a semicolon", path("/v1/..;/admin"), NOT_FOUND),
        case(
            "a path with a parameter",
            path("/v1/chat/completions;x=y"),
            NOT_FOUND,
        ),
        case(
            "a path in capital letters",
            path("/V1/chat/completions"),
            NOT_FOUND,
        ),
        case("a path with a null", path("/v1/chat/completions\0"), BAD),
        case(
            "a path with an escaped null",
            path("/v1/chat/completions%00"),
            NOT_FOUND,
        ),
        case(
            "a path with a backslash",
            path("\\v1\\chat\\completions"),
            BAD,
        ),
        case(
            "a path with a fragment",
            path("/v1/chat/completions#x"),
            BAD,
        ),
        case(
            "a path with a letter of its own",
            path("/v1/ch\u{e4}t/completions"),
            BAD,
        ),
        case("an asterisk", path("*"), BAD),
    ]
}

fn sizes(key: &str) -> Vec<Case> {
    let it = Template { key };
    let line = format!("POST {CHAT} HTTP/1.1");
    let header = |header: &str| it.sized(&line, &format!("host: gateway\r\n{header}"));
    let many: String = (0..300).map(|n| format!("x-{n}: a\r\n")).collect();
    vec![
        case(
            "a target of 100 kB",
            it.sized(
                &format!("POST {CHAT}?{} HTTP/1.1", "x".repeat(100_000)),
                "host: gateway\r\n",
            ),
            TOO_LARGE,
        ),
        case(
            "a header of 100 kB",
            header(&format!("x: {}\r\n", "a".repeat(100_000))),
            TOO_LARGE,
        ),
        case("300 headers", header(&many), TOO_LARGE),
        case(
            "a name of 100 kB",
            header(&format!("{}: a\r\n", "x".repeat(100_000))),
            TOO_LARGE,
        ),
    ]
}
