//! Field names that mean something to us, found without hashing and without copying.
//!
//! A name is looked up by its length and first letter, which leave one candidate (three pairs
//! need one more letter), and compared once. Names are compared without regard to case.
//!
//! Some workers (CGI and its heirs) read `_` in a field name as `-`. A name that is a known one
//! but for that is told apart by [`look_up`], so that `Content_Length` can be refused and
//! `X_Forwarded_For` treated as the real one.

/// A field name that some rule of ours asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the field of that name")]
pub enum Name {
    Host,
    Connection,
    KeepAlive,
    Proxy,
    ProxyConnection,
    TransferEncoding,
    Te,
    Trailer,
    Upgrade,
    ContentLength,
    Expect,
    XForwardedFor,
    XForwardedProto,
    XForwardedHost,
    XForwardedPort,
    XRealIp,
    Forwarded,
    XRequestId,
    Traceparent,
    Tracestate,
    Date,
    Server,
    Via,
    ContentType,
    Cookie,
    RetryAfter,
    GrpcTimeout,
    CacheControl,
    XAccelBuffering,
    SpillgateAttempt,
    SpillgateRefusal,
    SpillgateRetry,
    EndpointLoadMetrics,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyStatus,
    Other,
}

impl Name {
    /// The known name that `name`, a token, is in any mix of cases; [`Name::Other`] where it is
    /// none.
    #[inline]
    pub fn of(name: &[u8]) -> Name {
        match look_up(name) {
            (id, Spelling::Exact) => id,
            (_, Spelling::Underscore) => Name::Other,
        }
    }

    /// Does it concern one connection only, whether or not `Connection` names it? RFC 9110
    /// section 7.6.1, and the two of a proxy's own authentication (section 11.7).
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Name::Connection
                | Name::KeepAlive
                | Name::ProxyConnection
                | Name::TransferEncoding
                | Name::Te
                | Name::Upgrade
                | Name::ProxyAuthenticate
                | Name::ProxyAuthorization
        )
    }

    /// Does it tell where a request came from, so that an untrusted one must not pass?
    pub fn is_forwarding(self) -> bool {
        matches!(
            self,
            Name::XForwardedFor
                | Name::XForwardedProto
                | Name::XForwardedHost
                | Name::XForwardedPort
                | Name::XRealIp
                | Name::Forwarded
        )
    }
}

/// How a looked-up name was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As the standard has it, or it is no known name at all.
    Exact,
    /// With `_` in the place of at least one `-`.
    Underscore,
}

/// The known name that `name` is, or would be if its underscores were hyphens.
#[inline]
pub(super) fn look_up(name: &[u8]) -> (Name, Spelling) {
    let Some((text, id)) = candidate(name) else {
        return (Name::Other, Spelling::Exact);
    };
    if same_token(name, text) {
        return (id, Spelling::Exact);
    }
    if super::name_matches(name, text) {
        return (id, Spelling::Underscore);
    }
    (Name::Other, Spelling::Exact)
}

/// Is `name`, a token, the lower-case `text` of the same length but for case? Eight bytes a time.
///
/// Setting bit 5 makes a letter lower case. Of the other bytes of a token it changes two only: `_`
/// becomes 0x7f and `^` becomes `~`, which no known name has.
#[inline]
fn same_token(name: &[u8], text: &[u8]) -> bool {
    let (words, rest) = name.as_chunks::<8>();
    let (text_words, text_rest) = text.as_chunks::<8>();
    let lower = 0x2020_2020_2020_2020u64;
    let mut differ = 0;
    for (word, text_word) in words.iter().zip(text_words) {
        differ |= (u64::from_le_bytes(*word) | lower) ^ u64::from_le_bytes(*text_word);
    }
    for (byte, text_byte) in rest.iter().zip(text_rest) {
        differ |= u64::from((byte | 0x20) ^ text_byte);
    }
    differ == 0
}

/// The only known name that `name` can be, judged by its length and a letter or two.
#[inline]
fn candidate(name: &[u8]) -> Option<(&'static [u8], Name)> {
    let first = name.first()? | 0x20;
    let found: (&[u8], Name) = match (name.len(), first) {
        (2, b't') => (b"te", Name::Te),
        (3, b'v') => (b"via", Name::Via),
        (4, b'h') => (b"host", Name::Host),
        (4, b'd') => (b"date", Name::Date),
        (5, b'p') => (b"proxy", Name::Proxy),
        (6, b'c') => (b"cookie", Name::Cookie),
        (6, b'e') => (b"expect", Name::Expect),
        (6, b's') => (b"server", Name::Server),
        (7, b't') => (b"trailer", Name::Trailer),
        (7, b'u') => (b"upgrade", Name::Upgrade),
        (9, b'f') => (b"forwarded", Name::Forwarded),
        (9, b'x') => (b"x-real-ip", Name::XRealIp),
        (10, b'c') => (b"connection", Name::Connection),
        (10, b'k') => (b"keep-alive", Name::KeepAlive),
        (10, b't') => (b"tracestate", Name::Tracestate),
        (11, b'r') => (b"retry-after", Name::RetryAfter),
        (11, b't') => (b"traceparent", Name::Traceparent),
        (12, b'c') => (b"content-type", Name::ContentType),
        (12, b'g') => (b"grpc-timeout", Name::GrpcTimeout),
        (12, b'p') => (b"proxy-status", Name::ProxyStatus),
        (12, b'x') => (b"x-request-id", Name::XRequestId),
        (13, b'c') => (b"cache-control", Name::CacheControl),
        (14, b'c') => (b"content-length", Name::ContentLength),
        (15, b's') => (b"spillgate-retry", Name::SpillgateRetry),
        (15, b'x') => (b"x-forwarded-for", Name::XForwardedFor),
        (16, b'p') => (b"proxy-connection", Name::ProxyConnection),
        (16, b'x') if name[12] | 0x20 == b'h' => (b"x-forwarded-host", Name::XForwardedHost),
        (16, b'x') => (b"x-forwarded-port", Name::XForwardedPort),
        (17, b's') if name[10] | 0x20 == b'a' => (b"spillgate-attempt", Name::SpillgateAttempt),
        (17, b's') => (b"spillgate-refusal", Name::SpillgateRefusal),
        (17, b't') => (b"transfer-encoding", Name::TransferEncoding),
        (17, b'x') if name[2] | 0x20 == b'f' => (b"x-forwarded-proto", Name::XForwardedProto),
        (17, b'x') => (b"x-accel-buffering", Name::XAccelBuffering),
        (18, b'p') => (b"proxy-authenticate", Name::ProxyAuthenticate),
        (19, b'p') => (b"proxy-authorization", Name::ProxyAuthorization),
        (21, b'e') => (b"endpoint-load-metrics", Name::EndpointLoadMetrics),
        (25, b'e') => (b"endpoint-load-metrics-bin", Name::EndpointLoadMetrics),
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_found_in_any_case() {
        let cases: &[(&str, Name)] = &[
            ("host", Name::Host),
            ("HOST", Name::Host),
            ("TE", Name::Te),
            ("Via", Name::Via),
            ("date", Name::Date),
            ("Proxy", Name::Proxy),
            ("Expect", Name::Expect),
            ("Server", Name::Server),
            ("Cookie", Name::Cookie),
            ("Trailer", Name::Trailer),
            ("Upgrade", Name::Upgrade),
            ("Forwarded", Name::Forwarded),
            ("X-Real-IP", Name::XRealIp),
            ("CONNECTION", Name::Connection),
            ("Keep-Alive", Name::KeepAlive),
            ("tracestate", Name::Tracestate),
            ("Retry-After", Name::RetryAfter),
            ("traceparent", Name::Traceparent),
            ("Content-Type", Name::ContentType),
            ("gRPC-Timeout", Name::GrpcTimeout),
            ("Proxy-Status", Name::ProxyStatus),
            ("X-Request-ID", Name::XRequestId),
            ("Cache-Control", Name::CacheControl),
            ("content-LENGTH", Name::ContentLength),
            ("X-Forwarded-For", Name::XForwardedFor),
            ("Proxy-Connection", Name::ProxyConnection),
            ("X-Forwarded-Host", Name::XForwardedHost),
            ("x-forwarded-port", Name::XForwardedPort),
            ("Transfer-Encoding", Name::TransferEncoding),
            ("X-Forwarded-Proto", Name::XForwardedProto),
            ("X-Accel-Buffering", Name::XAccelBuffering),
            ("Spillgate-Attempt", Name::SpillgateAttempt),
            ("Spillgate-Refusal", Name::SpillgateRefusal),
            ("Spillgate-Retry", Name::SpillgateRetry),
            ("Endpoint-Load-Metrics", Name::EndpointLoadMetrics),
            ("endpoint-load-metrics-bin", Name::EndpointLoadMetrics),
            ("Proxy-Authenticate", Name::ProxyAuthenticate),
            ("Proxy-Authorization", Name::ProxyAuthorization),
            ("", Name::Other),
            ("hosts", Name::Other),
            ("hos", Name::Other),
            ("h\u{f}st", Name::Other),
            ("x-forwarded-hosu", Name::Other),
            ("x_real_ip", Name::Other),
        ];
        for (text, id) in cases {
            assert_eq!(Name::of(text.as_bytes()), *id, "{text:?}");
        }
    }

    #[test]
    fn underscores_are_told_apart() {
        let (id, spelling) = look_up(b"Content_Length");
        assert_eq!((id, spelling), (Name::ContentLength, Spelling::Underscore));
        let (id, spelling) = look_up(b"X-Forwarded_For");
        assert_eq!((id, spelling), (Name::XForwardedFor, Spelling::Underscore));
    }
}
