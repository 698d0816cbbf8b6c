//! Which host names a request to the operator port may give.
//!
//! A page in an operator's browser can have its own host name resolve to this port (DNS
//! rebinding), and then read whatever the port serves without a token. The browser still sends
//! the page's name as `Host`, so a request must name an IP address, `localhost`, or a name from
//! the configuration.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, Version, header};
use std::net::IpAddr;
use tollgate_types::{ErrorCode, PublicError};

/// Checks every host that a request names, in its target and in `Host`.
///
/// # Errors
///
/// A name that is not in `allowed`, or a `Host` that is missing or malformed (RFC 9112,
/// section 3.2).
pub(super) fn check(
    version: Version,
    target: &Uri,
    headers: &HeaderMap,
    allowed: &[String],
) -> Result<(), PublicError> {
    let malformed = || PublicError::invalid_request("the request must have one valid Host header");
    let mut given = headers.get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (Some(host), None) => {
            let host = Authority::try_from(host.as_bytes()).map_err(|_| malformed())?;
            check_name(host.host(), allowed)?;
        }
        // Health checks over HTTP/1.0 send none. Browsers always do.
        (None, _) if version <= Version::HTTP_10 => {}
        _ => return Err(malformed()),
    }
    let target = target.authority().map(|it| check_name(it.host(), allowed));
    target.unwrap_or(Ok(()))
}

fn check_name(name: &str, allowed: &[String]) -> Result<(), PublicError> {
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let mut names = allowed.iter().map(String::as_str).chain(["localhost"]);
    if is_address || names.any(|it| it.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(PublicError::new(
        ErrorCode::PermissionDenied,
        format!(
            "the host name '{name}' is not allowed on the operator port: use an IP address or \
             localhost, or add the name to admin.hosts"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    /// The status for a request that gives these hosts.
    fn status(version: Version, target: &str, hosts: &[&'static str]) -> Result<(), u16> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_static(host));
        }
        let allowed = ["tollgate.internal".to_owned()];
        check(version, &target.parse().unwrap(), &headers, &allowed).map_err(|it| it.status)
    }

    #[test]
    fn addresses_localhost_and_configured_names_are_allowed_with_any_port() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9080",
            "10.0.0.7:9080",
            "[::1]",
            "[2001:db8::1]:9080",
            "localhost",
            "LocalHost:9080",
            "tollgate.internal",
            "Tollgate.Internal:80",
        ] {
            assert_eq!(
                status(Version::HTTP_11, "/metrics", &[host]),
                Ok(()),
                "{host}"
            );
        }
    }

    #[test]
    fn other_names_are_forbidden_wherever_they_stand() {
        for host in [
            "evil.example",
            "evil.example:9080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "tollgate.internal.evil.example",
            "127.1",
            "2130706433",
        ] {
            assert_eq!(status(Version::HTTP_11, "/", &[host]), Err(403), "{host}");
            assert_eq!(status(Version::HTTP_10, "/", &[host]), Err(403), "{host}");
            let target = format!("http://{host}/metrics");
            let reported = status(Version::HTTP_11, &target, &["localhost"]);
            assert_eq!(reported, Err(403), "{target}");
        }
    }

    #[test]
    fn exactly_one_host_is_needed_except_over_http_1_0() {
        assert_eq!(status(Version::HTTP_11, "/", &[]), Err(400));
        assert_eq!(status(Version::HTTP_10, "/", &[]), Ok(()));
        assert_eq!(
            status(Version::HTTP_11, "/", &["localhost", "localhost"]),
            Err(400)
        );
        for host in ["", "local host", "localhost/x", "localhost:port:"] {
            assert_eq!(status(Version::HTTP_11, "/", &[host]), Err(400), "{host}");
        }
    }
}
