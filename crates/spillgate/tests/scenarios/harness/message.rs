//! Heads and whole messages as a scenario looks at them. Not a strict parser: what it cannot read
//! is a failed scenario.

/// The head of a request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The first line, without its end.
    pub(crate) line: String,
    /// Names and values in the order in which they came.
    pub(crate) fields: Vec<(String, String)>,
}

/// A whole request or response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its head.
    pub(crate) head: Head,
    /// Its body, without framing.
    pub(crate) body: Vec<u8>,
    /// Fields after the last chunk.
    pub(crate) trailers: Vec<(String, String)>,
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Length(usize),
    Chunked,
    Close,
}

impl Head {
    /// Read a head, with the empty line at its end.
    #[track_caller]
    pub(crate) fn parse(bytes: &[u8]) -> Head {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        Head { line, fields: lines.filter(|line| !line.is_empty()).map(field).collect() }
    }

    /// The status of a response.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        let status = self.line.split(' ').nth(1).and_then(|word| word.parse().ok());
        status.unwrap_or_else(|| panic!("no status line: {:?}", self.line))
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The target of a request.
    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The values of all fields of that name.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let same = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of the one field of that name; panics where there are several.
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "more than one {name}: {self:?}");
        all.first().copied()
    }

    /// Where the body of a request ends.
    #[track_caller]
    pub(super) fn request_ending(&self) -> Ending {
        match self.ending() {
            Ending::Close => Ending::Length(0),
            known => known,
        }
    }

    /// Where the body of a response to `method` ends.
    #[track_caller]
    pub(super) fn response_ending(&self, method: &str) -> Ending {
        match self.status() {
            100..200 | 204 | 304 => Ending::Length(0),
            _ if method == "HEAD" => Ending::Length(0),
            _ => self.ending(),
        }
    }

    #[track_caller]
    fn ending(&self) -> Ending {
        match (self.get("transfer-encoding"), self.get("content-length")) {
            (Some(coding), None) => {
                assert_eq!(coding, "chunked");
                Ending::Chunked
            }
            (None, Some(length)) => Ending::Length(length.parse().expect("a length")),
            (None, None) => Ending::Close,
            (Some(_), Some(_)) => panic!("two framings: {self:?}"),
        }
    }
}

impl Message {
    /// The status of a response.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }

    /// The value of the one field of that name.
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.head.get(name)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A plain GET.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// A plain POST with a body of known length.
pub(crate) fn post(target: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A response of a worker with a body of known length.
pub(crate) fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// One field line.
#[track_caller]
pub(super) fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field line: {line:?}"));
    (name.to_owned(), value.trim().to_owned())
}
