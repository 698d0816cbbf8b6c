//! The section `server.cors`: which web pages may call the gateway from a browser.

use super::schema::expect;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// Which web pages may read the gateway's answers (Fetch standard, "CORS protocol").
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Origins of web pages that may call the gateway, as browsers write them:
    /// `https://app.example.com`, in lower case, without a path or the scheme's default port. `*`:
    /// any. Default: none, and the gateway answers no preflight.
    #[schemars(transform = expect_origins, inner(regex(pattern = r"^(\*|[a-z][a-z0-9+.-]*://[a-z0-9.\[\]:_-]+)$")))]
    pub origins: Vec<String>,
    /// Additional request headers that a page may set. `*`: any.
    #[schemars(inner(regex(pattern = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")))]
    pub headers: Vec<String>,
}

fn expect_origins(schema: &mut Schema) {
    expect(
        schema,
        "an origin such as https://app.example.com, in lower case and without a path, or *",
    );
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            // The SDKs set headers of their own, and add to them with their versions.
            headers: vec!["*".to_owned()],
        }
    }
}
