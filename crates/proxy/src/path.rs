//! How workers read the path of a request, so that routes are compared with what they will see.
//!
//! Nearly all paths are read by everybody as they stand (`is_plain`, one scan). Of the others
//! there is a **plain form**, in which routes are written and compared: percent-encoding of what
//! needs none undone, other encoding in upper case, repeated slashes made one, dot segments
//! followed (RFC 3986 section 6.2.2, with the slashes in addition). On some points workers differ;
//! each is a bit of a `Reading`, so that a route can be asked for under every combination. Where
//! dot segments are followed (before or after decoding, before or after slashes are made one, or
//! not at all) has too many answers: whether there are any is all that is told of that.
//!
//! Nothing here changes what is sent to a worker. Absent: what a route is, and which of several
//! readings wins (`route.rs`). Not known: workers that decode twice, and those to which upper and
//! lower case are the same.

/// A combination of the points on which workers differ, as bits; 0 is the plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading(u8);

/// `%2F` is decoded to a slash before segments are told apart.
const SLASH: u8 = 1;
/// `%5C` is decoded to a backslash, and that read as a slash.
const BACKSLASH: u8 = 2;
/// What follows a `;` in a segment are parameters, and no part of the name.
const PARAMS: u8 = 4;
/// The same, before anything is decoded.
const PARAMS_FIRST: u8 = 8;
/// `//name/path` is the path of a URL whose host is `name`.
const HOST: u8 = 16;

/// Most bytes that are read of one path beside its plain form, all readings together: one costs
/// some nanoseconds a byte, and there may be 31. Plain choice: the longest path that can be
/// configured (4 KiB) in which one or two points matter is read in full.
const READ_MAX: usize = 16 * 1024;

/// What it takes to read a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spelling {
    /// The points that make a difference, as bits of a [`Reading`].
    points: u8,
    /// `%00` is in it: some workers stop reading there.
    has_zero: bool,
    has_dots: bool,
    /// Its readings together are longer than [`READ_MAX`].
    is_long: bool,
}

/// Whether everybody reads `path` as it stands. Allocates nothing.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    for (at, byte) in path.iter().enumerate() {
        match byte {
            b'%' | b';' => return false,
            b'/' if before == b'/' => return false,
            b'.' if before == b'/' && is_dots(first_segment(&path[at..])) => return false,
            _ => {}
        }
        before = *byte;
    }
    true
}

/// The plain form of the path in `text`, to be compared and shown; none when `%00` is in it.
pub fn plain(text: &str) -> Option<String> {
    let path = text.as_bytes();
    if Spelling::of(path).has_zero {
        return None;
    }
    let mut plain = Vec::with_capacity(path.len());
    Reading::PLAIN.read(path, &mut plain);
    Some(String::from_utf8(plain).expect("bytes beyond ASCII are encoded"))
}

impl Spelling {
    /// Look at `path`.
    pub(crate) fn of(path: &[u8]) -> Spelling {
        let mut points = if path.starts_with(b"//") { HOST } else { 0 };
        let mut has_zero = false;
        for (byte, is_encoded) in decoded(path) {
            match byte {
                b'/' if is_encoded => points |= SLASH,
                b'\\' => points |= BACKSLASH,
                b';' if is_encoded => points |= PARAMS,
                b';' => points |= PARAMS | PARAMS_FIRST,
                0 => has_zero = true,
                _ => {}
            }
        }
        let mut segments = Vec::with_capacity(path.len());
        Reading(SLASH | BACKSLASH | PARAMS).split(path, &mut segments);
        let has_dots = segments.split(|byte| *byte == b'/').any(is_dots);
        let readings = (1 << points.count_ones()) - 1;
        Spelling { points, has_zero, has_dots, is_long: path.len() * readings > READ_MAX }
    }

    /// Whether the readings that [`Spelling::readings`] lists are not all that there are.
    pub(crate) fn is_beyond_reading(&self) -> bool {
        self.has_zero || self.has_dots || self.is_long
    }

    /// Every way to read it but the plain one.
    pub(crate) fn readings(&self) -> impl Iterator<Item = Reading> {
        let points = self.points;
        (1..=points).filter(move |bits| bits & !points == 0).map(Reading)
    }
}

impl Reading {
    /// That of the plain form.
    pub(crate) const PLAIN: Reading = Reading(0);

    /// Read `path`, which begins with a slash, into `plain`, which is cleared first.
    pub(crate) fn read(self, path: &[u8], plain: &mut Vec<u8>) {
        self.split(path, plain);
        plain.dedup_by(|byte, before| (*byte, *before) == (b'/', b'/'));
        follow_dots(plain);
    }

    /// Everything but slashes and dots.
    fn split(self, path: &[u8], plain: &mut Vec<u8>) {
        plain.clear();
        let path = if self.has(HOST) { after_host(path) } else { path };
        let (mut in_params, mut in_first) = (false, false);
        for (byte, is_encoded) in decoded(path) {
            let is_slash = match byte {
                b'/' => !is_encoded || self.has(SLASH),
                b'\\' => self.has(BACKSLASH),
                _ => false,
            };
            in_params = !is_slash && (in_params || byte == b';' && self.has(PARAMS));
            in_first = match (byte, is_encoded) {
                (b'/', false) => false,
                (b';', false) => in_first || self.has(PARAMS_FIRST),
                _ => in_first,
            };
            match byte {
                _ if in_params || in_first => {}
                _ if is_slash => plain.push(b'/'),
                b'/' | b'%' | b'?' | b'#' | b'\\' => push_encoded(byte, plain),
                b'!'..=b'~' => plain.push(byte),
                _ => push_encoded(byte, plain),
            }
        }
    }

    fn has(self, point: u8) -> bool {
        self.0 & point != 0
    }
}

/// The bytes that `path` stands for, and whether each was encoded. A `%` that begins no encoding
/// stands for itself.
fn decoded(path: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let (byte, len) = match rest {
            [] => return None,
            [b'%', high, low, ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high * 16 + low, 3),
                _ => (b'%', 1),
            },
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[len..];
        Some((byte, len == 3))
    })
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn push_encoded(byte: u8, plain: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
    plain.extend_from_slice(&[b'%', high, low]);
}

/// What follows the host where a path is taken for a URL without a scheme.
fn after_host(path: &[u8]) -> &[u8] {
    let host = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    let len = first_segment(&path[host..]).len();
    if host + len == path.len() { b"/" } else { &path[host + len..] }
}

fn first_segment(path: &[u8]) -> &[u8] {
    let len = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    &path[..len]
}

fn is_dots(segment: &[u8]) -> bool {
    matches!(segment, b"." | b"..")
}

/// RFC 3986 section 5.2.4, in place: each step keeps one segment with the slash before it, drops
/// it, or drops the one before it, too.
fn follow_dots(path: &mut Vec<u8>) {
    let (mut from, mut to) = (0, 0);
    while from < path.len() {
        let len = 1 + first_segment(&path[from + 1..]).len();
        let end = from + len;
        let segment = &path[from + 1..end];
        if !is_dots(segment) {
            path.copy_within(from..end, to);
            to += len;
        } else {
            if segment == b".." {
                to = path[..to].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            }
            if end == path.len() {
                path[to] = b'/';
                to += 1;
            }
        }
        from = end;
    }
    path.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_reading_is_known_at_a_glance() {
        for path in ["/", "*", "", "/a/b", "/.well-known/x", "/a.b/..c/...", "/a/", "/~a+b:c@d"] {
            assert!(is_plain(path.as_bytes()), "{path}");
            assert_eq!(plain(path).as_deref(), Some(path));
        }
        for path in ["/%61", "/a;b", "//", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/%"]
        {
            assert!(!is_plain(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn the_plain_form() {
        for (path, wanted) in [
            ("/%64eny", "/deny"),
            ("//deny", "/deny"),
            ("/x/../deny", "/deny"),
            ("/x/%2E%2e/deny", "/deny"),
            ("/x//../deny", "/deny"),
            ("/../../deny", "/deny"),
            ("/deny/.", "/deny/"),
            ("/deny/..", "/"),
            ("/..", "/"),
            ("/.//.", "/"),
            ("/a/b/../..", "/"),
            ("/caf%c3%a9%7E", "/caf%C3%A9~"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%5cb", "/a%5Cb"),
            ("/a%3Bb%21", "/a;b!"),
            ("/%2564eny", "/%2564eny"),
            ("/%3f%23%20", "/%3F%23%20"),
            ("/100%", "/100%25"),
            ("/%4", "/%254"),
            ("/%zz", "/%25zz"),
        ] {
            let found = plain(path).expect(path);
            assert_eq!(found, wanted, "{path}");
            assert_eq!(plain(&found).as_ref(), Some(&found), "{path} again");
        }
        assert_eq!(plain("/a%00"), None);
    }

    #[test]
    fn the_other_readings() {
        for (path, wanted) in [
            ("/deny%2fx", vec!["/deny/x"]),
            ("/%2Fdeny", vec!["/deny"]),
            ("/deny%5Cx", vec!["/deny/x"]),
            ("/deny;a=b/x", vec!["/deny/x"; 3]),
            ("/deny%3ba", vec!["/deny"]),
            ("/;/deny", vec!["/deny"; 3]),
            ("//x/deny", vec!["/deny"]),
            ("///x", vec!["/"]),
            ("//", vec!["/"]),
            ("/a%3b%2fb", vec!["/a;/b", "/a", "/a/b"]),
            ("/a;%2fb", vec!["/a;/b", "/a", "/a/b", "/a", "/a", "/a", "/a"]),
            ("/a/%62", vec![]),
        ] {
            let spelling = Spelling::of(path.as_bytes());
            assert!(!spelling.is_beyond_reading(), "{path}");
            let mut plain = Vec::new();
            let read = |reading: Reading| {
                reading.read(path.as_bytes(), &mut plain);
                String::from_utf8_lossy(&plain).into_owned()
            };
            assert_eq!(spelling.readings().map(read).collect::<Vec<_>>(), wanted, "{path}");
        }
    }

    #[test]
    fn what_no_list_of_readings_covers() {
        for path in [
            "/a/..",
            "/%2e/",
            "/a%2F..",
            "/..%5ca",
            "/..;/a",
            "/%2e%2E;a",
            "/a/.;b",
            "/%00",
            "/a%00b",
        ] {
            assert!(Spelling::of(path.as_bytes()).is_beyond_reading(), "{path}");
        }
        for (start, readings) in
            [("/%2F", 1), ("/%2F%5C", 3), ("/;", 3), ("/;%2F", 7), ("//a;%2F%5C", 31)]
        {
            let is_beyond = |len: usize| {
                let path = format!("{start}{}", "a".repeat(len - start.len()));
                let spelling = Spelling::of(path.as_bytes());
                assert_eq!(spelling.readings().count(), readings, "{start}");
                spelling.is_beyond_reading()
            };
            let most = READ_MAX / readings;
            assert_eq!((is_beyond(most), is_beyond(most + 1)), (false, true), "{start}");
        }
        let plain = format!("/%61{}", "a".repeat(4 * READ_MAX));
        assert!(!Spelling::of(plain.as_bytes()).is_beyond_reading(), "read in one way only");
    }
}
