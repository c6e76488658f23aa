//! One HTTP/1.1 connection and its exchanges.
//!
//! No task drives the connection: the sending task polls it. This saves two task switches per request, closes the
//! socket when the caller stops waiting, and leaves no task without an owner. An idle link is not polled; `is_reusable`
//! compensates before the next request.
//!
//! A link never retries. A request of which no byte was written is returned, and `sender` may use another link.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::limits::REPLY_BYTES_MAX;
use everhook_core::outcome::{Reply, SendFailure, Wish};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::failure;
use crate::limits::{
    LINK_BUFFER_BYTES_MAX, REPLY_HEAD_BYTES_MAX, REPLY_HEADERS_MAX, REPLY_HEADS_BYTES_MAX, RETRY_AFTER_BYTES_MAX,
};
use crate::socket::{Stream, Watch};

pub(crate) type Message = http::Request<Full<Bytes>>;

type Driver = Connection<TokioIo<Stream>, Full<Bytes>>;

pub(crate) struct Link {
    requests: SendRequest<Full<Bytes>>,
    /// `None` after the connection has ended.
    driver: Option<Driver>,
    watch: Arc<Watch>,
    born: Instant,
}

#[derive(Clone, Copy)]
pub(crate) struct ExchangeBy {
    pub(crate) begun: Instant,
    pub(crate) written: Instant,
    pub(crate) first_byte: Instant,
    pub(crate) total: Instant,
}

pub(crate) struct Exchanged {
    pub(crate) reply: Reply,
    /// Whether the link can carry another request.
    pub(crate) reusable: bool,
    /// The `Keep-Alive` timeout that the peer announced.
    pub(crate) promised: Option<Duration>,
}

/// An exchange without a reply.
pub(crate) enum Failed {
    /// No byte of the message was written, so another link may carry it.
    Unsent(Box<Message>),
    /// The receiver may have seen the request.
    Broken(SendFailure),
}

impl Link {
    /// Starts HTTP on a connected stream. Nothing is written yet.
    pub(crate) async fn open(stream: Stream, watch: Arc<Watch>) -> Result<Link, SendFailure> {
        let (requests, driver) = Builder::new()
            .max_headers(REPLY_HEADERS_MAX)
            .max_header_size(REPLY_HEAD_BYTES_MAX)
            .max_buf_size(LINK_BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failure::exchange(&error))?;
        Ok(Link { requests, driver: Some(driver), watch, born: clock::now() })
    }

    pub(crate) fn born(&self) -> Instant {
        self.born
    }

    /// Whether a request may start: the peer has neither closed the connection nor sent unexpected bytes.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.watch.ask_kernel_once();
        self.is_settled()
    }

    /// Sends `message` and reads the reply; keeps at most `REPLY_BYTES_MAX` of its body.
    pub(crate) async fn exchange(
        &mut self,
        message: Message,
        by: ExchangeBy,
        noted: &mut Exchange,
    ) -> Result<Exchanged, Failed> {
        let (head, body) = self.head(message, by).await?.into_parts();
        noted.first_byte = Some(clock::now() - by.begun);
        noted.keep_headers(head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        let body = match timeout_at(by.total, self.body(body)).await {
            Ok(body) => body?,
            Err(_elapsed) => return Err(broken(failure::timeout("timed out reading the reply"))),
        };
        Ok(Exchanged {
            reply: Reply {
                status: head.status.as_u16(),
                retry_after: retry_after(&head.headers),
                wish: head.headers.get(Wish::HEADER).and_then(|value| Wish::parse(value.to_str().ok()?)),
                body: body.kept,
            },
            reusable: body.finished && self.is_settled(),
            promised: promised(&head.headers),
        })
    }

    async fn head(&mut self, message: Message, by: ExchangeBy) -> Result<Response<Incoming>, Failed> {
        let Link { requests, driver, watch, .. } = self;
        watch.await_head(REPLY_HEADS_BYTES_MAX);
        let mut response = pin!(requests.try_send_request(message));
        let mut head = pin!(poll_fn(|cx| {
            drive(driver, cx);
            response.as_mut().poll(cx)
        }));
        let answer = match timeout_at(by.written.min(by.first_byte), head.as_mut()).await {
            Ok(answer) => answer,
            Err(_elapsed) if watch.write_blocked() => {
                return Err(broken(failure::timeout("timed out writing the request")));
            }
            Err(_elapsed) => match timeout_at(by.first_byte, head).await {
                Ok(answer) => answer,
                Err(_elapsed) => return Err(broken(failure::timeout("timed out waiting for the reply"))),
            },
        };
        let answer = answer.map_err(|mut error| match error.take_message() {
            Some(message) => Failed::Unsent(Box::new(message)),
            None if watch.head_overran() => broken(failure::head_too_large()),
            None => broken(failure::exchange(error.error())),
        });
        watch.head_came();
        answer
    }

    async fn body(&mut self, mut incoming: Incoming) -> Result<KeptBody, Failed> {
        let mut kept = Vec::new();
        while kept.len() < REPLY_BYTES_MAX && !incoming.is_end_stream() {
            let frame = poll_fn(|cx| self.poll_frame(&mut incoming, cx)).await;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| broken(failure::exchange(&error)))?;
            if let Some(data) = frame.data_ref() {
                // A copy, because a slice of ten bytes would keep the whole read buffer alive.
                kept.extend_from_slice(&data[..data.len().min(REPLY_BYTES_MAX - kept.len())]);
            }
        }
        Ok(KeptBody { kept: kept.into(), finished: incoming.is_end_stream() })
    }

    fn poll_frame(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        // The first poll asks the driver for data; the second returns the bytes that the driver has read.
        let asked = Pin::new(&mut *incoming).poll_frame(cx);
        if asked.is_ready() {
            return asked;
        }
        drive(&mut self.driver, cx);
        Pin::new(incoming).poll_frame(cx)
    }

    /// Lets the driver finish without waiting. Returns whether the driver is ready for a request.
    fn is_settled(&mut self) -> bool {
        // The task's own waker would only keep the task in memory. Unconstrained, because an exhausted budget would
        // make a healthy link look busy.
        let mut settle = pin!(tokio::task::unconstrained(poll_fn(|cx| {
            drive(&mut self.driver, cx);
            Poll::Ready(())
        })));
        let _ = settle.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.requests.is_ready()
    }
}

type FrameResult = Result<hyper::body::Frame<Bytes>, hyper::Error>;

struct KeptBody {
    kept: Bytes,
    finished: bool,
}

/// Polls the connection. An ended connection is dropped, which fails everything that waits for it.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    // The error is not lost: the response or the body returns it.
    if driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(cx).is_ready()) {
        *driver = None;
    }
}

fn broken(failure: SendFailure) -> Failed {
    Failed::Broken(failure)
}

fn retry_after(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    (text.len() <= RETRY_AFTER_BYTES_MAX).then(|| text.to_owned())
}

/// Parses the header `Keep-Alive: timeout=5`.
fn promised(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("keep-alive")?.to_str().ok()?;
    let secs = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    Some(Duration::from_secs(secs.parse::<u32>().ok()?.into()))
}
