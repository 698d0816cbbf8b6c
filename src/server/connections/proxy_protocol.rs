//! The header of the PROXY protocol, versions 1 and 2, which names the client of a load balancer's
//! connection (HAProxy: The PROXY protocol, sections 2.1 and 2.2).
//!
//! Only the client's address is read; extensions (TLVs) are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, command, family, and length.
const FIXED: usize = 16;
/// The longest header of version 1, with its line end.
const LONGEST_LINE: usize = 107;
/// The longest block of version 2 that is accepted: load balancers need less, even for certificates.
const LONGEST_BLOCK: usize = 4096;

/// The most bytes that a header takes.
pub const LONGEST: usize = FIXED + LONGEST_BLOCK;

/// The result of reading the beginning of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// It is incomplete.
    Incomplete,
    /// Its length in bytes, and the client. `None`: the connection is the load balancer's own, or unknown.
    Header {
        /// In bytes.
        size: usize,
        /// The client that it names.
        client: Option<IpAddr>,
    },
    /// It is no header.
    Malformed,
}

/// Reads the header at the front of `bytes`.
pub fn read(bytes: &[u8]) -> Read {
    let is_start_of = |whole: &[u8]| {
        let common = bytes.len().min(whole.len());
        bytes.get(..common) == whole.get(..common)
    };
    if is_start_of(SIGNATURE) {
        read_v2(bytes)
    } else if is_start_of(b"PROXY ") {
        read_v1(bytes)
    } else {
        Read::Malformed
    }
}

fn read_v1(bytes: &[u8]) -> Read {
    let within = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = within.windows(2).position(|two| two == b"\r\n") else {
        return match bytes.len() < LONGEST_LINE {
            true => Read::Incomplete,
            false => Read::Malformed,
        };
    };
    let line = within.get(..end).and_then(|line| str::from_utf8(line).ok());
    let client = line.and_then(|line| client_of(line.split(' ')));
    client.map_or(Read::Malformed, |client| Read::Header {
        size: end.saturating_add(2),
        client,
    })
}

/// The client of a line of version 1: `PROXY TCP4 SOURCE DESTINATION PORT PORT`.
fn client_of<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Option<IpAddr>> {
    words.next()?;
    let client = match words.next()? {
        // The rest of the line has no meaning.
        "UNKNOWN" => return Some(None),
        "TCP4" => addresses::<Ipv4Addr>(&mut words)?,
        "TCP6" => addresses::<Ipv6Addr>(&mut words)?,
        _ => return None,
    };
    port(words.next()?)?;
    port(words.next()?)?;
    words.next().is_none().then_some(Some(client))
}

/// The first of two addresses.
fn addresses<'a, A: FromStr + Into<IpAddr>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<IpAddr> {
    let client: A = words.next()?.parse().ok()?;
    let _: A = words.next()?.parse().ok()?;
    Some(client.into())
}

fn port(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|it| it.is_ascii_digit());
    word.parse().ok().filter(|_| is_plain)
}

fn read_v2(bytes: &[u8]) -> Read {
    let Some((fixed, behind)) = bytes.split_first_chunk::<FIXED>() else {
        return Read::Incomplete;
    };
    let [.., command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST_BLOCK || !matches!(command, 0x20 | 0x21) {
        return Read::Malformed;
    }
    let Some(block) = behind.get(..length) else {
        return Read::Incomplete;
    };
    let client = match (command, family) {
        // LOCAL, whose block has no meaning; UNSPEC; and a client at a Unix socket.
        (0x20, _) | (_, 0x00 | 0x31) => Some(None),
        (_, 0x11) => source::<4, 12>(block).map(|it| Some(IpAddr::from(it))),
        (_, 0x21) => source::<16, 36>(block).map(|it| Some(IpAddr::from(it))),
        _ => None,
    };
    client.map_or(Read::Malformed, |client| Read::Header {
        size: FIXED.saturating_add(length),
        client,
    })
}

/// The first address of a block that has `ALL` bytes of addresses and ports.
fn source<const ONE: usize, const ALL: usize>(block: &[u8]) -> Option<[u8; ONE]> {
    block.first_chunk::<ALL>()?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[u8] = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n";

    fn header(size: usize, client: &str) -> Read {
        let client = Some(client.parse().unwrap());
        Read::Header { size, client }
    }

    fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, block].concat()
    }

    #[test]
    fn every_beginning_of_a_header_is_incomplete_and_what_follows_is_left() {
        let v2 = v2(
            0x21,
            0x11,
            &[203, 0, 113, 7, 127, 0, 0, 1, 1, 2, 3, 4, 9, 0, 0],
        );
        for whole in [V1, &v2] {
            for end in 0..whole.len() {
                assert_eq!(read(&whole[..end]), Read::Incomplete, "{end}");
            }
            let more = [whole, b"GET / HTTP/1.1"].concat();
            assert_eq!(read(&more), header(whole.len(), "203.0.113.7"));
        }
    }

    #[test]
    fn everything_but_a_line_of_version_1_is_malformed() {
        for line in [
            "PROXY TCP4 203.0.113.7 127.0.0.1 40000\r\n",
            "PROXY TCP4 203.0.113.7 127.0.0.1 40000 443 5\r\n",
            "PROXY TCP4 203.0.113.07 127.0.0.1 40000 443\r\n",
            "PROXY TCP4 203.0.113.7 127.0.0.1 +4000 443\r\n",
            "PROXY TCP4 203.0.113.7 127.0.0.1 40000 65536\r\n",
            "PROXY TCP4 2001:db8::7 127.0.0.1 40000 443\r\n",
            "PROXY TCP6 203.0.113.7 ::1 40000 443\r\n",
            "PROXY  TCP4 203.0.113.7 127.0.0.1 40000 443\r\n",
            "PROXYxTCP4 203.0.113.7 127.0.0.1 40000 443\r\n",
            "PROXY UNKNOWNs\r\n",
            "PROXY\r\n",
            "GET /",
        ] {
            assert_eq!(read(line.as_bytes()), Read::Malformed, "{line:?}");
        }
        let long = format!("PROXY UNKNOWN {}", "x".repeat(LONGEST_LINE));
        assert_eq!(read(long.as_bytes()), Read::Malformed);
    }

    #[test]
    fn a_block_of_version_2_that_is_too_short_or_of_another_kind_is_malformed() {
        for (command, family, length) in [
            (0x21, 0x11, 11),
            (0x21, 0x21, 35),
            (0x21, 0x12, 12),
            (0x21, 0x41, 12),
            (0x22, 0x11, 12),
            (0x11, 0x11, 12),
            (0x21, 0x11, LONGEST_BLOCK + 1),
        ] {
            let bytes = v2(command, family, &vec![1; length]);
            assert_eq!(
                read(&bytes),
                Read::Malformed,
                "{command:x} {family:x} {length}"
            );
        }
    }
}
