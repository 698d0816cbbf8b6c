//! What the gateway reads before Pingora does, and its configuration.

use crate::input::Input;
use std::{io, path::Path};
use tollgate::fuzzing::{
    LONGEST_PROXY_HEADER, ProxyHeader, passing_frames, read_proxy_header, read_request,
};
use tollgate_config::{Faults, Loader};
use tollgate_settings::Environment;

/// The most bytes of a head.
const MOST_HEAD: usize = 16 * 1024;

/// A request of HTTP/1.1: its head, and where its body ends.
///
/// - The result is the same in any chunks.
/// - A refusal has a message and a status of the caller's fault.
/// - An accepted head is one for `httparse` as well, of the same length and with the same path,
///   names one host, and frames its body in one way.
pub fn head(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let whole = read_request([input.data], MOST_HEAD);
    let pieces = read_request(input.chunks(), MOST_HEAD);
    assert_eq!(pieces, whole, "in chunks");
    let read = match whole {
        Ok(Some(read)) => read,
        Ok(None) => {
            // `httparse` ends lines at a line feed alone, too.
            assert!(!input.data.windows(4).any(|bytes| bytes == b"\r\n\r\n"));
            return;
        }
        Err((status, message)) => {
            assert!((400..500).contains(&status), "{status} {message}");
            assert!(!message.is_empty());
            return;
        }
    };
    assert!(read.head + read.body <= input.data.len(), "{read:?}");
    let mut headers = [httparse::EMPTY_HEADER; 256];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(input.data).expect("a head");
    assert_eq!(parsed, httparse::Status::Complete(read.head));
    let target = request.path.expect("a target");
    assert!(
        target.contains(read.path.as_deref().expect("a path")),
        "{read:?}"
    );
    let count = |name: &str| {
        let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        request.headers.iter().filter(named).count()
    };
    let framed = count("content-length") + count("transfer-encoding");
    assert!(framed <= 1, "framed {framed} times");
    assert!(count("host") <= 1);
    if framed == 0 {
        assert!(read.is_over && read.body == 0, "{read:?}");
    }
}

/// The header of the PROXY protocol, at the start of a connection.
///
/// - Every beginning of an accepted header is incomplete, and the bytes behind it change nothing.
/// - What is malformed stays malformed. What is incomplete is shorter than the longest header.
pub fn proxy_header(input: &[u8]) {
    let longer = [input, b"GET / HTTP/1.1\r\n"].concat();
    let read = read_proxy_header(input);
    match read {
        ProxyHeader::Incomplete => assert!(input.len() < LONGEST_PROXY_HEADER),
        ProxyHeader::Malformed => assert_eq!(read_proxy_header(&longer), read),
        ProxyHeader::Header { size, .. } => {
            assert!(size <= input.len() && size <= LONGEST_PROXY_HEADER);
            assert_eq!(read_proxy_header(&longer), read);
            for end in 0..size {
                assert_eq!(read_proxy_header(&input[..end]), ProxyHeader::Incomplete);
            }
        }
    }
}

/// What a client of HTTP/2 sends.
///
/// - Where the bytes end that pass is the same in any chunks, and between two frames.
/// - Frames that move nothing do not pass without end.
pub fn frames(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let whole = passing_frames([input.data]);
    assert_eq!(passing_frames(input.chunks()), whole, "in chunks");
    let (ends, idle) = frames_in(input.data);
    if let Some(end) = whole {
        assert!(ends.contains(&end), "{end} is within a frame");
    }
    /// Above what a connection begins with.
    const MOST_IDLE: usize = 1001;
    assert!(
        idle <= MOST_IDLE || whole.is_some(),
        "{idle} idle frames pass"
    );
    // A thousand times the same frames: what moves nothing ends.
    if whole.is_none()
        && idle > 0
        && let Some(frames) = input.data.get(PREFACE..*ends.last().expect("an end"))
    {
        let preface = input.data.get(..PREFACE).expect("a preface");
        let flood = std::iter::once(preface).chain(std::iter::repeat_n(frames, MOST_IDLE));
        assert!(passing_frames(flood).is_some(), "a flood passes");
    }
}

/// Bytes of what a client says first.
const PREFACE: usize = 24;

/// Where whole frames end, and how many of these are pings, settings, priorities, resets,
/// continuations or empty data (RFC 9113, sections 4.1 and 6).
fn frames_in(bytes: &[u8]) -> (Vec<usize>, usize) {
    let (mut ends, mut idle) = (vec![PREFACE], 0);
    let mut at = PREFACE;
    while let Some([a, b, c, kind, flags, ..]) = bytes.get(at..at + 9) {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        at += 9 + length;
        if at > bytes.len() {
            break;
        }
        let moves = match kind {
            0 => length > 0 || flags & 1 == 1,
            1 | 8 => true,
            _ => false,
        };
        idle += usize::from(!moves);
        ends.push(at);
    }
    (ends, idle)
}

/// Variables and files that say nothing of the machine.
struct Fixed;

/// What no fault may show.
const SECRET: &str = "the-secret-of-the-environment-0123456789";

impl Environment for Fixed {
    fn variable(&self, _: &str) -> Option<String> {
        Some(SECRET.to_owned())
    }

    fn read_bytes(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        match path.extension().and_then(|it| it.to_str()) {
            Some("txt") => Ok(SECRET.into()),
            Some("yaml") => Ok(b"log: { access: none }".into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

thread_local! {
    /// One for all inputs, since the schema takes longer to make than an input to check.
    static LOADER: Loader<'static> = const { Loader::new(&Fixed) };
}

/// A configuration file.
///
/// - Each fault has a message and a place in the file, and shows no secret.
/// - The faults of a file are the same the next time.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if text.contains(SECRET) {
        // libFuzzer learns the secret from the comparison below, and a fault may quote the file.
        return;
    }
    let file = Path::new("fuzz.yaml");
    let load = || LOADER.with(|it| it.parse(text, file).map(drop));
    let loaded = load();
    let Err(faults) = &loaded else {
        return;
    };
    assert!(!faults.is_empty());
    // A carriage return alone ends a line of YAML, too (YAML 1.2.2, section 5.4).
    let breaks = text.replace("\r\n", "\n").matches(['\r', '\n']).count();
    for fault in Faults::iter(faults) {
        let shown = fault.to_string();
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(!fault.fault.message.is_empty(), "{shown}");
        assert!(fault.position.line <= breaks + 1, "{shown}");
    }
    assert_eq!(load(), loaded);
}
