//! As much of HTTP/1.1 as a bench needs that knows both ends: requests without a body, answers with
//! a length or up to the end of the connection.

/// The field that carries the number of a request, by which a worker knows what it costs.
const NUMBER: &str = "x-bench-number";

/// The bytes of a request.
pub fn request(path: &str, number: usize, class: usize, tenant: usize) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nhost: bench\r\nx-class: {class}\r\nx-tenant: t{tenant}\r\n\
         {NUMBER}: {number}\r\n\r\n"
    )
    .into_bytes()
}

/// What a worker has to know of a request.
pub enum Asked {
    /// One of ours, by its number.
    Numbered(usize),
    /// A health check of the proxy.
    Probe,
}

/// The first request in `bytes`, and how long its head is; none while it is not whole.
pub fn asked(bytes: &[u8]) -> Option<(Asked, usize)> {
    let end = head_end(bytes)?;
    let number = field(&bytes[..end], NUMBER).and_then(|text| text.parse().ok());
    Some((number.map_or(Asked::Probe, Asked::Numbered), end))
}

/// The bytes of a worker's answer.
pub fn answer(status: &str, is_last: bool) -> Vec<u8> {
    const BODY: &str = "as many bytes as a small piece of JSON has, so that answers weigh a bit\n";
    let connection = if is_last { "connection: close\r\n" } else { "" };
    let length = BODY.len() * 4;
    let head = format!("HTTP/1.1 {status}\r\n{connection}content-length: {length}\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(BODY.repeat(4).as_bytes());
    bytes
}

/// An answer that has arrived as a whole.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// May the connection be used again?
    pub keeps: bool,
}

/// The answer in `bytes`; none while it is not whole. `has_ended`: no more will come.
pub fn answered(bytes: &[u8], has_ended: bool) -> Option<Answer> {
    let end = head_end(bytes)?;
    let head = &bytes[..end];
    let status = std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
    let length: Option<usize> = field(head, "content-length").and_then(|text| text.parse().ok());
    let closes = field(head, "connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    match length {
        Some(length) if bytes.len() - end < length => None,
        Some(_) => Some(Answer { status, keeps: !closes && !has_ended }),
        None => has_ended.then_some(Answer { status, keeps: false }),
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(head).ok()?;
    let mut fields = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_back() {
        let mut bytes = request("/fast", 17, 2, 3);
        assert!(asked(&bytes[..bytes.len() - 1]).is_none());
        bytes.extend_from_slice(b"GET");
        let (found, length) = asked(&bytes).unwrap();
        assert!(matches!(found, Asked::Numbered(17)));
        assert_eq!(length, bytes.len() - 3);
        assert!(matches!(asked(b"GET /health HTTP/1.0\r\n\r\n"), Some((Asked::Probe, 24))));
    }

    #[test]
    fn answers_are_whole_by_length_or_end() {
        let bytes = answer("200 OK", false);
        assert!(answered(&bytes[..bytes.len() - 1], false).is_none());
        assert!(answered(&bytes, false).is_some_and(|found| found.status == 200 && found.keeps));
        let last = answer("503 Service Unavailable", true);
        assert!(answered(&last, false).is_some_and(|found| found.status == 503 && !found.keeps));
        let open = b"HTTP/1.0 503 no\r\n\r\nsome";
        assert!(answered(open, false).is_none());
        assert!(answered(open, true).is_some_and(|found| found.status == 503));
    }
}
