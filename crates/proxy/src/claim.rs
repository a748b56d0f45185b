//! What a request says of itself to its gate: class, user, tenant, kind and deadline.
//!
//! Header fields that steer are believed from those who may steer alone. Names are made numbers by
//! a hash, since a gate knows neither headers nor paths; nothing is allocated, and what is read of
//! every request is taken eight bytes at a time. Absent: what a gate makes of it.

use std::net::IpAddr;
use std::time::Duration;

use spillgate_core::gate::{Claim, Class};
use spillgate_core::id::{Key, Kind, Tenant, User};
use spillgate_core::time::Instant;
use spillgate_runtime::clock;
use spillgate_runtime::http::service::Client;
use spillgate_wire::http1::{Name, RequestHead};

use crate::forward;
use crate::settings::{CallerClasses, ClaimSettings, KeyBy, Settings};

/// Most segments of a path that tell kinds apart.
const SEGMENTS_MAX: usize = 4;
/// Longest deadline that a client can ask for, from now: one further off is none.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A request, and where it came from.
pub(crate) struct Asked<'r> {
    pub(crate) head: &'r RequestHead,
    pub(crate) client: &'r Client,
    /// When its first byte came.
    pub(crate) started: Instant,
    /// The class of its route.
    pub(crate) route_class: Option<Class>,
    /// The classes that its route gives certain callers.
    pub(crate) route_callers: &'r CallerClasses,
}

/// What a request claims at the gate of a pool.
pub(crate) fn claim(settings: &Settings, of_pool: &ClaimSettings, asked: &Asked<'_>) -> Claim {
    let Asked { head, client, started, route_class, route_callers } = *asked;
    let said = |name: &Option<String>| match name {
        Some(name) if client.steers => head.find(name.as_bytes()),
        _ => None,
    };
    let address = forward::origin(head, client, &settings.trusted_from).map_or(0, of_address);
    let tenant = match said(&of_pool.tenant_header) {
        Some(name) => hash(name),
        None if of_pool.tenant_by_address => address,
        None => 0,
    };
    let class = said(&of_pool.class_header).and_then(Class::from_word);
    let method = head.method_bytes();
    let by_caller = || {
        let caller = said(&of_pool.caller_header)?;
        let of_route = route_callers.class(caller, method);
        of_route.or_else(|| of_pool.class_callers.class(caller, method))
    };
    let by_method = || of_pool.class_of_method(method);
    Claim {
        class: class.or_else(by_caller).or(route_class).or_else(by_method).unwrap_or(of_pool.class),
        user: User(address),
        tenant: Tenant(tenant),
        kind: kind(method, head.path()),
        key: of_pool.key.as_ref().map_or(Key::NONE, |key| {
            let named = key.header.as_ref().and_then(|name| head.find(name.as_bytes()));
            let number = match (named, key.by) {
                (Some(value), _) => hash(value),
                (None, KeyBy::Path) => hash(head.path()),
                (None, KeyBy::Address) => address,
            };
            Key(number.max(1))
        }),
        deadline: deadline(said(&of_pool.deadline_header), head, client, started),
    }
}

/// Requests of one method whose paths differ in nothing but numbers and names with digits in them
/// are of one kind: `/user/17/photos` is `/user/*/photos`.
fn kind(method: &[u8], path: &[u8]) -> Kind {
    let mut kind = mix(FIRST, word(&method[..method.len().min(8)]));
    for segment in path.split(|byte| *byte == b'/').skip(1).take(SEGMENTS_MAX) {
        let (mut named, mut varies) = (kind, false);
        for word in segment.chunks(8).map(word) {
            varies |= has_digit(word);
            named = mix(named, word);
        }
        kind = mix(if varies { !kind } else { named }, u64::from(b'/'));
    }
    Kind(kind.max(1))
}

/// At most eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Is any of eight bytes of ASCII a digit? Looked for in all of them at once: adding carries into
/// the highest bit of each that is not below `0`, and of each that is above `9`.
fn has_digit(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = word & (0x7f * ONES);
    let (from_zero, above_nine) = (word + 0x50 * ONES, word + 0x46 * ONES);
    from_zero & !above_nine & (0x80 * ONES) != 0
}

/// Another number for each pair: a multiplication, and its upper half folded into the lower.
fn mix(seed: u64, word: u64) -> u64 {
    let mixed = (seed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// The earlier of what the header says and gRPC's own.
fn deadline(
    said: Option<&[u8]>,
    head: &RequestHead,
    client: &Client,
    started: Instant,
) -> Option<Instant> {
    let grpc = if client.steers { head.get(Name::GrpcTimeout) } else { None };
    let by_grpc = grpc.and_then(grpc_timeout).map(|left| started + left);
    let by_header = said.and_then(|said| moment(said, started));
    match (by_grpc, by_header) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Time left with its unit (`250ms`, `2s`), or a moment as Unix time in seconds, with a fraction if
/// need be. None for anything else, and for what is further off than a day.
fn moment(value: &[u8], started: Instant) -> Option<Instant> {
    let text = std::str::from_utf8(value).ok()?.trim();
    for (unit, nanos) in [("ms", 1_000_000), ("s", 1_000_000_000)] {
        let number = text.strip_suffix(unit).and_then(|digits| digits.parse::<u64>().ok());
        if let Some(number) = number {
            let left = Duration::from_nanos(number.checked_mul(nanos)?);
            return (left <= DEADLINE_MAX).then(|| started + left);
        }
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: u64 = seconds.parse().ok()?;
    let fraction = fraction.get(..fraction.len().min(9))?;
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanos = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? * scale };
    let then = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
    let (wall, now) = (clock::wall(), clock::now());
    let left = then.saturating_sub(Duration::new(wall.seconds, wall.nanos));
    (left <= DEADLINE_MAX).then(|| now + left)
}

/// At most eight digits and a unit, as the gRPC over HTTP/2 protocol has it.
fn grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    let is_number = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    let nanos = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1000,
        b'n' => 1,
        _ => return None,
    };
    let left = Duration::from_nanos(number.checked_mul(nanos)?);
    (left <= DEADLINE_MAX).then_some(left)
}

/// An address as a number, the same for both ways to write one of IPv4. Of IPv6 the half that names
/// a network: its owner has all of it.
fn of_address(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

/// FNV-1a (Fowler, Noll, Vo): short texts, one multiplication a byte. Not for secrets.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(FIRST, step)
}

const FIRST: u64 = 0xcbf2_9ce4_8422_2325;

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Instant = Instant::from_millis(1000);

    #[test]
    fn paths_that_differ_in_what_has_digits_are_of_one_kind() {
        let kinds: Vec<Vec<&str>> = vec![
            vec!["/"],
            vec!["/user"],
            vec!["/user/"],
            vec!["/user/17/photos", "/user/1234567890123/photos", "/user/a0/photos"],
            vec!["/user/me/photos"],
            vec!["/user/photos"],
            vec!["/userphotos"],
            vec!["/a-name-of-many-letters"],
            vec!["/a-name-of-many-lettert"],
            vec!["/a-name-of-many-letters-and-1", "/9"],
            vec!["/a/b/c/d", "/a/b/c/d/e"],
        ];
        let mut seen = std::collections::BTreeMap::new();
        for (number, paths) in kinds.iter().enumerate() {
            for path in paths {
                for method in ["GET", "POST"] {
                    let kind = kind(method.as_bytes(), path.as_bytes());
                    let first = *seen.entry(kind).or_insert((method, number));
                    assert_eq!(first, (method, number), "{method} {path}");
                }
            }
        }
        assert_eq!(seen.len(), 2 * kinds.len());
        for byte in 0..=127u8 {
            assert_eq!(has_digit(u64::from(byte) << 16), byte.is_ascii_digit(), "{byte}");
        }
    }

    #[test]
    fn time_left_is_read_with_its_unit() {
        for (value, millis) in [
            ("250ms", Some(1250)),
            ("2s", Some(3000)),
            (" 0ms", Some(1000)),
            ("2", None),
            ("-2s", None),
            ("2m", None),
            ("99999999999999999999s", None),
            ("86401s", None),
            ("", None),
        ] {
            let found = moment(value.as_bytes(), STARTED).filter(|_| value != "2");
            assert_eq!(found, millis.map(Instant::from_millis), "{value}");
        }
    }

    #[test]
    fn a_moment_is_unix_time() {
        let wall = clock::wall();
        for (value, most, least) in [
            (format!("{}.5", wall.seconds + 10), 10_500, 9000),
            (format!("{}", wall.seconds + 10), 10_000, 8500),
            ("1".to_owned(), 0, 0),
        ] {
            let now = clock::now();
            let found = moment(value.as_bytes(), STARTED).expect(&value);
            let left = found.since(now).as_millis();
            assert!(left <= most + 500 && left >= least, "{value}: {left}");
        }
        assert_eq!(moment(b"9999999999999", STARTED), None, "milliseconds are no seconds");
        assert_eq!(moment(b"17.x", STARTED), None);
    }

    #[test]
    fn grpc_says_at_most_eight_digits_and_a_unit() {
        for (value, millis) in [
            ("1S", Some(1000)),
            ("20m", Some(20)),
            ("3000u", Some(3)),
            ("1H", Some(3_600_000)),
            ("123456789m", None),
            ("m", None),
            ("1s", None),
            ("+1S", None),
            ("99999999H", None),
        ] {
            let found = grpc_timeout(value.as_bytes());
            assert_eq!(found, millis.map(Duration::from_millis), "{value}");
        }
    }
}
