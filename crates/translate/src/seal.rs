//! Reasoning that survives the way to a caller and back.
//!
//! A provider gives its reasoning out as a blob that no other provider can verify: a
//! signature, encrypted content, redacted data. Decides how such a blob is wrapped for a
//! caller of another format, so that it comes back as the very bytes that it was, to the
//! backend that made it and to no other. Leaves to others where a format keeps it.
//!
//! A sealed text is `tg1.` and, in base64url without padding, a form byte, the fingerprint
//! of the backend, the length of the item id in two bytes, the item id, the payload, and a
//! checksum over all of these. The checksum finds what was cut or garbled on the way; it is
//! no protection, and none is needed: a caller could send the bare blob to the provider as
//! well. The backend stands there as a fingerprint, since its name is the operator's affair.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tollgate_wire::peek::SEAL_TAG as TAG;

const CHECKSUM_BYTES: usize = 4;
/// The largest payload that is sealed or opened, in bytes. Providers' blobs have some
/// kilobytes; what is larger is left out.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// The longest item id that is kept, in bytes; of a longer one the payload goes without it.
pub const MAX_ITEM_ID_BYTES: usize = 256;

/// The backend that can read a blob: one provider behind one format, as the operator's
/// configuration distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend([u8; Self::LEN]);

impl Backend {
    const LEN: usize = 8;

    /// Any provider: for text of the gateway's own, which every model can read.
    pub const ANY: Self = Self([0; Self::LEN]);

    /// The backend of this name. Deployments whose provider accounts can read each other's
    /// blobs share a name.
    pub fn new(name: &str) -> Self {
        Self(prefix(&Sha256::digest(name.as_bytes())))
    }
}

/// The form of a blob in its own format, which decides its place when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningForm {
    /// Messages: `signature` of a `thinking` block.
    Signature,
    /// Messages: `data` of a `redacted_thinking` block.
    Redacted,
    /// Responses: `encrypted_content` of a reasoning item.
    Encrypted,
    /// Chat: one entry of `reasoning_details` as a JSON object, without its `text` or
    /// `summary`, which the caller shows.
    Details,
    /// Unsigned reasoning text of any format, which the caller shows beside the seal. The payload is not read.
    Shown,
    /// Chat: the same, where the caller does not want to see it: the payload is the text.
    Hidden,
    /// Responses: a `web_search_call` item, as JSON.
    SearchItem,
    /// Messages: a list of the two blocks of a web search, `server_tool_use` and
    /// `web_search_tool_result`, as JSON.
    SearchBlocks,
    /// Responses: one entry of `annotations`, as JSON.
    Annotation,
    /// Messages: what the texts of an answer cite, as a JSON object: under the fingerprint of a
    /// text its list of `citations`.
    Citations,
    /// The summary of a conversation, as text: the `encrypted_content` of a `compaction` item.
    /// It is for any backend.
    Summary,
    /// Gemini: `thoughtSignature` of the call of a tool. Google's chat has it in `extra_content`.
    CallSignature,
}

impl ReasoningForm {
    const fn byte(self) -> u8 {
        match self {
            Self::Signature => 1,
            Self::Redacted => 2,
            Self::Encrypted => 3,
            Self::Details => 4,
            Self::Shown => 5,
            Self::Hidden => 6,
            Self::SearchItem => 7,
            Self::SearchBlocks => 8,
            Self::Annotation => 9,
            Self::Citations => 10,
            Self::Summary => 11,
            Self::CallSignature => 12,
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Signature),
            2 => Some(Self::Redacted),
            3 => Some(Self::Encrypted),
            4 => Some(Self::Details),
            5 => Some(Self::Shown),
            6 => Some(Self::Hidden),
            7 => Some(Self::SearchItem),
            8 => Some(Self::SearchBlocks),
            9 => Some(Self::Annotation),
            10 => Some(Self::Citations),
            11 => Some(Self::Summary),
            12 => Some(Self::CallSignature),
            _ => None,
        }
    }
}

/// A blob as its provider made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeReasoning {
    /// The form of the payload.
    pub form: ReasoningForm,
    /// The provider's id of the item, where it had one; else empty.
    pub item_id: String,
    /// The blob, byte for byte.
    pub payload: String,
}

/// Wraps a blob for a caller. `None`: there is nothing to wrap, or too much.
pub fn seal(backend: Backend, form: ReasoningForm, item_id: &str, payload: &str) -> Option<String> {
    if payload.is_empty() || payload.len() > MAX_PAYLOAD_BYTES {
        return None;
    }
    let item_id = match item_id.len() {
        ..=MAX_ITEM_ID_BYTES => item_id,
        _ => "",
    };
    let id_len = u16::try_from(item_id.len()).ok()?;
    let mut bytes = Vec::with_capacity(payload.len() + item_id.len() + 16);
    bytes.push(form.byte());
    bytes.extend_from_slice(&backend.0);
    bytes.extend_from_slice(&id_len.to_be_bytes());
    bytes.extend_from_slice(item_id.as_bytes());
    bytes.extend_from_slice(payload.as_bytes());
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum);
    let mut text = String::with_capacity(TAG.len() + bytes.len().div_ceil(3) * 4);
    text.push_str(TAG);
    URL_SAFE_NO_PAD.encode_string(&bytes, &mut text);
    Some(text)
}

/// Unwraps what a caller sent back, for `backend`. `None`: it was not sealed here, was
/// damaged on the way, or belongs to another backend; then the whole block is left out.
pub fn open(backend: Backend, sealed: &str) -> Option<NativeReasoning> {
    /// A sealed text of this length is longer than any made here.
    const MAX_SEALED_BYTES: usize = MAX_PAYLOAD_BYTES / 3 * 4 + 1024;
    if sealed.len() > MAX_SEALED_BYTES {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(TAG)?).ok()?;
    let (signed, found) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (&form, rest) = signed.split_first()?;
    let (maker, rest) = rest.split_first_chunk::<{ Backend::LEN }>()?;
    if *maker != backend.0 || *found != checksum(signed) {
        return None;
    }
    let (id_len, rest) = rest.split_first_chunk::<2>()?;
    let (item_id, payload) = rest.split_at_checked(u16::from_be_bytes(*id_len).into())?;
    Some(NativeReasoning {
        form: ReasoningForm::of(form)?,
        item_id: text(item_id)?,
        payload: text(payload)?,
    })
}

/// The user message that takes the place of a summarized conversation, from the sealed summary.
pub fn summary(sealed: &str) -> Option<String> {
    let native = open(Backend::ANY, sealed)?;
    let is_summary = native.form == ReasoningForm::Summary;
    is_summary.then(|| format!("Summary of the conversation so far:\n\n{}", native.payload))
}

/// Whether a text claims to be sealed here. One that does must never reach a provider as it
/// is: no provider can read it.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(TAG)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    prefix(&Sha256::digest(bytes))
}

/// The first bytes of a digest, which is longer.
fn prefix<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest.first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests;
