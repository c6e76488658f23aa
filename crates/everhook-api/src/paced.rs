//! A connection whose client must read its responses at a minimum pace.
//!
//! Without this limit, a client that sends requests and reads nothing would keep its connection forever. When a write
//! waits for the client, the client has `WRITE_WINDOW` to read `WRITE_BYTES_MIN`, or the rest of the response. A client
//! that reads single bytes fails like a client that reads nothing. Requests have other deadlines: the server limits the
//! time for the head, and `input` the time for the body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::limits::{WRITE_BYTES_MIN, WRITE_WINDOW};

/// A stream that fails if its client reads too slowly.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    /// Set from the first write that waits until the client has read enough.
    window: Option<Window>,
    failed: Counter,
}

#[derive(Debug)]
struct Window {
    over: Pin<Box<Sleep>>,
    taken: usize,
}

/// A stream that can be closed without sending the rest of its buffer.
pub(crate) trait Abort {
    /// Makes the close of the stream discard the data that the client has not read.
    fn abort(&self);
}

impl Abort for TcpStream {
    fn abort(&self) {
        // Otherwise the system would keep the unread bytes for minutes. A failure has only this effect.
        let _ = self.set_zero_linger();
    }
}

impl<S: Abort> Paced<S> {
    /// Increments `failed` if the client is too slow.
    pub(crate) fn new(stream: S, failed: Counter) -> Paced<S> {
        Paced { stream, window: None, failed }
    }

    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match (written, &mut self.window) {
            (Poll::Pending, window) => {
                let begin = || Window { over: Box::pin(tokio::time::sleep(WRITE_WINDOW)), taken: 0 };
                ready!(window.get_or_insert_with(begin).over.as_mut().poll(cx));
                self.stream.abort();
                self.failed.inc();
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not read its response")))
            }
            (Poll::Ready(Ok(bytes)), Some(window)) => {
                window.taken += bytes;
                if window.taken >= WRITE_BYTES_MIN {
                    self.window = None;
                }
                Poll::Ready(Ok(bytes))
            }
            (ready, _) => ready,
        }
    }
}

impl<S: AsyncWrite + Abort + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.judge(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A flush means that the response is written. The client is not measured until the next response.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.window = None;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const ANSWER: usize = 64 * WRITE_BYTES_MIN;

    impl Abort for DuplexStream {
        fn abort(&self) {}
    }

    /// Writes a response to a client that reads `bytes` every `pause`. Returns the result and the number of failures.
    async fn write(bytes: usize, pause: Duration) -> (Result<(), io::ErrorKind>, u64) {
        let (server, mut client) = tokio::io::duplex(1024);
        let failed = Counter::default();
        let mut paced = Paced::new(server, failed.clone());
        let reads = async {
            let mut buffer = vec![0; bytes];
            loop {
                tokio::time::sleep(pause).await;
                client.read_exact(&mut buffer).await.unwrap();
            }
        };
        let writes = async {
            paced.write_all(&vec![0; ANSWER]).await?;
            paced.flush().await
        };
        let written = tokio::select! {
            written = writes => written,
            () = reads => unreachable!("the client reads forever"),
        };
        (written.map_err(|error| error.kind()), failed.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let never = WRITE_WINDOW * 1000;
        assert_eq!(write(1, never).await, (Err(io::ErrorKind::TimedOut), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_byte_by_byte_loses_its_connection() {
        assert_eq!(write(1, Duration::from_millis(10)).await, (Err(io::ErrorKind::TimedOut), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_goes_on_reading_gets_its_answer() {
        assert_eq!(write(WRITE_BYTES_MIN / 16, WRITE_WINDOW / 20).await, (Ok(()), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_between_two_answers_is_not_the_clients() {
        let (server, mut client) = tokio::io::duplex(10);
        let mut paced = Paced::new(server, Counter::default());
        for _ in 0..3 {
            let mut answer = [0; 20];
            let answered = async {
                paced.write_all(&[0; 20]).await?;
                paced.flush().await
            };
            let read = client.read_exact(&mut answer);
            let (answered, read) = tokio::join!(answered, read);
            answered.unwrap();
            read.unwrap();
            tokio::time::sleep(WRITE_WINDOW * 2).await;
        }
    }
}
