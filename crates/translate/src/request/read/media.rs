//! Images and documents: `data:` URLs and addresses.
//!
//! It decides what kind of data a link holds. An address is passed on as it stands: the
//! gateway never fetches what a request names.

use crate::{
    Refusal,
    document::Text,
    request::{
        conversation::{Block, File, Source},
        path::Path,
        read::shared::made_block,
        scope::{Scope, refuse},
    },
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use memchr::memchr;
use std::borrow::Cow;
use tollgate_wire::json::unescape_into;

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const PDF: &str = "application/pdf";

/// Reads the image behind a link.
pub(crate) fn image<'d>(
    scope: &Scope<'_>,
    url: Text<'d>,
    path: &Path<'_>,
) -> Result<Source<'d>, Refusal> {
    let Some(source) = data_url(url, path)? else {
        return address(url, path).map(Source::Url);
    };
    if let Source::Data { media_type, .. } = &source {
        check_image(scope, media_type, path)?;
    }
    Ok(source)
}

/// Refuses data that the target does not take as an image.
pub(crate) fn check_image(
    scope: &Scope<'_>,
    media_type: &str,
    path: &Path<'_>,
) -> Result<(), Refusal> {
    if let Some(types) = scope.rules.image_types
        && !types.contains(&media_type)
    {
        let types = types.join(", ");
        let message = scope.cannot(&format!("it takes images of the types {types}"));
        return Err(refuse(path, message));
    }
    Ok(())
}

/// An address that a provider can fetch from.
pub(crate) fn address<'d>(url: Text<'d>, path: &Path<'_>) -> Result<Text<'d>, Refusal> {
    if is_address(url) {
        return Ok(url);
    }
    Err(refuse(
        path,
        "must be an http or https address, or a data: URL with base64",
    ))
}

/// Whether a text begins like the address of a page. Some encoders escape slashes.
fn is_address(text: Text<'_>) -> bool {
    let starts: [&[u8]; 4] = [b"http://", b"https://", b"http:\\/\\/", b"https:\\/\\/"];
    starts.iter().any(|start| {
        let found = text.json().get(..start.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(start))
    })
}

/// Reads a field for base64: data, or the address that some callers put there.
pub(crate) fn data<'d>(
    media_type: Cow<'d, str>,
    data: Text<'d>,
    path: &Path<'_>,
) -> Result<Source<'d>, Refusal> {
    if is_address(data) {
        return Ok(Source::Url(data));
    }
    checked(media_type, data.json(), path)
}

/// Data of this type, if it can be base64.
fn checked<'d>(
    media_type: Cow<'d, str>,
    data: &'d [u8],
    path: &Path<'_>,
) -> Result<Source<'d>, Refusal> {
    if !is_base64(data) {
        return Err(refuse(path, "does not hold valid base64"));
    }
    let media_type = match media_type.as_ref() {
        // A common misnomer, which providers refuse.
        "image/jpg" => Cow::Borrowed("image/jpeg"),
        _ => media_type,
    };
    Ok(Source::Data { media_type, data })
}

/// Whether the contents of a string can be base64, in the usual alphabet or that of URLs. Line ends may stand in it, and the padding may
/// be missing.
fn is_base64(json: &[u8]) -> bool {
    let mut digits = 0_usize;
    let mut rest = json;
    loop {
        let plain =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        let length = rest.iter().take_while(|byte| plain(byte)).count();
        digits = digits.saturating_add(length);
        rest = match rest.get(length..).unwrap_or_default() {
            // Some encoders escape `/` and `+`.
            [b'\\', b'/', after @ ..]
            | [
                b'\\',
                b'u',
                b'0',
                b'0',
                b'2',
                b'b' | b'B' | b'f' | b'F',
                after @ ..,
            ] => {
                digits = digits.saturating_add(1);
                after
            }
            [b'\\', b'n' | b'r', after @ ..] => after,
            [] => return digits % 4 != 1,
            end => return is_padding(end, digits),
        };
    }
}

/// Whether the end of base64 pads what comes before it to whole bytes.
fn is_padding(end: &[u8], digits: usize) -> bool {
    const LONGEST: usize = 24;
    let end = std::str::from_utf8(end).unwrap_or_default();
    if end.len() > LONGEST {
        return false;
    }
    let padding = end.replace("\\u003d", "=").replace("\\u003D", "=");
    let padding = padding.replace("\\n", "").replace("\\r", "");
    matches!(padding.as_str(), "=" | "==") && digits.saturating_add(padding.len()).is_multiple_of(4)
}

/// The data in a `data:` URL; `None`: it is an address.
fn data_url<'d>(url: Text<'d>, path: &Path<'_>) -> Result<Option<Source<'d>>, Refusal> {
    const SCHEME: &[u8] = b"data:";
    let json = url.json();
    let is_data = json
        .get(..SCHEME.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SCHEME));
    if !is_data {
        return Ok(None);
    }
    let broken = || refuse(path, "must be a data: URL with a media type and base64");
    let comma = memchr(b',', json).ok_or_else(broken)?;
    let head = json.get(SCHEME.len()..comma).ok_or_else(broken)?;
    let data = json.get(comma.saturating_add(1)..).ok_or_else(broken)?;
    let head = std::str::from_utf8(head).map_err(|_| broken())?;
    // Some encoders escape slashes; a media type has no other character to escape.
    let head = match url.is_escaped() {
        true => Cow::Owned(head.replace("\\/", "/")),
        false => Cow::Borrowed(head),
    };
    let parameters = head.strip_suffix(";base64").ok_or_else(broken)?;
    let end = memchr(b';', parameters.as_bytes()).unwrap_or(parameters.len());
    let media_type = match &head {
        Cow::Borrowed(head) => Cow::Borrowed(head.get(..end).unwrap_or_default()),
        Cow::Owned(head) => Cow::Owned(head.get(..end).unwrap_or_default().to_owned()),
    };
    if media_type.is_empty() {
        return Err(broken());
    }
    checked(media_type, data, path).map(Some)
}

/// A document given by its data: `file_data`, a `data:` URL or bare base64.
pub(crate) fn document<'d>(
    scope: &Scope<'_>,
    data: Text<'d>,
    name: Option<Text<'d>>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let source = match data_url(data, path)? {
        Some(source) => source,
        None => self::data(Cow::Borrowed(guessed_type(name)), data, path)?,
    };
    document_of(scope, source, name, path)
}

/// A document from this source.
pub(crate) fn document_of<'d>(
    scope: &Scope<'_>,
    source: Source<'d>,
    name: Option<Text<'d>>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    if let (true, Source::Data { media_type, data }) = (scope.rules.has_text_documents, &source) {
        match media_type.as_ref() {
            PDF => {}
            "text/plain" => return plain_text(data, name, path),
            _ => {
                let message =
                    scope.cannot("it takes documents of the types application/pdf and text/plain");
                return Err(refuse(path, message));
            }
        }
    }
    Ok(Block::Document(File { source, name }))
}

/// The type by the extension of a file's name, or PDF.
fn guessed_type(name: Option<Text<'_>>) -> &'static str {
    let name = name.map(Text::decode).unwrap_or_default();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "txt" | "md" | "csv" | "log" | "json" | "xml" | "yaml" | "yml" | "html" => "text/plain",
        "doc" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        _ => PDF,
    }
}

/// A text that came as data: the model reads it as text.
fn plain_text<'d>(
    data: &[u8],
    name: Option<Text<'d>>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let not_text = || refuse(path, "must hold UTF-8 text in base64");
    let mut digits = Vec::with_capacity(data.len());
    unescape_into(data, &mut digits);
    digits.retain(|digit| !matches!(digit, b'\n' | b'\r'));
    for digit in &mut digits {
        *digit = match *digit {
            b'-' => b'+',
            b'_' => b'/',
            plain => plain,
        };
    }
    let bytes = LENIENT.decode(digits).map_err(|_| not_text())?;
    let text = String::from_utf8(bytes).map_err(|_| not_text())?;
    Ok(made_block(match name {
        Some(name) => format!("{}\n\n{text}", name.decode()),
        None => text,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_come_in_any_base64_that_is_accepted() {
        for json in [
            r"Pz4+PmE=",
            r"Pz4+PmE",
            r"Pz4\u002BPm\nE\u003d",
            r"Pz4-PmE=\r\n",
        ] {
            assert!(is_base64(json.as_bytes()), "{json}");
            let block = plain_text(json.as_bytes(), None, &Path::ROOT).unwrap();
            let block = format!("{block:?}");
            assert!(block.contains(r#"Made("?>>>a")"#), "{json}: {block}");
        }
    }

    #[test]
    fn base64_may_be_escaped_as_json_allows() {
        for json in [
            r"ab+/",
            r"ab\u002B\u002f",
            r"ab\/\u002b",
            r"abc=",
            r"abc\u003d",
            r"ab\u003D\u003D",
            r"ab\n+/\r\n",
            "abc",
        ] {
            assert!(is_base64(json.as_bytes()), "{json}");
        }
        for json in [r"ab\u002Cx", r"a", r"ab=", r"ab\u003dx", r"ab\u002"] {
            assert!(!is_base64(json.as_bytes()), "{json}");
        }
    }
}
