//! Reads the head of an HTTP/1.1 request and refuses ambiguous ones, which two parsers could read differently
//! (RFC 9112, sections 2.2, 3, 5 and 6; RFC 9110, section 5).
//!
//! Pingora's parser and the gateway interpret the request later. This module passes on only the bytes and the
//! framing of the body.

mod class;

use super::framing::Framing;
use crate::limits::Limits;
use class::{AUTHORITY, TARGET, TOKEN, VALUE, all_are};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use std::borrow::Cow;
pub(super) use tollgate_telemetry::events::HeadRefusal as Reason;
use tollgate_types::{ErrorCode, PublicError};

/// What is wrong with a head, and the error that its sender gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) message: Cow<'static, str>,
}

impl Fault {
    pub(super) const fn new(reason: Reason, message: &'static str) -> Self {
        Self {
            reason,
            message: Cow::Borrowed(message),
        }
    }

    /// The error for the client.
    pub(super) fn public(&self) -> PublicError {
        const HEADERS_TOO_LARGE: u16 = 431;
        const REQUEST_TIMEOUT: u16 = 408;
        let message = self.message.clone();
        match self.reason {
            Reason::TooLarge => {
                PublicError::new(ErrorCode::RequestTooLarge, message).with_status(HEADERS_TOO_LARGE)
            }
            Reason::Timeout => PublicError::invalid_request(message).with_status(REQUEST_TIMEOUT),
            Reason::Method => PublicError::new(ErrorCode::MethodNotAllowed, message),
            _ => PublicError::invalid_request(message),
        }
    }
}

/// The longest URI that the `http` crate reads.
const MOST_OF_TARGET: usize = 65_534;

const fn malformed(message: &'static str) -> Fault {
    Fault::new(Reason::Malformed, message)
}

const fn framing(message: &'static str) -> Fault {
    Fault::new(Reason::Framing, message)
}

const fn host(message: &'static str) -> Fault {
    Fault::new(Reason::Host, message)
}

/// A complete head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Its bytes, with the empty line.
    pub(super) size: usize,
    /// The framing of the body.
    pub(super) body: Framing,
}

/// Reads a head line by line, while it arrives.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    /// The offset of the line that has not ended yet.
    line: usize,
    /// The offset up to which that line has no end.
    looked: usize,
    request: Option<RequestLine>,
    headers: usize,
    host: Option<Vec<u8>>,
    length: Option<u64>,
    chunked: bool,
    has_type: bool,
}

#[derive(Debug)]
struct RequestLine {
    /// The offsets of the path, without the query.
    path: (usize, usize),
    /// The authority of a target in absolute form.
    authority: Option<Vec<u8>>,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl HeadReader {
    /// Reads the received part of a head, from its first byte; at most `most` bytes.
    ///
    /// # Errors
    ///
    /// The bytes cannot become a valid head.
    pub(super) fn read(&mut self, bytes: &[u8], most: usize) -> Result<Option<Head>, Fault> {
        if let (None, Some(first)) = (&self.request, bytes.first()) {
            // Another protocol, such as TLS, is refused at once.
            if !first.is_ascii_uppercase() && !matches!(first, b'\r' | b'\n') {
                return Err(malformed(
                    "the request does not begin with a method in capital letters",
                ));
            }
        }
        while let Some(end) = self.line_end(bytes) {
            let line = self.line_at(bytes, end)?;
            self.line = end.saturating_add(1);
            self.looked = self.line;
            if self.line > most {
                break;
            }
            match (line, &self.request) {
                // One empty line before the request line is allowed (RFC 9112, section 2.2).
                ([], None) if self.line == 2 => {}
                ([], None) => return Err(malformed("a request begins with its request line")),
                ([], Some(_)) => return self.finish().map(Some),
                (line, None) => {
                    let start = self.line.saturating_sub(line.len().saturating_add(2));
                    self.request = Some(request_line(line, start)?);
                }
                (line, Some(_)) => self.header(line)?,
            }
        }
        if bytes.len() > most {
            return Err(Fault {
                reason: Reason::TooLarge,
                message: format!("the request head is larger than {most} bytes").into(),
            });
        }
        Ok(None)
    }

    /// The path as the client sent it, once the request line was read.
    pub(super) fn path<'a>(&self, bytes: &'a [u8]) -> Option<&'a str> {
        let (start, end) = self.request.as_ref()?.path;
        std::str::from_utf8(bytes.get(start..end)?).ok()
    }

    fn line_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let found = memchr::memchr(b'\n', bytes.get(self.looked..)?);
        match found {
            Some(at) => Some(self.looked.saturating_add(at)),
            None => {
                self.looked = bytes.len();
                None
            }
        }
    }

    fn line_at<'a>(&self, bytes: &'a [u8], end: usize) -> Result<&'a [u8], Fault> {
        let line = bytes.get(self.line..end).unwrap_or_default();
        line.strip_suffix(b"\r")
            .ok_or_else(|| malformed("a line of the request head ends without a carriage return"))
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.headers = self.headers.saturating_add(1);
        if self.headers > Limits::MOST_HEADERS {
            return Err(Fault {
                reason: Reason::TooLarge,
                message: format!("the request has more than {} headers", Limits::MOST_HEADERS)
                    .into(),
            });
        }
        if line.first().is_some_and(|first| is_space(*first)) {
            return Err(malformed("a header is folded over several lines"));
        }
        let colon = memchr::memchr(b':', line).ok_or_else(|| malformed("a header has no colon"))?;
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = trim(value.strip_prefix(b":").unwrap_or_default());
        if name.is_empty() || !all_are(TOKEN, name) {
            return Err(malformed("the name of a header is not valid"));
        }
        if !all_are(VALUE, value) {
            return Err(malformed(
                "the value of a header contains a control character",
            ));
        }
        self.take_note(name, value)
    }

    /// Keeps the headers that decide the framing and the host.
    fn take_note(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        let is = |wanted: &http::HeaderName| name.eq_ignore_ascii_case(wanted.as_str().as_bytes());
        match name.len() {
            4 if is(&HOST) => {
                let before = self.host.replace(value.to_vec());
                if before.is_some() {
                    return Err(host("the request names its host twice"));
                }
            }
            12 if is(&CONTENT_TYPE) => {
                let before = std::mem::replace(&mut self.has_type, true);
                if before {
                    return Err(malformed("the request has two content types"));
                }
            }
            14 if is(&CONTENT_LENGTH) => {
                if self.length.is_some() {
                    return Err(framing("the request has two Content-Length headers"));
                }
                self.length = Some(length(value)?);
            }
            17 if is(&TRANSFER_ENCODING) => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(framing(
                        "the only transfer encoding that is served is 'chunked', once",
                    ));
                }
                self.chunked = true;
            }
            // Names that some servers treat as one of the above.
            14 | 17 if name.contains(&b'_') => {
                let dashed: Vec<u8> = name
                    .iter()
                    .map(|byte| if *byte == b'_' { b'-' } else { *byte })
                    .collect();
                let known = [CONTENT_LENGTH.as_str(), TRANSFER_ENCODING.as_str()];
                if known
                    .iter()
                    .any(|it| dashed.eq_ignore_ascii_case(it.as_bytes()))
                {
                    return Err(framing(
                        "a header with an underscore looks like one that frames the body",
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Head, Fault> {
        let Some(request) = &self.request else {
            return Err(malformed("a request begins with its request line"));
        };
        match (&self.host, request.version) {
            (None, Version::Http11) => return Err(host("the Host header is missing")),
            (Some(named), _) if !is_authority(named) => {
                return Err(host("the Host header is not the name of a host"));
            }
            _ => {}
        }
        if let (Some(authority), Some(named)) = (&request.authority, &self.host)
            // As Pingora compares them.
            && authority != named
        {
            return Err(host("the request target and the Host header disagree"));
        }
        let body = match (self.chunked, self.length) {
            (true, Some(_)) => {
                return Err(framing(
                    "the request has both a Content-Length and a Transfer-Encoding",
                ));
            }
            (true, None) if request.version == Version::Http10 => {
                return Err(framing("HTTP/1.0 has no transfer encodings"));
            }
            (true, None) => Framing::chunked(),
            (false, length) => Framing::Length(length.unwrap_or(0)),
        };
        Ok(Head {
            size: self.line,
            body,
        })
    }
}

/// Reads `method SP request-target SP HTTP-version`. `start`: the offset of the line in the head.
fn request_line(line: &[u8], start: usize) -> Result<RequestLine, Fault> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed(
            "a request line is a method, a target and a version, one space apart",
        ));
    };
    let is_method = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    if method.is_empty() || !method.iter().all(is_method) {
        return Err(malformed("the method is not in capital letters"));
    }
    if matches!(method, b"CONNECT" | b"TRACE") {
        return Err(Fault::new(
            Reason::Method,
            "the methods CONNECT and TRACE are not served",
        ));
    }
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(malformed("the version of HTTP is not served")),
    };
    if target.is_empty() || !all_are(TARGET, target) {
        return Err(malformed(
            "the request target contains a character that must be percent-encoded",
        ));
    }
    if target.len() > MOST_OF_TARGET {
        let message = "the request target is longer than 65534 bytes";
        return Err(Fault::new(Reason::TooLarge, message));
    }
    let (authority, ahead) = authority_of(target)?;
    let rest = target.get(ahead..).unwrap_or_default();
    let length = memchr::memchr(b'?', rest).unwrap_or(rest.len());
    let path = start
        .saturating_add(method.len())
        .saturating_add(1)
        .saturating_add(ahead);
    Ok(RequestLine {
        path: (path, path.saturating_add(length)),
        authority: authority.map(<[u8]>::to_vec),
        version,
    })
}

/// The authority of a target in absolute form, and the offset of its path (RFC 9112, section 3.2).
fn authority_of(target: &[u8]) -> Result<(Option<&[u8]>, usize), Fault> {
    if target.starts_with(b"/") {
        return Ok((None, 0));
    }
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    for scheme in schemes {
        let (Some(start), Some(rest)) = (target.get(..scheme.len()), target.get(scheme.len()..))
        else {
            continue;
        };
        if start.eq_ignore_ascii_case(scheme) {
            let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
            let authority = rest.get(..end).unwrap_or_default();
            if !is_authority(authority) {
                break;
            }
            return Ok((Some(authority), scheme.len().saturating_add(end)));
        }
    }
    Err(malformed("the request target is not a path"))
}

/// A length by RFC 9110, section 8.6: only digits.
fn length(value: &[u8]) -> Result<u64, Fault> {
    let fault = || framing("Content-Length is not a number");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(fault());
    }
    let text = std::str::from_utf8(value).map_err(|_| fault())?;
    text.parse().map_err(|_| fault())
}

/// A host with an optional port.
fn is_authority(value: &[u8]) -> bool {
    !value.is_empty() && all_are(AUTHORITY, value)
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && is_space(*first)
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && is_space(*last)
    {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests;
