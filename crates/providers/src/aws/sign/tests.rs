use super::*;
use http::{Method, Request};
use std::time::{Duration, UNIX_EPOCH};

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// 2015-08-30T12:36:00Z.
const TIME: u64 = 1_440_938_160;
const SHORT_TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
const LONG_TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

/// From the signing test suite of AWS, `tests/aws-signing-test-suite/v4` of
/// <https://github.com/awslabs/aws-c-auth> (v0.9.0): name, method, target, session token, signature.
/// Those of the suite that sign headers which the gateway does not sign are not here.
const VECTORS: &[(&str, &str, &str, Option<&str>, &str)] = &[
    (
        "get-vanilla",
        "GET",
        "/",
        None,
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-vanilla-with-session-token",
        "GET",
        "/",
        Some(SHORT_TOKEN),
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    ),
    (
        "post-sts-header-before",
        "POST",
        "/",
        Some(LONG_TOKEN),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
    (
        "post-vanilla-query",
        "POST",
        "/?Param1=value1",
        None,
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "get-vanilla-query-order-key-case",
        "GET",
        "/?Param2=value2&Param1=value1",
        None,
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-order-encoded",
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        None,
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    (
        "get-unreserved",
        "GET",
        "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        None,
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    (
        "get-relative-normalized",
        "GET",
        "/example/..",
        None,
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-slashes-normalized",
        "GET",
        "//example//",
        None,
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
];

fn signer(token: Option<&str>) -> Signer {
    let keys = Keys {
        id: ID.to_owned(),
        secret: Secret::new(SECRET),
        session: token.map(Secret::new),
    };
    Signer::new(keys, "us-east-1", "service")
}

fn head(method: &str, target: &str) -> Parts {
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(target)
        .header("host", "example.amazonaws.com")
        .header("user-agent", "not signed");
    request.body(()).unwrap().into_parts().0
}

fn time() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(TIME)
}

fn text<'a>(head: &'a Parts, name: &str) -> &'a str {
    head.headers[name].to_str().unwrap()
}

#[test]
fn signatures_are_those_of_the_test_suite_of_aws() {
    for (name, method, target, token, signature) in VECTORS {
        let mut head = head(method, target);
        signer(*token).sign(&mut head, b"", time()).unwrap();
        assert_eq!(text(&head, "x-amz-date"), "20150830T123600Z", "{name}");
        let signed = match token {
            Some(_) => "host;x-amz-date;x-amz-security-token",
            None => "host;x-amz-date",
        };
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential={ID}/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={signed}, Signature={signature}"
        );
        assert_eq!(text(&head, "authorization"), expected, "{name}");
        let sent = head.headers.get("x-amz-security-token");
        assert_eq!(sent.map(|it| it.to_str().unwrap()), *token, "{name}");
    }
}

#[test]
fn a_signature_covers_the_body_and_the_headers_of_amazon() {
    let signed = |body: &[u8], header: &'static str| {
        let mut head = head("POST", "/model/m/invoke");
        let value = HeaderValue::from_static(header);
        head.headers
            .insert("x-amzn-bedrock-guardrailversion", value);
        signer(None).sign(&mut head, body, time()).unwrap();
        text(&head, "authorization").to_owned()
    };
    let one = signed(b"{}", "1");
    assert!(one.contains("SignedHeaders=host;x-amz-date;x-amzn-bedrock-guardrailversion,"));
    assert_eq!(one, signed(b"{}", "1"));
    assert_ne!(one, signed(b"{ }", "1"));
    assert_ne!(one, signed(b"{}", "2"));
}

#[test]
fn neither_logs_nor_errors_can_show_a_key() {
    let mut head = head("POST", "/");
    signer(Some(SHORT_TOKEN))
        .sign(&mut head, b"", time())
        .unwrap();
    let shown = format!("{:?} {head:?}", signer(Some(SHORT_TOKEN)));
    for secret in [SECRET, SHORT_TOKEN, "Signature="] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
