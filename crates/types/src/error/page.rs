//! `docs/reference/errors.md`, written from the table of codes.

use super::{ErrorCode, PublicError};
use std::fmt::Write as _;
use std::path::Path;

const INTRODUCTION: &str = "\
# Errors

<!-- Written by `TOLLGATE_BLESS=1 cargo test -p tollgate-types page` from the table of codes. -->

Every error has the same shape, in all formats:

```json
{\"error\": {\"message\": \"the API key is not valid\", \"type\": \"authentication_error\", \"code\": \"invalid_api_key\"}}
```

- On the messages endpoints the object also has `\"type\": \"error\"` and `request_id`. If a field is at fault, `error.param` has its path.
- Every answer carries `x-request-id`. 429 and 503 carry `retry-after` and `retry-after-ms`. Errors that a retry cannot fix carry
  `x-should-retry: false`.
- A stream that fails after it has begun ends with the error event of the client's format, with the same code.
- No text of a provider is in an error.

| Code | Status | Type | Meaning | Retry |
|---|---|---|---|---|
";

const END: &str = "
An `upstream_error` or `invalid_model` with a 400 has the type `invalid_request_error`, as has every 4xx `upstream_error`.
[Results of provider faults](faults.md) lists the errors that follow from a provider's failure. The filter
[`errors`](filters/errors.md) changes messages.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for code in ErrorCode::ALL {
        let error = PublicError::new(*code, "");
        let retry = match (error.retry_after, error.should_retry) {
            (Some(_), _) => "after `retry-after`",
            (None, Some(false)) => "no",
            (None, _) => "",
        };
        let (status, kind) = (error.status, error.error_type().as_str());
        let meaning = code.meaning().trim();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{code}` | {status} | `{kind}` | {meaning} | {retry} |"
        );
    }
    page + END
}

#[test]
fn the_page_of_errors_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    let page = page();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/errors.md is stale: TOLLGATE_BLESS=1 cargo test -p tollgate-types page"
    );
}
