//! Who may ask the admin side, and what every answer of it says to a browser.
//!
//! The page has no password, so a foreign web page must not be able to read it through the
//! operator's browser. Without a CORS header a browser keeps the answer from scripts of another
//! origin; what is left is DNS rebinding, where a foreign *name* resolves to this machine. Such a
//! request carries that name in `Host`, and is refused here.
//!
//! Absent: anything that changes state; only GET and HEAD pass.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use spillgate_runtime::http::settings::Endpoint;

/// What the browser may do with the page: run its script and style, ask this address, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Which values of `Host` are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// A Unix socket: browsers cannot reach it, so any value is.
    Any,
    /// The loopback names, and this address.
    Address(SocketAddr),
}

impl Guard {
    /// The guard of a listener at `address`.
    pub(super) fn of(address: &Endpoint) -> Guard {
        match address {
            Endpoint::Tcp(address) => Guard::Address(*address),
            Endpoint::Unix(_) => Guard::Any,
        }
    }

    /// Is this value of `Host` ours? The port is not looked at: it may be forwarded from another.
    fn knows(self, host: Option<&HeaderValue>) -> bool {
        let Guard::Address(address) = self else { return true };
        let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let Some(authority) = authority else { return false };
        let name = authority.host();
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let Ok(ip) = literal.unwrap_or(name).parse::<IpAddr>() else { return false };
        // An address cannot be rebound, so where we listen on all of them, each is ours.
        ip.is_loopback() || ip == address.ip() || address.ip().is_unspecified()
    }
}

/// Lets a request through to its route, or refuses it; puts the headers on the answer.
pub(super) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refusal(*guard, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(guard: Guard, request: &Request) -> Option<Response> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let allow = [(header::ALLOW, "GET, HEAD")];
        let text = "this address only shows; commands: spillgate ctl\n";
        return Some((StatusCode::METHOD_NOT_ALLOWED, allow, text).into_response());
    }
    // A balancer's probe may carry any name, and one word of readiness is no secret.
    if request.uri().path() == "/ready" || guard.knows(request.headers().get(header::HOST)) {
        return None;
    }
    let text = "this name is not mine: use the address that is configured, or localhost\n";
    Some((StatusCode::MISDIRECTED_REQUEST, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, host: &str, known: bool) {
        let address = address.parse().expect("an address");
        let host = HeaderValue::from_str(host).expect("a value");
        assert_eq!(Guard::Address(address).knows(Some(&host)), known, "{host:?} at {address}");
    }

    #[test]
    fn foreign_names_are_not_ours() {
        let loopback = "127.0.0.1:8999";
        for host in ["localhost", "LOCALHOST:8999", "127.0.0.1:8999", "127.0.0.2", "[::1]:7"] {
            check(loopback, host, true);
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.5", "", "a b", "[::2]"] {
            check(loopback, host, false);
        }
        check("10.0.0.5:8999", "10.0.0.5:8999", true);
        check("10.0.0.5:8999", "10.0.0.6:8999", false);
        check("0.0.0.0:8999", "10.0.0.6:8999", true);
        check("0.0.0.0:8999", "evil.example", false);
        assert!(!Guard::Address(loopback.parse().expect("an address")).knows(None));
        assert!(Guard::Any.knows(None));
    }
}
