//! A minimal HTTP/1.1 for test clients and receivers. It hides nothing: every status and broken connection is visible.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The positions of a request or response in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The start of the body.
    pub head: usize,
    /// The start of the next request or response.
    pub end: usize,
}

/// Reads until the buffer contains one complete request or response; returns none when the peer has closed.
pub async fn read_frame(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    loop {
        if let Some(frame) = frame(buffer) {
            return Ok(Some(frame));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn frame(buffer: &[u8]) -> Option<Frame> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let length = header(&buffer[..head], "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let end = head + length;
    (buffer.len() >= end).then_some(Frame { head, end })
}

/// Returns the value of a header.
pub fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (key, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":").filter(|_| key.eq_ignore_ascii_case(name.as_bytes()))?;
        std::str::from_utf8(value.trim_ascii()).ok()
    })
}

/// Returns all headers with their values.
pub fn headers(head: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
        Some((name, value.trim()))
    })
}

pub fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// The API key; empty for none.
    pub key: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// Parses the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Parses the body as JSON, and fails if the status is not the expected one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

/// Sends one request on a new connection. An `Err` means that no complete answer arrived; the server may have acted all
/// the same.
pub async fn call(address: &str, call: Call<'_>) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    // A server may answer before it has read everything. Its answer then matters more than the broken pipe.
    let written = stream.write_all(&request(address, call)).await;
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes).await;
    parse(&bytes).ok_or_else(|| no_answer(written, read))
}

/// Does the same as `call` in a blocking thread, for at most `patience`.
pub fn call_and_wait(address: &str, call: Call<'_>, patience: Duration) -> io::Result<Reply> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    let written = stream.write_all(&request(address, call));
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    parse(&bytes).ok_or_else(|| no_answer(written, read))
}

fn no_answer(written: io::Result<()>, read: io::Result<usize>) -> io::Error {
    written.err().or(read.err()).unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn request(address: &str, call: Call<'_>) -> Vec<u8> {
    let Call { method, path, key, headers, body } = call;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if !key.is_empty() {
        head += &format!("authorization: Bearer {key}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("content-length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Parses a complete response; returns none if it is incomplete.
fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
    let status = std::str::from_utf8(head).ok()?.split(' ').nth(1)?.parse().ok()?;
    let body = match header(head, "content-length") {
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None if header(head, "transfer-encoding") == Some("chunked") => dechunk(rest)?,
        None => rest.to_vec(),
    };
    let headers = headers(head).map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Some(Reply { status, headers, body })
}

fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 4 + size..)?;
    }
}
