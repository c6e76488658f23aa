//! A listener for webhooks and pushed jobs; what it answers is its caller's to say.
//!
//! Reads as much HTTP as the sender writes and answers byte for byte as it is told, also wrongly or not at all. The benchmark
//! counts with it, the fault suite and [`Receiver`](crate::receiver::Receiver) record with it.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::http::{header, headers, read_frame};

/// A node opens a connection for each of its slots at once. Those that find no place in the queue try again after a whole second.
const LISTEN_BACKLOG: u32 = 4096;

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The request line and the headers.
    pub head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Incoming<'a> {
    /// A word of the request line: the method, the path.
    pub fn word(&self, number: usize) -> Option<&'a str> {
        let word = self.head.split(|byte| *byte == b' ').nth(number)?;
        std::str::from_utf8(word).ok()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        header(self.head, name)
    }

    /// Every header with its value.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        headers(self.head)
    }
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Response {
    /// These bytes are sent.
    Bytes(Cow<'static, [u8]>),
    /// Nothing is ever sent.
    Silence,
    /// The connection is reset.
    Reset,
}

impl Response {
    /// A response with this status, headers and body.
    pub fn new(status: u16, headers: &[(&str, String)], body: &[u8]) -> Response {
        let mut head = format!("HTTP/1.1 {status} X\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if status != 204 {
            head += &format!("content-length: {}\r\n", body.len());
        }
        Response::Bytes([head.as_bytes(), b"\r\n", body].concat().into())
    }
}

/// Says what requests are answered.
pub trait Respond: Send + Sync + 'static {
    /// Answers a request; the next one of its connection is read afterwards.
    fn respond(&self, request: Incoming<'_>) -> impl Future<Output = Response> + Send;
}

/// A port that requests can come to.
#[derive(Debug)]
pub struct Responder {
    listener: TcpListener,
}

impl Responder {
    /// Opens a port; inside an event loop.
    pub fn open() -> io::Result<Responder> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Responder { listener: socket.listen(LISTEN_BACKLOG)? })
    }

    /// Host and port.
    pub fn address(&self) -> io::Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Answers whatever comes, until it is dropped.
    pub async fn run<R: Respond>(self, respond: Arc<R>) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = self.listener.accept().await {
            let respond = Arc::clone(&respond);
            // A connection that breaks is the sender's to notice.
            connections.spawn(async move { drop(converse(stream, &*respond).await) });
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn converse(mut stream: TcpStream, respond: &impl Respond) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(8192);
    while let Some(frame) = read_frame(&mut stream, &mut buffer).await? {
        let request = Incoming { head: &buffer[..frame.head], body: &buffer[frame.head..frame.end] };
        match respond.respond(request).await {
            Response::Bytes(bytes) => stream.write_all(&bytes).await?,
            Response::Silence => {}
            Response::Reset => return stream.set_zero_linger(),
        }
        buffer.drain(..frame.end);
    }
    Ok(())
}
