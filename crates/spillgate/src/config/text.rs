//! Texts of the file that stand for something: addresses, hosts, paths, address ranges.
//!
//! Names are never looked up here or later: an address is a number, or `localhost`. Files are not
//! touched. A fault says what to write instead wherever that can be guessed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use spillgate_runtime::http::settings::Endpoint;

use super::unit::Fault;

/// The longest path of a Unix socket that Linux takes, in bytes (`sun_path` less its final zero).
const SOCKET_PATH_MAX: usize = 107;

/// What an address is for: that decides what is proposed, and whether it must be reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// We listen there.
    Listen,
    /// A worker listens there, and we connect.
    Worker,
}

/// Reads `host:port` or `unix:/path`.
pub(crate) fn endpoint(text: &str, role: Role) -> Result<Endpoint, Fault> {
    if let Some(path) = text.strip_prefix("unix:") {
        return socket_path(path).map(Endpoint::Unix);
    }
    if text.starts_with('/') {
        return Err(Fault::with_mend("a path needs `unix:` before it", format!("unix:{text}")));
    }
    if let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) {
        let rest = rest.trim_end_matches('/');
        return Err(Fault::with_mend("an address, not a URL, is needed", rest));
    }
    let address = tcp(text, role)?;
    if role == Role::Worker && address.port() == 0 {
        return Err(Fault::new("a worker cannot be reached at port 0"));
    }
    if role == Role::Worker && address.ip().is_unspecified() {
        let mend = format!("127.0.0.1:{}", address.port());
        return Err(Fault::with_mend("this stands for all addresses of a machine", mend));
    }
    Ok(Endpoint::Tcp(address))
}

fn tcp(text: &str, role: Role) -> Result<SocketAddr, Fault> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let all = if role == Role::Listen { "0.0.0.0" } else { "127.0.0.1" };
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Err(bare_ip(text, ip, role));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::with_mend("a port without a host", format!("127.0.0.1:{text}")));
    }
    if text.is_empty() {
        return Err(Fault::new("empty"));
    }
    let Some((host, port)) = text.rsplit_once(':').filter(|_| !text.ends_with(']')) else {
        let usual = port_of(role);
        let is_host = text == "localhost" || text.starts_with('[') && text.ends_with(']');
        return Err(match is_host {
            true => Fault::with_mend("a host without a port", format!("{text}:{usual}")),
            false => {
                let what = "not an address: `IP:PORT`, `localhost:PORT` or `unix:/PATH` is needed";
                Fault::with_mend(what, format!("127.0.0.1:{usual}"))
            }
        });
    };
    let number = match port.parse::<u16>() {
        Ok(number) if !port.starts_with('+') => number,
        _ => return Err(Fault::new("the port is not a number from 0 to 65535")),
    };
    match host {
        "localhost" => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), number)),
        "" => Err(Fault::with_mend("a port without a host", format!("{all}:{port}"))),
        "*" => Err(Fault::with_mend("`*` is not an address", format!("{all}:{port}"))),
        _ if host.parse::<std::net::Ipv6Addr>().is_ok() => {
            Err(Fault::with_mend("an IPv6 address needs brackets", format!("[{host}]:{port}")))
        }
        _ if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
            Err(Fault::new("this is no IPv4 address: four numbers from 0 to 255 are needed"))
        }
        _ => Err(Fault::new("names are not looked up: write the IP address, or `localhost`")),
    }
}

/// What was meant by an IP address that stands alone. `::1:8080` is one, too.
fn bare_ip(text: &str, ip: IpAddr, role: Role) -> Fault {
    let usual = port_of(role);
    match (ip, text.rsplit_once(':')) {
        (IpAddr::V4(_), _) => Fault::with_mend("a host without a port", format!("{text}:{usual}")),
        (IpAddr::V6(_), Some((host, port)))
            if host.parse::<IpAddr>().is_ok() && port.len() > 3 && port.parse::<u16>().is_ok() =>
        {
            Fault::with_mend("an IPv6 address needs brackets", format!("[{host}]:{port}"))
        }
        (IpAddr::V6(_), _) => {
            let what = "an IPv6 address needs brackets and a port";
            Fault::with_mend(what, format!("[{text}]:{usual}"))
        }
    }
}

/// The port that a message proposes where one is missing: that of the examples.
fn port_of(role: Role) -> u16 {
    match role {
        Role::Listen => 8080,
        Role::Worker => 9000,
    }
}

/// Reads the path of a Unix socket.
fn socket_path(text: &str) -> Result<PathBuf, Fault> {
    if !text.starts_with('/') {
        let tail = text.trim_start_matches("./");
        let mend = format!("unix:/run/{}", if tail.is_empty() { "app.sock" } else { tail });
        return Err(Fault::with_mend("the path must begin with `/`", mend));
    }
    socket_file(text)
}

/// Reads the path of the socket of the commands, which may begin anywhere.
pub(crate) fn socket_file(text: &str) -> Result<PathBuf, Fault> {
    if text.len() > SOCKET_PATH_MAX {
        return Err(Fault::new(format!(
            "{} bytes long; the system takes {SOCKET_PATH_MAX} at most",
            text.len()
        )));
    }
    path(text)
}

/// Reads the path of a file or folder.
pub(super) fn path(text: &str) -> Result<PathBuf, Fault> {
    if text.is_empty() {
        return Err(Fault::new("empty"));
    }
    if text.contains('\0') {
        return Err(Fault::new("a zero byte cannot be part of a path"));
    }
    Ok(PathBuf::from(text))
}

/// Reads who is trusted: an address range; none: `unix:`, the clients of every Unix socket.
pub(super) fn trusted(text: &str) -> Result<Option<IpNet>, Fault> {
    match text.strip_prefix("unix:") {
        Some("") => Ok(None),
        Some(_) => {
            let what = "clients of a Unix socket are trusted on every such listener, or on none";
            Err(Fault::with_mend(what, "unix:"))
        }
        None => network(text).map(Some),
    }
}

/// Reads an address range, or a single address as the range that holds it alone.
fn network(text: &str) -> Result<IpNet, Fault> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    let Ok(net) = text.parse::<IpNet>() else {
        let prefix_wrong = text.split_once('/').is_some_and(|(ip, _)| ip.parse::<IpAddr>().is_ok());
        return Err(Fault::new(if prefix_wrong {
            "the number after `/` must be 0 to 32, for IPv6 0 to 128"
        } else {
            "not an address range such as 10.0.0.0/8 or fd00::/8, nor `unix:`"
        }));
    };
    if net.addr() != net.network() {
        let what = "bits are set beyond the prefix, so this is not one range";
        return Err(Fault::with_mend(what, net.trunc().to_string()));
    }
    Ok(net)
}

/// Reads the host of a route, as lower case.
pub(super) fn host(text: &str) -> Result<String, Fault> {
    let lower = text.to_ascii_lowercase();
    if lower.starts_with('[') && lower.ends_with(']') {
        let inside = &lower[1..lower.len() - 1];
        return match inside.parse::<std::net::Ipv6Addr>() {
            Ok(_) => Ok(lower),
            Err(_) => Err(Fault::new("not an IPv6 address between the brackets")),
        };
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Err(Fault::with_mend("a host, not a URL, is needed", rest.trim_end_matches('/')));
    }
    if let Some((name, port)) = lower.split_once(':') {
        if port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::with_mend("the port of a request does not matter here", name));
        }
        if lower.parse::<IpAddr>().is_err() {
            return Err(Fault::new("not a host name: there is a `:` in it"));
        }
        return Err(Fault::with_mend("an IPv6 address needs brackets", format!("[{lower}]")));
    }
    if lower.contains('*') {
        return Err(Fault::new("patterns are not known: one route for each host"));
    }
    if let Some(name) = lower.strip_suffix('.') {
        return Err(Fault::with_mend("requests come without the final dot", name));
    }
    let label = |part: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !part.is_empty() && part.len() <= 63 && part.bytes().all(known)
    };
    if lower.len() > 253 || !lower.split('.').all(label) {
        return Err(Fault::new("not a host name: letters, digits, `-` and `.` (IDN as `xn--…`)"));
    }
    Ok(lower)
}

/// Reads the path of a route, in the form in which it is compared with requests.
pub(super) fn url_path(text: &str) -> Result<String, Fault> {
    const LENGTH_MAX: usize = 4096;
    if !text.starts_with('/') {
        return Err(Fault::with_mend("a path begins with `/`", format!("/{text}")));
    }
    if let Some(end) = text.find(['?', '#']) {
        return Err(Fault::with_mend("the query is not part of the path", &text[..end]));
    }
    if text.len() > LENGTH_MAX {
        return Err(Fault::new(format!("longer than {LENGTH_MAX} bytes")));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        let what = "clients send anything but visible ASCII percent-encoded";
        return Err(Fault::with_mend(what, percent_encoded(text)));
    }
    match spillgate_proxy::path::plain(text) {
        Some(plain) if plain == text => Ok(plain),
        Some(plain) => {
            Err(Fault::with_mend("paths are compared as workers read them, in one form", plain))
        }
        None => Err(Fault::new("no request has a zero byte in its path")),
    }
}

fn percent_encoded(text: &str) -> String {
    let encode = |b: u8| match b {
        _ if b.is_ascii_graphic() => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Reads a media type, as it goes into a `Content-Type` header.
pub(super) fn content_type(text: &str) -> Result<String, Fault> {
    let plain = text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if !plain || text.trim() != text || !text.contains('/') {
        return Err(Fault::new("not a media type such as text/html; charset=utf-8"));
    }
    Ok(text.to_owned())
}

/// Reads the name of a header field. In lower case, as names are compared.
pub(super) fn field_name(text: &str) -> Result<String, Fault> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if let Some(name) = text.strip_suffix(':').filter(|name| !name.is_empty()) {
        return Err(Fault::with_mend("the name alone, without the colon", name));
    }
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(Fault::new("not the name of a header field such as x-class"));
    }
    Ok(text.to_ascii_lowercase())
}

/// Checks the name of a caller, as the value of a header field can have it.
pub(super) fn caller(name: &str) -> Result<(), Fault> {
    if name.is_empty() || name.trim_ascii() != name || name.contains(char::is_control) {
        return Err(Fault::new("no header field could have this value"));
    }
    Ok(())
}

/// Reads the name of an environment variable that a worker gets.
pub(super) fn variable(name: &str) -> Result<(), Fault> {
    const OURS: [&str; 5] =
        ["PORT", "SPILLGATE_SOCKET", "SPILLGATE_WORKER_ID", "NOTIFY_SOCKET", "WATCHDOG_USEC"];
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Fault::new("the name of a variable is not empty and has no `=` or zero byte"));
    }
    if OURS.contains(&name) {
        return Err(Fault::new("Spillgate sets this one itself, for each worker"));
    }
    Ok(())
}

/// Whether `name` can name a listener or a pool: it becomes a label of metrics and log records.
pub(super) fn name(name: &str) -> Result<(), Fault> {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if !name.is_empty() && name.len() <= 63 && name.bytes().all(known) {
        return Ok(());
    }
    let near: String = name
        .to_lowercase()
        .chars()
        .map(|c| if u8::try_from(c).is_ok_and(known) { c } else { '-' })
        .take(63)
        .collect();
    let what = "a name has 1 to 63 lower-case letters, digits, `-` or `_`";
    Err(if near.is_empty() { Fault::new(what) } else { Fault::with_mend(what, near) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mend<T: std::fmt::Debug>(result: Result<T, Fault>) -> Option<String> {
        result.expect_err("the text is at fault").mend
    }

    #[test]
    fn addresses_are_numbers_or_localhost() {
        for (text, shown) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("[::1]:80", "[::1]:80"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(endpoint(text, Role::Listen).expect(text).to_string(), shown);
        }
        for (text, right) in [
            (":80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
            ("80", "127.0.0.1:80"),
            ("10.0.0.1", "10.0.0.1:8080"),
            ("foo", "127.0.0.1:8080"),
            ("localhost", "localhost:8080"),
            ("::1", "[::1]:8080"),
            ("[::1]", "[::1]:8080"),
            ("::1:8080", "[::1]:8080"),
            ("/run/a.sock", "unix:/run/a.sock"),
            ("unix:a.sock", "unix:/run/a.sock"),
            ("http://127.0.0.1:80/", "127.0.0.1:80"),
        ] {
            assert_eq!(mend(endpoint(text, Role::Listen)).as_deref(), Some(right), "{text}");
        }
        for text in ["", ":", "a:b", "web.example:80", "127.0.0.1:70000", "1.2.3:80", "a:+80"] {
            assert!(endpoint(text, Role::Listen).is_err(), "{text}");
        }
    }

    #[test]
    fn workers_must_be_reachable() {
        assert!(endpoint("127.0.0.1:0", Role::Listen).is_ok());
        assert!(endpoint("127.0.0.1:0", Role::Worker).is_err());
        for (text, right) in [("0.0.0.0:9000", "127.0.0.1:9000"), ("10.0.0.1", "10.0.0.1:9000")] {
            assert_eq!(mend(endpoint(text, Role::Worker)).as_deref(), Some(right), "{text}");
        }
    }

    #[test]
    fn ranges_have_no_bits_beyond_their_prefix() {
        assert_eq!(trusted("unix:").expect("valid"), None);
        assert_eq!(trusted("fd00::/8").expect("valid"), network("fd00::/8").ok());
        assert_eq!(mend(trusted("unix:/run/a.sock")).as_deref(), Some("unix:"));
        assert_eq!(network("10.1.2.3").expect("valid").to_string(), "10.1.2.3/32");
        assert_eq!(network("fd00::/8").expect("valid").to_string(), "fd00::/8");
        assert_eq!(mend(network("10.1.2.3/8")).as_deref(), Some("10.0.0.0/8"));
        for text in ["10.0.0.0/33", "10.0.0/8", "all", ""] {
            assert!(network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_and_paths_are_as_requests_carry_them() {
        assert_eq!(host("WWW.Example.org"), Ok("www.example.org".into()));
        assert_eq!(host("[::1]"), Ok("[::1]".into()));
        assert_eq!(mend(host("example.org:80")).as_deref(), Some("example.org"));
        assert_eq!(mend(host("http://example.org/")).as_deref(), Some("example.org"));
        assert!(host("*.example.org").is_err() && host("a..b").is_err() && host("").is_err());
        assert_eq!(mend(url_path("api")).as_deref(), Some("/api"));
        assert_eq!(mend(url_path("/a?b=c")).as_deref(), Some("/a"));
        assert_eq!(mend(url_path("/ä b")).as_deref(), Some("/%C3%A4%20b"));
        assert_eq!(mend(url_path("/%61//b/./c/../%c3%a4")).as_deref(), Some("/a/b/%C3%A4"));
        assert_eq!(mend(url_path("/a%00")), None);
    }

    #[test]
    fn names_become_labels() {
        assert!(name("web-1_a").is_ok());
        assert_eq!(mend(name("Web App")).as_deref(), Some("web-app"));
        assert!(name("").is_err());
    }
}
