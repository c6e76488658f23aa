//! Receivers that play a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use everhook_core::outcome::Class;
use everhook_sender::Sender;

use crate::{check_failure, post};

/// A reply that keeps the connection open.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A receiver that runs its script in a thread and returns the script's result.
pub(crate) struct Receiver<T> {
    pub(crate) port: u16,
    script: JoinHandle<T>,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Lets a test close a connection after the sender has kept it.
pub(crate) struct Closer {
    tell: mpsc::Sender<()>,
    closed: mpsc::Receiver<()>,
}

/// The script's half of a `Closer`.
pub(crate) struct ConnectionEnd {
    told: mpsc::Receiver<()>,
    closed: mpsc::Sender<()>,
}

impl Closer {
    pub(crate) fn new() -> (Closer, ConnectionEnd) {
        let (tell, told) = mpsc::channel();
        let (close, closed) = mpsc::channel();
        (Closer { tell, closed }, ConnectionEnd { told, closed: close })
    }

    /// Returns when the connection is closed. Blocks the thread on purpose, so that the event loop does not notice the
    /// close.
    pub(crate) fn close(&self) {
        self.tell.send(()).unwrap();
        self.closed.recv().unwrap();
    }
}

impl ConnectionEnd {
    /// Closes `connection` on request, or when the `Closer` is gone.
    pub(crate) fn close<T>(&self, connection: T) {
        let _ = self.told.recv();
        drop(connection);
        let _ = self.closed.send(());
    }
}

impl<T: Send + 'static> Receiver<T> {
    pub(crate) fn start(script: impl FnOnce(TcpListener) -> T + Send + 'static) -> Receiver<T> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Receiver { port, script: thread::spawn(move || script(listener)) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?a=b", self.port)
    }

    pub(crate) fn end(self) -> T {
        self.script.join().expect("the script went as written")
    }

    /// Sends it a request, checks its failure, and waits for the end of the script.
    pub(crate) async fn check_failure(self, sender: &Sender, class: Class, detail: &str) {
        check_failure(sender.send(post(self.url(), "{}")).await, class, detail);
        self.end();
    }

    /// Does the same over TLS, with this name of the host.
    pub(crate) async fn check_tls_failure(self, host: &str, sender: &Sender, class: Class, detail: &str) {
        check_failure(sender.send(post(format!("https://{host}:{}/", self.port), "{}")).await, class, detail);
        self.end();
    }
}

/// A receiver that reads one request and then follows the script.
pub(crate) fn after_request<T: Send + 'static>(script: impl FnOnce(TcpStream) -> T + Send + 'static) -> Receiver<T> {
    Receiver::start(move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        script(stream)
    })
}

/// A receiver that answers one request with `reply`, then waits for the sender to close the connection.
pub(crate) fn answering(reply: impl Into<Vec<u8>>) -> Receiver<Seen> {
    let reply = reply.into();
    Receiver::start(move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        let seen = read_request(&mut stream);
        // The sender may close the connection in the middle of a reply of which it has read enough.
        let _ = stream.write_all(&reply);
        wait_for_hang_up(&mut stream);
        seen
    })
}

pub(crate) fn read_request(stream: &mut impl Read) -> Seen {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).expect("a whole body");
    Seen { head, body }
}

pub(crate) fn wait_for_hang_up(stream: &mut TcpStream) {
    let _ = std::io::copy(stream, &mut std::io::sink());
}
