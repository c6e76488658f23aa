//! A listener for webhooks and pushed jobs, whose caller chooses the answers.
//!
//! It understands the HTTP that the sender writes, and answers with any bytes, even invalid ones or none. The benchmark
//! counts requests with it. The fault suite and [`Receiver`](crate::receiver::Receiver) record requests with it.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::http::{header, headers, read_frame};

/// The accept queue. A node opens a connection for each of its slots at once, and a connection without a place retries
/// after a whole second.
const LISTEN_BACKLOG: u32 = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The request line and the headers.
    pub head: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Incoming<'a> {
    /// Returns a word of the request line, such as the method or the path.
    pub fn word(&self, number: usize) -> Option<&'a str> {
        let word = self.head.split(|byte| *byte == b' ').nth(number)?;
        std::str::from_utf8(word).ok()
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        header(self.head, name)
    }

    /// Returns all headers with their values.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        headers(self.head)
    }
}

/// The reaction to a request.
#[derive(Clone, Debug)]
pub enum Response {
    /// Send these bytes.
    Bytes(Cow<'static, [u8]>),
    /// Never answer.
    Silence,
    /// Reset the connection.
    Reset,
}

impl Response {
    /// Builds a response with this status, headers and body.
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

/// Chooses the answers to requests.
pub trait Respond: Send + Sync + 'static {
    /// Answers a request. The next one of the same connection is read afterwards.
    fn respond(&self, request: Incoming<'_>) -> impl Future<Output = Response> + Send;
}

/// An open port.
#[derive(Debug)]
pub struct Responder {
    listener: TcpListener,
}

impl Responder {
    /// Opens a port; must be called inside an event loop.
    pub fn open() -> io::Result<Responder> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Responder { listener: socket.listen(LISTEN_BACKLOG)? })
    }

    pub fn address(&self) -> io::Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Answers requests until it is dropped.
    pub async fn run<R: Respond>(self, respond: Arc<R>) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = self.listener.accept().await {
            let respond = Arc::clone(&respond);
            // The sender notices a broken connection itself.
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
