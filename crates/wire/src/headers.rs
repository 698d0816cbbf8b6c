//! Headers that only some formats have.

use crate::formats;
use http::{HeaderName, HeaderValue};
use tollgate_types::Format;

/// The headers of a format.
#[derive(Debug)]
pub(crate) struct HeaderRules {
    /// Where its SDKs look for the id of the request, besides `x-request-id`.
    pub(crate) request_id: Option<HeaderName>,
    /// The header that names the version of the API, and the version that the gateway speaks.
    pub(crate) version: Option<(HeaderName, HeaderValue)>,
    /// How the names of its vendor's own headers begin.
    pub(crate) vendor: &'static str,
}

/// The header of an answer in which SDKs of the format look for the id of the request, besides
/// `x-request-id`.
pub fn request_id(format: Format) -> Option<&'static HeaderName> {
    formats::rules(format).headers.request_id.as_ref()
}

/// The header that names the version of the API in a request, and the version that the gateway
/// speaks.
pub fn version(format: Format) -> Option<&'static (HeaderName, HeaderValue)> {
    formats::rules(format).headers.version.as_ref()
}

/// Whether a request of the format can have the header: headers of the vendor of another format
/// have no meaning in it.
pub fn is_known(format: Format, name: &HeaderName) -> bool {
    let vendor = |format| formats::rules(format).headers.vendor;
    let mut others = Format::ALL.into_iter().map(vendor);
    !others.any(|other| other != vendor(format) && name.as_str().starts_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_one_vendor_has_no_meaning_for_another() {
        let beta = |vendor: &str| HeaderName::try_from(format!("{vendor}-beta")).unwrap();
        let known = |vendor| {
            [Format::Chat, Format::Responses, Format::Messages]
                .map(|format| is_known(format, &beta(vendor)))
        };
        assert_eq!(known("openai"), [true, true, false]);
        assert_eq!(known("anthropic"), [false, false, true]);
        assert_eq!(known("x"), [true; 3]);
    }
}
