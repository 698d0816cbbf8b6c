//! The paths of a provider that the configuration opens, as they stand in the file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::{ByteSize, TokenCount};
use tollgate_types::Money;

/// A path of a provider that clients reach at `/passthrough/{provider}{path}`. The gateway forwards
/// requests and answers unread.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PassthroughSettings {
    /// Path after the base URL, such as `/v1/images/generations`. With `/*` at the end it stands for
    /// that path and every path below it. Of several entries for a request, the first one counts.
    pub path: String,
    /// The methods that are allowed.
    #[schemars(length(min = 1))]
    pub methods: Vec<PassthroughMethod>,
    /// Tokens that a request is charged if the provider answers with 2xx; 4294967 at most.
    pub charge: TokenCount,
    /// What such a request costs in money. Default: unknown; keys that pay in money cannot use the path.
    pub price: Option<Money>,
    /// The body of one request. Over it: 413.
    #[serde(default = "body")]
    pub body: ByteSize,
    /// Names of the caller's headers that are passed on, besides `content-type` and `accept`.
    #[serde(default)]
    pub pass_headers: Vec<String>,
    /// Names of the provider's headers that are passed on, besides `content-type`, `content-length` and
    /// `content-disposition`.
    #[serde(default)]
    pub answer_headers: Vec<String>,
    /// The plans whose keys may use the path. Default: all keys.
    #[serde(default)]
    pub plans: Vec<String>,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PassthroughMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

const fn body() -> ByteSize {
    ByteSize::new(32 << 20)
}
