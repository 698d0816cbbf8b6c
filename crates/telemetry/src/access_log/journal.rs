//! The access log in the journal of systemd: a datagram for each line, in its native protocol.
//!
//! <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>

use super::{Format, common};
use crate::events;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Severities of syslog.
const WARNING: &str = "4";
const INFO: &str = "6";

/// Sends each JSON line to the journal, with its fields as fields of the entry.
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    /// Of the message of each entry.
    format: Format,
}

impl Journal {
    /// Checks that there is a journal at this socket.
    pub(super) fn open(path: PathBuf, format: Format) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(&path)?;
        Ok(Self {
            socket: UnixDatagram::unbound()?,
            path,
            format,
        })
    }

    fn send(&self, line: &[u8]) -> io::Result<()> {
        let message = match self.format {
            Format::Json => line.to_vec(),
            Format::Common => common::line(line)?,
        };
        // By path each time: a journal that was restarted has another socket there.
        self.socket.send_to(&entry(line, &message)?, &self.path)?;
        Ok(())
    }
}

impl Write for Journal {
    /// Takes whole lines. An entry that the journal does not take is lost alone.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        for line in lines.split(|byte| *byte == b'\n') {
            if !line.is_empty() && self.send(line).is_err() {
                events::access_lines_lost(1);
            }
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(line: &[u8], message: &[u8]) -> io::Result<Vec<u8>> {
    let fields: Map<String, Value> = serde_json::from_slice(line)?;
    let status = fields.get("status").and_then(Value::as_u64);
    let is_failure = status.is_some_and(|status| status >= 500);
    let mut entry = Vec::with_capacity(line.len().saturating_mul(3));
    add(&mut entry, "MESSAGE", message);
    let priority = if is_failure { WARNING } else { INFO };
    add(&mut entry, "PRIORITY", priority.as_bytes());
    add(&mut entry, "SYSLOG_IDENTIFIER", b"tollgate");
    add_all(&mut entry, "TOLLGATE", &fields);
    Ok(entry)
}

/// Adds the fields that have a value. Those of an object have its name before theirs.
fn add_all(entry: &mut Vec<u8>, prefix: &str, fields: &Map<String, Value>) {
    for (name, value) in fields {
        let name = format!("{prefix}_{}", name.to_ascii_uppercase());
        match value {
            Value::Null => {}
            Value::Object(fields) => add_all(entry, &name, fields),
            Value::String(text) => add(entry, &name, text.as_bytes()),
            other => add(entry, &name, other.to_string().as_bytes()),
        }
    }
}

/// Adds a field: a value with a line feed by its length, any other one as a line.
fn add(entry: &mut Vec<u8>, name: &str, value: &[u8]) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        entry.push(b'\n');
        let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
        entry.extend_from_slice(&length.to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value);
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_an_entry_with_fields_and_a_line_feed_begins_no_field() {
        let line = br#"{"id":"req_1","path":"/a\nPRIORITY=0","key":null,"status":502,"stream":true,"usage":{"input":3}}"#;
        let entry = entry(line, b"a line").unwrap();
        let mut expected = b"MESSAGE=a line\nPRIORITY=4\nSYSLOG_IDENTIFIER=tollgate\n".to_vec();
        expected.extend_from_slice(b"TOLLGATE_ID=req_1\nTOLLGATE_PATH\n\x0d\0\0\0\0\0\0\0");
        expected.extend_from_slice(b"/a\nPRIORITY=0\nTOLLGATE_STATUS=502\n");
        expected.extend_from_slice(b"TOLLGATE_STREAM=true\nTOLLGATE_USAGE_INPUT=3\n");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&entry), text(&expected));
    }
}
