//! The HTTP server: accepts connections and owns them until they end.
//!
//! Whoever awaits [`serve`] bounds its end: after `shutdown` the requests that are running are finished and idle
//! connections closed; dropping the future closes what is left.

use std::io;
use std::pin::pin;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::{debug, warn};

use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_TIMEOUT};

/// Serves `router` on `listener` until `shutdown`, then finishes what is running.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => Event::Stop,
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => Event::Accepted(accepted),
            Some(_) = connections.join_next() => Event::Ended,
        };
        match event {
            Event::Stop => break,
            Event::Ended => {}
            Event::Accepted(Ok((stream, _))) => {
                connections.spawn(connection(stream, router.clone(), shutdown.clone()));
            }
            Event::Accepted(Err(error)) => pause(&error).await,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

enum Event {
    Accepted(io::Result<(TcpStream, std::net::SocketAddr)>),
    Ended,
    Stop,
}

/// A client that gave up concerns nobody else; where the system ran out of files, trying at once would only spin.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    warn!("could not accept a connection: {error}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

async fn connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Answers are small and complete; waiting to fill a packet would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        debug!("could not switch off delays for a connection: {error}");
    }
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!("a connection ended early: {error}");
    }
}
