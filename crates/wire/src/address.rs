//! What the path and the query of a request say, in formats that keep the model, the choice of a
//! stream or the version of the API there.
//!
//! The formats that keep all of it in the body have no [`AddressRules`].

use crate::formats;
use tollgate_types::Format;

/// What an address says about its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The model.
    pub model: Option<String>,
    /// Whether the answer is a stream.
    pub stream: Option<bool>,
    /// The version of the API.
    pub version: Option<String>,
}

/// The addresses of a format. `{model}` and `{version}` stand for their values, as in
/// `/deployments/{model}/chat?api-version={version}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressRules {
    /// The path and query of a request for a whole answer.
    pub(crate) whole: &'static str,
    /// The same for a stream. If it equals `whole`, the body says whether the answer is a stream.
    pub(crate) streamed: &'static str,
}

const MODEL: &str = "{model}";
const VERSION: &str = "{version}";

impl AddressRules {
    /// Whether the address names the model.
    pub(crate) fn has_model(&self) -> bool {
        self.whole.contains(MODEL)
    }

    /// Whether the address says that the answer is a stream.
    fn has_stream(&self) -> bool {
        self.whole != self.streamed
    }
}

/// Reads the path and query of a request. `None` if they are not those of the format, or if the
/// format keeps nothing there.
pub fn read(format: Format, path_and_query: &str) -> Option<Address> {
    let rules = formats::rules(format).request.address.as_ref()?;
    let read = |template| read_as(template, path_and_query);
    let (address, stream) = match read(rules.streamed) {
        Some(address) => (address, true),
        None => (read(rules.whole)?, false),
    };
    Some(Address {
        stream: rules.has_stream().then_some(stream),
        ..address
    })
}

/// The path and query of a request; `None` if the format keeps nothing there. A value that is
/// absent is left empty.
pub fn write(format: Format, address: &Address) -> Option<String> {
    let rules = formats::rules(format).request.address.as_ref()?;
    let template = match address.stream {
        Some(true) => rules.streamed,
        _ => rules.whole,
    };
    let value = |value: &Option<String>| encode(value.as_deref().unwrap_or_default());
    let text = template.replace(MODEL, &value(&address.model));
    Some(text.replace(VERSION, &value(&address.version)))
}

/// A path and query of the configuration with the model in place of each `{model}`, percent-encoded.
/// `None` if the name is empty or a part of it is a step of a path (`.` or `..`): a proxy that decodes
/// `%2F` before it resolves steps would leave the model's place.
pub fn with_model(template: &str, model: &str) -> Option<String> {
    let mut parts = model.split(['/', '\\']);
    let has_step = parts.any(|part| matches!(part, "." | ".."));
    let can_stand = !model.is_empty() && !has_step;
    can_stand.then(|| template.replace(MODEL, &encode(model)))
}

/// Reads an address by one template. Parameters of the query that the template does not have are
/// ignored; their order is, too.
fn read_as(template: &str, path_and_query: &str) -> Option<Address> {
    let split = |text| str::split_once(text, '?').unwrap_or((text, ""));
    let ((path, query), (wanted_path, wanted_query)) = (split(path_and_query), split(template));
    let mut address = Address::default();
    take(wanted_path, path, &mut address)?;
    for wanted in wanted_query.split('&').filter(|it| !it.is_empty()) {
        let mut given = query.split('&');
        given.find_map(|given| take(wanted, given, &mut address))?;
    }
    Some(address)
}

/// Reads a text by a template with at most one value in it.
fn take(template: &str, text: &str, address: &mut Address) -> Option<()> {
    let value = |name: &str| {
        let (before, after) = template.split_once(name)?;
        Some(
            text.strip_prefix(before)
                .and_then(|it| it.strip_suffix(after)),
        )
    };
    if let Some(model) = value(MODEL) {
        address.model = Some(decode(
            model.filter(|it| !it.is_empty() && !it.contains('/'))?,
        )?);
    } else if let Some(version) = value(VERSION) {
        address.version = Some(decode(version?)?);
    } else if template != text {
        return None;
    }
    Some(())
}

/// Percent-encodes a value, so that it stays within its part of a path or a query.
fn encode(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Decodes the percent-escapes of a part of a path. `None` if one is incomplete, or if the bytes are
/// not UTF-8.
pub fn decode(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let (&[high, low], after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(high)? << 4 | digit(low)?).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::with_model;

    #[test]
    fn a_model_stays_within_its_part_of_the_path() {
        let path = |model| with_model("/d/{model}/chat?v=1&m={model}", model);
        let expected = "/d/a%2Fb%20c%3F%23%25/chat?v=1&m=a%2Fb%20c%3F%23%25";
        assert_eq!(path("a/b c?#%").as_deref(), Some(expected));
        assert_eq!(
            path("gpt-4.1_x~").as_deref(),
            Some("/d/gpt-4.1_x~/chat?v=1&m=gpt-4.1_x~")
        );
        for model in ["", ".", "..", "a/../b", "../a", "a/.", "a\\..\\b"] {
            assert_eq!(path(model), None, "{model}");
        }
        assert!(path("a..b/...").is_some());
    }
}
