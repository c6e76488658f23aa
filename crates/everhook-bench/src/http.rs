//! The smallest HTTP/1.1 that generator and receiver need: as little of the machine as possible goes into measuring it.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A message in a buffer: where its head and its body end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) head: usize,
    pub(crate) end: usize,
}

/// Reads until one whole request or response is in the buffer; none when the peer closed.
pub(crate) async fn read_frame(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Frame>> {
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
    let length = header(&buffer[..head], b"content-length").and_then(parse).unwrap_or(0);
    let end = head + length;
    (buffer.len() >= end).then_some(Frame { head, end })
}

/// The value of a header, by its lower-case name.
pub(crate) fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (key, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        key.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

fn parse(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The status of a response.
pub(crate) fn status(head: &[u8]) -> u16 {
    head.get(9..12).and_then(parse).and_then(|status| u16::try_from(status).ok()).unwrap_or(0)
}
