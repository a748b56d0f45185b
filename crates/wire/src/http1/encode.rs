//! Writes heads and chunks to the end of a buffer.
//!
//! Names and values must come from a parsed head or be constants: nothing is checked again, except
//! in debug builds. Absent: which fields to write.

use super::field::{FieldRef, is_token, is_value_byte};
use crate::digits::number;

/// `GET /path?query HTTP/1.1` and its line end.
pub fn request_line(out: &mut Vec<u8>, method: &[u8], path: &[u8], query: Option<&[u8]>) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(path);
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// `HTTP/1.1 200 OK` and its line end. An empty reason is allowed.
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    debug_assert!(reason.iter().all(|byte| is_value_byte(*byte)), "line end in a reason");
    out.extend_from_slice(b"HTTP/1.1 ");
    number(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// `name: value` and its line end.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(is_token(name), "field name is no token");
    debug_assert!(value.iter().all(|byte| is_value_byte(*byte)), "control byte in a value");
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// `name: 123` and its line end.
pub fn field_number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    debug_assert!(is_token(name), "field name is no token");
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// The empty line after the fields.
pub fn head_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The line before the data of a chunk of `size` bytes, which must not be zero.
pub fn chunk_head(out: &mut Vec<u8>, size: u64) {
    debug_assert!(size > 0, "an empty chunk would end the body");
    hex(out, size);
    out.extend_from_slice(b"\r\n");
}

/// What follows the data of a chunk.
pub fn chunk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The last chunk, with the trailers that follow it. To be written exactly once per body.
pub fn last_chunk<'a>(out: &mut Vec<u8>, trailers: impl Iterator<Item = FieldRef<'a>>) {
    out.extend_from_slice(b"0\r\n");
    for trailer in trailers {
        field(out, trailer.name, trailer.value);
    }
    out.extend_from_slice(b"\r\n");
}

/// `value` in lower-case hex digits, as few as it needs.
pub fn hex(out: &mut Vec<u8>, value: u64) {
    let digits = (16 - value.leading_zeros() / 4).max(1);
    for index in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * index) & 0xf) as usize]);
    }
}

/// The usual phrase for `status` (RFC 9110 section 15 and the registry); empty where there is none.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits() {
        for value in [0, 1, 9, 10, 15, 16, 255, 256, 65_535, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            hex(&mut out, value);
            assert_eq!(out, format!("{value:x}").as_bytes());
        }
    }
}
