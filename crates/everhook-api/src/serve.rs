//! The HTTP server, which accepts connections and owns them until they end.
//!
//! Clients must send requests and read responses at a minimum pace, and each address has a limited number of
//! connections. A stop has two steps, see [`Stop`]. [`Server::run`] has no deadline for its end: the caller sets one
//! and drops the future, which closes the remaining connections.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::{debug, warn};

use crate::addresses::{self, Addresses, ConnectionPlace};
use crate::auth::failures::ClientAddress;
use crate::limits::{
    ACCEPT_PAUSE, HEAD_BYTES_MAX, HEAD_TIMEOUT, OPS_CONNECTIONS_MAX, OPS_CONNECTIONS_PER_ADDRESS, SEND_BUFFER_BYTES,
    TLS_HANDSHAKE_TIMEOUT,
};
use crate::paced::Paced;
use crate::proxies::TrustedProxies;
use crate::server_tls::ServerTls;

/// A listener with its routes and limits.
pub struct Server {
    /// The listening socket, from [`listen`].
    pub listener: TcpListener,
    /// The routes of the listener.
    pub router: Router,
    /// The limits of connections.
    pub budget: Budget,
    /// The signals that stop the server.
    pub stop: Stop,
    /// The metrics of the connections.
    pub metrics: ConnectionMetrics,
    /// The certificate of the listener; none for plain HTTP.
    pub tls: Option<ServerTls>,
    /// The reverse proxies whose word about their clients counts.
    pub proxies: TrustedProxies,
}

/// The limits of concurrent connections of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum number of connections. More connections wait in the listen queue.
    pub connections: usize,
    /// Maximum number of connections of one client address. More connections are refused.
    pub per_address: usize,
}

impl Budget {
    /// Returns the limits of the listener for health and metrics. Clients of the API do not use them up.
    pub fn ops() -> Budget {
        Budget { connections: OPS_CONNECTIONS_MAX, per_address: OPS_CONNECTIONS_PER_ADDRESS }
    }
}

/// The two steps of a stop.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// The first step: the server still accepts connections and requests, but closes each connection after a response.
    /// So clients send their next requests to other nodes.
    pub leaving: CancellationToken,
    /// The second step: the listener and idle connections close, and running requests finish.
    pub closing: CancellationToken,
}

/// Metrics of a listener's connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    open: Gauge,
    refused: Counter,
    unread: Counter,
}

impl ConnectionMetrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("connections_open", "Open connections of clients", self.open.clone());
        let refused = "Connections refused because their address already had connections_per_address connections";
        registry.register("connections_refused", refused, self.refused.clone());
        let unread = "Connections closed because the client did not read its responses";
        registry.register("connections_unread", unread, self.unread.clone());
    }
}

/// Listens on `address` with a small send buffer, so that unread responses stay in this process and can time out.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    // Accepted connections inherit the size.
    SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER_BYTES)?;
    Ok(listener)
}

impl Server {
    /// Serves until the second step of the stop, and then until all running requests are answered.
    pub async fn run(self) {
        let Server { listener, router, budget, stop, metrics, tls, proxies } = self;
        let proxies = Arc::new(proxies);
        let addresses = Addresses::new(budget.per_address);
        let mut connections = JoinSet::new();
        loop {
            metrics.open.set(i64::try_from(connections.len()).unwrap_or(i64::MAX));
            let event = tokio::select! {
                () = stop.closing.cancelled() => Event::Stop,
                accepted = listener.accept(), if connections.len() < budget.connections => Event::Accepted(accepted),
                Some(_) = connections.join_next() => Event::Ended,
            };
            match event {
                Event::Stop => break,
                Event::Ended => {}
                Event::Accepted(Ok((stream, from))) => match Addresses::take(&addresses, from.ip()) {
                    Some(place) => {
                        let (router, stop, unread) = (router.clone(), stop.clone(), metrics.unread.clone());
                        connections.spawn(connection(
                            stream,
                            place,
                            router,
                            stop,
                            unread,
                            tls.clone(),
                            Arc::clone(&proxies),
                        ));
                    }
                    None => {
                        metrics.refused.inc();
                        refuse(stream, from, budget.per_address, tls.is_some());
                    }
                },
                Event::Accepted(Err(error)) => pause(&error).await,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
        metrics.open.set(0);
    }
}

enum Event {
    Accepted(io::Result<(TcpStream, SocketAddr)>),
    Ended,
    Stop,
}

/// Writes one response without waiting for the client. The send buffer of a new connection has room for it.
fn refuse(stream: TcpStream, from: SocketAddr, max: usize, is_encrypted: bool) {
    const BODY: &str =
        r#"{"code":"too_many_connections","detail":"This address has too many connections: close some."}"#;
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/json";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let ip = from.ip();
    warn!(client.ip = %ip, "refused a connection from {ip}, which already has {max}: raise `connections_per_address` if it is a proxy");
    // A handshake only for this answer would cost more than the connection is allowed.
    if is_encrypted {
        return;
    }
    if let Err(error) = stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes())) {
        debug!("could not answer a refused connection: {error}");
    }
}

/// Ignores clients that disconnected, and pauses after other errors: without file descriptors, a retry at once would
/// only spin.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    warn!("could not accept a connection: {error}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

async fn connection(
    stream: TcpStream,
    place: ConnectionPlace,
    router: Router,
    stop: Stop,
    unread: Counter,
    tls: Option<ServerTls>,
    proxies: Arc<TrustedProxies>,
) {
    // Responses are small and complete, so waiting to fill a packet would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        debug!("could not set TCP_NODELAY on a connection: {error}");
    }
    let client = Client { peer: stream.peer_addr().map_or(place.client(), |peer| peer.ip()), proxies };
    let stream = Paced::new(stream, unread);
    let Some(tls) = tls else { return exchange(stream, client, router, stop).await };
    match timeout(TLS_HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, client, router, stop).await,
        Ok(Err(error)) => debug!("a TLS handshake failed: {error}"),
        Err(_elapsed) => debug!("a TLS handshake timed out"),
    }
}

/// The other end of a connection: a client, or a proxy that names its client in each request.
struct Client {
    peer: IpAddr,
    proxies: Arc<TrustedProxies>,
}

impl Client {
    fn address(&self, headers: &HeaderMap) -> ClientAddress {
        ClientAddress(addresses::client(self.proxies.client(self.peer, headers)))
    }
}

/// Serves the requests of one connection.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client, router: Router, stop: Stop) {
    let Stop { leaving, closing } = stop;
    let service = service_fn(move |mut request: Request<Incoming>| {
        let address = client.address(request.headers());
        request.extensions_mut().insert(address);
        let (answer, leaving) = (router.clone().call(request.map(Body::new)), leaving.clone());
        async move {
            let mut answer = answer.await?;
            if leaving.is_cancelled() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = closing.cancelled() => None,
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
