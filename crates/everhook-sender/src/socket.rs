//! A TCP socket that can be observed while an HTTP client owns it.
//!
//! The observer can see whether a write is blocked, let the next read ask the kernel whether the peer has closed, and
//! limit the bytes that are read before the head of a reply. The socket lies below TLS, so that the answers are about
//! the wire. `connect` creates it, `link` observes it.

use std::io::{self, IoSlice, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A plain or encrypted connection.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

pub(crate) struct Socket {
    tcp: TcpStream,
    watch: Arc<Watch>,
}

/// The observer of a `Socket`. Only one task at a time uses both, so relaxed ordering is enough.
pub(crate) struct Watch {
    write_blocked: AtomicBool,
    ask_kernel: AtomicBool,
    /// Bytes that may still be read before the head of the reply; `ANY` if no head is awaited.
    head_bytes: AtomicUsize,
}

/// Marks that no head is awaited.
const ANY: usize = usize::MAX;

impl Socket {
    pub(crate) fn new(tcp: TcpStream) -> (Socket, Arc<Watch>) {
        let (write_blocked, ask_kernel) = (AtomicBool::new(false), AtomicBool::new(false));
        let watch = Arc::new(Watch { write_blocked, ask_kernel, head_bytes: AtomicUsize::new(ANY) });
        (Socket { tcp, watch: watch.clone() }, watch)
    }

    fn note_write(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.watch.write_blocked.store(wrote.is_pending(), Relaxed);
        wrote
    }
}

impl Watch {
    /// Whether the last write is blocked because the peer does not read.
    pub(crate) fn write_blocked(&self) -> bool {
        self.write_blocked.load(Relaxed)
    }

    /// Limits the bytes read until `head_came`. HTTP allows any number of interim replies, and each takes time to read.
    /// The last read may exceed the limit.
    pub(crate) fn await_head(&self, bytes: usize) {
        self.head_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn head_came(&self) {
        self.head_bytes.store(ANY, Relaxed);
    }

    /// Whether the receiver exceeded the limit before the head was complete.
    pub(crate) fn head_overran(&self) -> bool {
        self.head_bytes.load(Relaxed) == 0
    }

    fn count_read(&self, bytes: usize) {
        let left = self.head_bytes.load(Relaxed);
        if left != ANY {
            self.head_bytes.store(left.saturating_sub(bytes), Relaxed);
        }
    }

    /// Makes the next read ask the kernel, even if the event loop has reported nothing.
    ///
    /// On a busy machine the event loop learns late that a peer has closed. A request written in that gap would fail
    /// although the receiver is healthy.
    pub(crate) fn ask_kernel_once(&self) {
        self.ask_kernel.store(true, Relaxed);
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.watch.head_overran() {
            return Poll::Ready(Err(io::Error::other("the head of the reply is too large")));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.tcp).poll_read(cx, buf);
        self.watch.count_read(buf.filled().len() - before);
        if polled.is_ready() || !self.watch.ask_kernel.swap(false, Relaxed) {
            return polled;
        }
        // 1 KiB is enough for a TLS alert. The rest is read in the usual way.
        let room = buf.remaining().min(1024);
        match (&*SockRef::from(&self.tcp)).read(buf.initialize_unfilled_to(room)) {
            Ok(read) => {
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.note_write(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        self.note_write(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Stream::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Stream::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Stream::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(io) => io.is_write_vectored(),
            Stream::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(io) => Pin::new(io).poll_flush(cx),
            Stream::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Stream::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
