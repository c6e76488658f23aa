//! The smallest HTTP/1.1 that clients and receivers need, which hides nothing.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer of the API.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// A request to the API.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) key: &'a str,
    pub(crate) idempotency_key: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// One request on a connection of its own. `Err` means that no whole answer came, whatever the server may have done.
pub(crate) async fn call(address: &str, call: Call<'_>) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Call { method, path, key, idempotency_key, body } = call;
    let mut head = format!("{method} /api/v1{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    head += &format!("authorization: Bearer {key}\r\ncontent-length: {}\r\n", body.len());
    if let Some(key) = idempotency_key {
        head += &format!("idempotency-key: {key}\r\n");
    }
    head += "\r\n";
    // A server may answer before it has read everything: then the answer counts, not the broken pipe.
    let written = stream.write_all(&[head.as_bytes(), body].concat()).await;
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes).await;
    match parse(&bytes) {
        Some(reply) => Ok(reply),
        None => Err(written.err().or(read.err()).unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
    }
}

/// A whole answer, or nothing if it was cut short.
fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    let body = match header(head, "content-length") {
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None if header(head, "transfer-encoding") == Some("chunked") => dechunk(rest)?,
        None => rest.to_vec(),
    };
    Some(Reply { status, body })
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

/// The value of a header.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A request as a receiver reads it.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Reads one request; none when the peer closed.
pub(crate) async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                return Ok(Some(Request { head, body }));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}
