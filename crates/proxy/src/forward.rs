//! The request head that a worker gets: written anew from the parsed one, never copied as bytes.
//!
//! Hop-by-hop fields, and those that a client must not set, are left out; the framing is that of
//! the whole body; what we know of the client is added.

use std::net::IpAddr;

use spillgate_runtime::http::service::Client;
use spillgate_runtime::http::settings::TrustedFrom;
use spillgate_wire::attempt;
use spillgate_wire::forwarded::{self, Traceparent};
use spillgate_wire::http1::{Method, Name, RequestHead, encode, name_matches};

use crate::settings::ClaimSettings;

/// What is said of one request besides its own fields.
pub(crate) struct Forwarding<'r> {
    pub(crate) client: &'r Client,
    /// The request id that its client gave it, where that is believed; none: it has that of its
    /// trace.
    pub(crate) given_id: Option<&'r [u8]>,
    pub(crate) traceparent: &'r Traceparent,
    /// The names of the fields that steer the gate; not passed on from clients that are not
    /// believed.
    pub(crate) claim: &'r ClaimSettings,
    /// How many tries of ours a worker may have begun.
    pub(crate) charged: u8,
    /// The length of the body; none: it is sent in chunks, since trailers follow it.
    pub(crate) length: Option<u64>,
    /// The request had a body of its own framing (even an empty one).
    pub(crate) has_body: bool,
}

impl Forwarding<'_> {
    /// Is it a field that steers, from somebody who must not?
    fn is_steering(&self, name: &[u8]) -> bool {
        !self.client.steers
            && self.claim.headers().any(|steers| name_matches(name, steers.as_bytes()))
    }

    /// Is it the number of the try, from somebody who must not say it, or no longer right?
    fn is_other_try(&self, id: Name) -> bool {
        id == Name::SpillgateAttempt && (self.charged > 0 || !self.client.steers)
    }
}

/// Write the head of `head` for a worker.
pub(crate) fn write_head(out: &mut Vec<u8>, head: &RequestHead, with: &Forwarding<'_>) {
    encode::request_line(out, head.method_bytes(), head.path(), head.query());
    encode::field(out, b"Host", head.host());
    let upgrade = head.upgrade();
    head.fields().write(out, |id, hop, name| {
        let strays = || id == Name::Tracestate && !continues_trace(head, with.client);
        let believed = || with.client.trusted || id != Name::Other || !is_proxys(name);
        let settled = is_ours(id) || with.is_other_try(id);
        !hop && !settled && !strays() && believed() && !with.is_steering(name)
    });
    // A first try says nothing of it, and what is said of it by whom we believe passes unread.
    if with.charged > 0 {
        let number = given_attempt(head, with.client).saturating_add(with.charged);
        encode::field_number(out, attempt::ATTEMPT, u64::from(number));
    }
    if let Some(protocol) = upgrade {
        encode::field(out, b"Connection", b"upgrade");
        encode::field(out, b"Upgrade", protocol);
    }
    match with.length {
        Some(0) if !says_empty(head.method(), with.has_body) => {}
        Some(length) => encode::field_number(out, b"Content-Length", length),
        None => encode::field(out, b"Transfer-Encoding", b"chunked"),
    }
    write_forwarded(out, head, with.client);
    match with.given_id {
        Some(id) => encode::field(out, b"X-Request-Id", id),
        None => encode::field(out, b"X-Request-Id", &with.traceparent.trace_text()),
    }
    out.extend_from_slice(b"traceparent: ");
    with.traceparent.write(out);
    out.extend_from_slice(b"\r\n");
    encode::head_end(out);
}

/// A request without content says nothing of a length, unless its method makes a worker expect one.
fn says_empty(method: Method, has_body: bool) -> bool {
    has_body || matches!(method, Method::Post | Method::Put | Method::Patch)
}

/// Fields that we write ourselves, whoever sent them.
fn is_ours(name: Name) -> bool {
    matches!(
        name,
        Name::Host
            | Name::ContentLength
            | Name::TransferEncoding
            | Name::Expect
            // No client may set a CGI program's HTTP_PROXY.
            | Name::Proxy
            | Name::XForwardedFor
            | Name::XForwardedProto
            | Name::XForwardedHost
            | Name::XForwardedPort
            | Name::XRealIp
            | Name::Forwarded
            | Name::XRequestId
            | Name::Traceparent
    )
}

/// Which try of the request its client says that this is; one where it says nothing, or is not
/// believed.
fn given_attempt(head: &RequestHead, client: &Client) -> u8 {
    let said = if client.steers { head.get(Name::SpillgateAttempt) } else { None };
    said.and_then(attempt::number).unwrap_or(1)
}

/// Is the request itself another try, by somebody in front of us who is believed?
pub(crate) fn is_repeated(head: &RequestHead, client: &Client) -> bool {
    given_attempt(head, client) > 1
}

/// What a proxy alone may say, besides the fields that we write: pass only from a trusted client.
///
/// Each is read by a framework that is much used: `Client-IP` by Rails and PHP programs,
/// `True-Client-IP` by chi, `X-Original-URL` and `X-Rewrite-URL` by Zend and once by Symfony
/// (CVE-2018-14773), `Front-End-Https` by IIS programs, `X-Url-Scheme` by Play; the other two are
/// the address under names of load balancers.
const OF_PROXIES: &[&[u8]] = &[
    b"client-ip",
    b"true-client-ip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"x-original-url",
    b"x-rewrite-url",
    b"front-end-https",
    b"x-url-scheme",
];

/// Is `name` one of [`OF_PROXIES`], or any `X-Forwarded-…` (`-Ssl`, `-Scheme`, `-Prefix`)?
fn is_proxys(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"x-forwarded-";
    // Asked of each field that is not known, so most are let go by their first letter.
    if !matches!(name.first().map(|first| first | 0x20), Some(b'c' | b't' | b'x' | b'f')) {
        return false;
    }
    name.get(..FAMILY.len()).is_some_and(|start| name_matches(start, FAMILY))
        || OF_PROXIES.iter().any(|known| name_matches(name, known))
}

/// Does the request go on with the trace of its client? `tracestate` means nothing without it (W3C
/// Trace Context, 2021, section 3.3).
fn continues_trace(head: &RequestHead, client: &Client) -> bool {
    client.trusted && head.get(Name::Traceparent).and_then(Traceparent::parse).is_some()
}

fn write_forwarded(out: &mut Vec<u8>, head: &RequestHead, client: &Client) {
    let said = |name| if client.trusted { head.get(name) } else { None };
    let ip = client.ip();

    out.extend_from_slice(b"X-Forwarded-For: ");
    if client.trusted {
        for field in head.fields().filter(|field| field.id == Name::XForwardedFor) {
            out.extend_from_slice(field.value);
            out.extend_from_slice(b", ");
        }
    }
    write_ip(out, ip);
    out.extend_from_slice(b"\r\n");
    encode::field(out, b"X-Forwarded-Proto", said(Name::XForwardedProto).unwrap_or(b"http"));
    let host = said(Name::XForwardedHost).unwrap_or(head.host());
    encode::field(out, b"X-Forwarded-Host", host);
    for (id, name) in
        [(Name::XForwardedPort, &b"X-Forwarded-Port"[..]), (Name::XRealIp, b"X-Real-IP")]
    {
        if let Some(value) = said(id) {
            encode::field(out, name, value);
        }
    }
    out.extend_from_slice(b"Forwarded: ");
    if client.trusted {
        for field in head.fields().filter(|field| field.id == Name::Forwarded) {
            out.extend_from_slice(field.value);
            out.extend_from_slice(b", ");
        }
    }
    forwarded::write_forwarded(out, ip, head.host(), "http");
    out.extend_from_slice(b"\r\n");
}

/// Who asks, as far as can be told: the client, or where its word is believed, the nearest address
/// in its `X-Forwarded-For` whose word is not.
pub(crate) fn origin(
    head: &RequestHead,
    client: &Client,
    trusted_from: &TrustedFrom,
) -> Option<IpAddr> {
    let mut nearest = client.ip();
    if !client.trusted {
        return nearest;
    }
    let told = head.fields().rev().filter(|field| field.id == Name::XForwardedFor);
    for hop in told.flat_map(|field| forwarded::hops_from_right(field.value)) {
        let Some(ip) = hop.map(|ip| ip.to_canonical()) else { break };
        nearest = Some(ip);
        if !trusted_from.trusts(nearest) {
            break;
        }
    }
    nearest
}

fn write_ip(out: &mut Vec<u8>, ip: Option<IpAddr>) {
    match ip {
        Some(ip) => forwarded::write_address(out, ip),
        None => out.extend_from_slice(b"unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_proxies_is_known_as_one() {
        for name in OF_PROXIES.iter().chain(&[&b"X-Forwarded-Ssl"[..], b"x_forwarded_prefix"]) {
            assert!(is_proxys(name), "{}", name.escape_ascii());
        }
        assert!(!is_proxys(b"X-Forward") && !is_proxys(b"Cookie2") && !is_proxys(b""));
    }
}
