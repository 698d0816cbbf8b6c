//! Lines in the Common Log Format, made from the JSON lines by the writing thread.

use serde::Deserialize;
use std::borrow::Cow;
use std::io::{self, Write};

#[derive(Deserialize)]
struct Line<'a> {
    time: &'a str,
    #[serde(borrow, default)]
    client: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
    #[serde(default)]
    protocol: Option<&'a str>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    status: u16,
    #[serde(default)]
    answer_bytes: u64,
}

/// JSON lines in the Common Log Format. The user is the id of the key.
pub(super) fn lines(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() / 4);
    for line in json.split(|byte| *byte == b'\n') {
        if let Ok(line) = serde_json::from_slice(line) {
            // Writing to memory cannot fail.
            let _ = append(&mut out, &line);
        }
    }
    out
}

/// One JSON line in the Common Log Format, without its end.
pub(super) fn line(json: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    append(&mut out, &serde_json::from_slice(json)?)?;
    out.truncate(out.trim_ascii_end().len());
    Ok(out)
}

fn append(out: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let client = line.client.as_deref().unwrap_or("-");
    write!(out, "{client} - ")?;
    escaped(out, line.key.as_deref().unwrap_or("-"));
    write!(out, " [{}] \"", day_and_time(line.time).unwrap_or_default())?;
    // The head of a refused request may not have been read.
    escaped(out, line.method.as_deref().unwrap_or("-"));
    out.push(b' ');
    escaped(out, line.path.as_deref().unwrap_or("-"));
    let protocol = line.protocol.unwrap_or("HTTP/1.1");
    writeln!(out, " {protocol}\" {} {}", line.status, line.answer_bytes)
}

/// Text of a client. Quotes, backslashes and bytes outside of ASCII are escaped as Apache does.
fn escaped(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
}

/// `2026-11-26T12:45:29.024Z` as `26/Nov/2026:12:45:29 +0000`.
fn day_and_time(time: &str) -> Option<String> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (date, clock) = time.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month: usize = month.parse().ok()?;
    let month = MONTHS.get(month.checked_sub(1)?)?;
    let clock = clock.split('.').next()?;
    Some(format!("{day}/{month}/{year}:{clock} +0000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_becomes_a_line_of_the_common_format() {
        let json = br#"{"time":"2026-11-26T12:45:29.024Z","id":"req_1","client":"::1","method":"POST","path":"/v1/chat/completions","protocol":"HTTP/2.0","key":"key_1","status":200,"answer_bytes":17}
{"time":"2026-01-02T03:04:05.006Z","id":"req_2","client":null,"path":"/\"\\\u001b\u00e9","status":400,"code":"x"}
"#;
        let text = String::from_utf8(lines(json)).unwrap();
        let expected = concat!(
            "::1 - key_1 [26/Nov/2026:12:45:29 +0000] \"POST /v1/chat/completions HTTP/2.0\" 200 17\n",
            "- - - [02/Jan/2026:03:04:05 +0000] \"- /\\\"\\\\\\x1b\\xc3\\xa9 HTTP/1.1\" 400 0\n",
        );
        assert_eq!(text, expected);
    }
}
