//! A TCP proxy between a node and the database servers, which can cut, delay and hold connections.
//!
//! The proxy recognises a COMMIT. It can drop the commit, drop its reply, or stop forwarding at that point.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::background::Background;
use crate::wire::{Kind, Splitter};

const CHUNK: usize = 16 * 1024;
/// The longest wait for the execution of a commit before the connection is cut.
const COMMIT_WAIT: Duration = Duration::from_secs(5);

/// The point at which the next connection is cut, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// When a COMMIT arrives; it is not forwarded.
    BeforeCommit,
    /// After a COMMIT was executed; its reply is not forwarded.
    AfterCommit,
    /// After any request was executed; its reply is not forwarded.
    Reply,
    /// When a COMMIT arrives: it is not forwarded, and the node reads that the server did not wait for its standby.
    Warn,
    /// When a COMMIT arrives: no more data passes and no side hangs up, as when a machine loses power.
    Freeze,
}

#[derive(Debug)]
pub struct Proxy {
    /// The address of each server for the node.
    pub addresses: Vec<String>,
    shared: Arc<Shared>,
    _background: Background,
}

#[derive(Debug)]
struct Shared {
    armed: Mutex<Option<Cut>>,
    fired: AtomicUsize,
    latency_ms: AtomicU64,
    held: watch::Sender<bool>,
    refuses: AtomicBool,
    /// Incremented to cut all connections.
    cuts: watch::Sender<u64>,
}

/// Whether to withhold the reply to a commit, or to any request.
#[derive(Default)]
struct Swallowing {
    commit: AtomicBool,
    any: AtomicBool,
}

/// The reason for the end of a connection.
enum End {
    Closed,
    Cut,
    Warned,
    Frozen,
}

impl Proxy {
    /// Starts a proxy for these servers, given as host and port.
    pub fn start(servers: &[String]) -> io::Result<Proxy> {
        let background = Background::start()?;
        let shared = Arc::new(Shared {
            armed: Mutex::new(None),
            fired: AtomicUsize::new(0),
            latency_ms: AtomicU64::new(0),
            held: watch::Sender::new(false),
            refuses: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
        });
        let mut addresses = Vec::new();
        for server in servers {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?.to_string());
            background.spawn(Arc::clone(&shared).listen(listener, server.clone()));
        }
        Ok(Proxy { addresses, shared, _background: background })
    }

    /// Makes the next connection that reaches the point be cut.
    pub fn arm(&self, cut: Cut) {
        *self.shared.armed.lock().expect("nothing panics while it holds this lock") = Some(cut);
    }

    /// The number of cuts so far.
    pub fn fired(&self) -> usize {
        self.shared.fired.load(Ordering::Relaxed)
    }

    /// Resets all connections.
    pub fn reset(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Stops or resumes forwarding in both directions, without closing connections.
    pub fn hold(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// Closes all connections and refuses new ones, or accepts new ones again.
    pub fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
        if refuses {
            self.reset();
        }
    }

    /// Delays all data by this time.
    pub fn delay(&self, latency: Duration) {
        self.shared.latency_ms.store(u64::try_from(latency.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        *self.shared.armed.lock().expect("nothing panics while it holds this lock") = None;
        self.delay(Duration::ZERO);
        self.hold(false);
        self.refuse(false);
    }
}

impl Shared {
    async fn listen(self: Arc<Shared>, listener: std::net::TcpListener, server: String) {
        let listener = TcpListener::from_std(listener).expect("an event loop takes any listener");
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            if self.refuses.load(Ordering::SeqCst) {
                continue;
            }
            let (shared, server) = (Arc::clone(&self), server.clone());
            connections.spawn(async move { shared.join(client, &server).await });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn join(&self, mut client: TcpStream, server: &str) {
        let mut cuts = self.cuts.subscribe();
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let swallowing = Swallowing::default();
        let end = {
            let (client_read, client_write) = client.split();
            let (server_read, server_write) = server.split();
            tokio::select! {
                end = self.forward(client_read, server_write, &swallowing) => end,
                end = self.answer(server_read, client_write, &swallowing) => end,
                _ = cuts.changed() => End::Cut,
            }
        };
        match end {
            End::Closed => {}
            // A TCP reset, as from a machine that is gone. The server gets one, too.
            End::Cut => drop((client.set_zero_linger(), server.set_zero_linger())),
            End::Warned => {
                // The requests sent together with the commit have no reply yet, so the reply stream is between two
                // messages.
                let _ = client.write_all(&warning()).await;
                let _ = cuts.changed().await;
            }
            End::Frozen => drop(cuts.changed().await),
        }
    }

    /// Forwards data from the node to the database.
    async fn forward(
        &self,
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWriteExt + Unpin,
        swallowing: &Swallowing,
    ) -> End {
        let (mut splitter, mut chunk) = (Splitter::default(), vec![0; CHUNK]);
        loop {
            let Ok(count @ 1..) = from.read(&mut chunk).await else { return End::Closed };
            self.pass().await;
            splitter.push(&chunk[..count]);
            let (mut out, mut cut) = (Vec::new(), None);
            while let Some((kind, message)) = splitter.next_message() {
                cut = self.take_armed(kind);
                match cut {
                    Some(Cut::BeforeCommit) => break,
                    Some(Cut::Warn) => return End::Warned,
                    Some(Cut::Freeze) => {
                        // The earlier statements are executed and keep their locks.
                        let _ = to.write_all(&out).await;
                        return End::Frozen;
                    }
                    _ => {}
                }
                out.extend(message);
                if cut.is_some() {
                    break;
                }
            }
            match cut {
                Some(Cut::AfterCommit) => swallowing.commit.store(true, Ordering::SeqCst),
                Some(Cut::Reply) => swallowing.any.store(true, Ordering::SeqCst),
                _ => {}
            }
            if to.write_all(&out).await.is_err() {
                return End::Closed;
            }
            match cut {
                None | Some(Cut::Warn | Cut::Freeze) => {}
                Some(Cut::BeforeCommit) => return End::Cut,
                Some(Cut::AfterCommit | Cut::Reply) => {
                    // The other direction cuts the connection when the reply arrives.
                    tokio::time::sleep(COMMIT_WAIT).await;
                    return End::Cut;
                }
            }
        }
    }

    /// Forwards data from the database to the node.
    async fn answer(
        &self,
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWriteExt + Unpin,
        swallowing: &Swallowing,
    ) -> End {
        let mut chunk = vec![0; CHUNK];
        let mut swallowed = Vec::new();
        loop {
            let Ok(count @ 1..) = from.read(&mut chunk).await else { return End::Closed };
            let (swallow, any) = (swallowing.commit.load(Ordering::SeqCst), swallowing.any.load(Ordering::SeqCst));
            if swallow || any {
                swallowed.extend_from_slice(&chunk[..count]);
                // The end of every reply is `ReadyForQuery`: idle (`I`) or in a transaction (`T`).
                if swallowed.ends_with(b"Z\0\0\0\x05I") || (any && swallowed.ends_with(b"Z\0\0\0\x05T")) {
                    return End::Cut;
                }
                continue;
            }
            self.pass().await;
            if to.write_all(&chunk[..count]).await.is_err() {
                return End::Closed;
            }
        }
    }

    async fn pass(&self) {
        let _ = self.held.subscribe().wait_for(|held| !held).await;
        let latency = self.latency_ms.load(Ordering::Relaxed);
        if latency > 0 {
            tokio::time::sleep(Duration::from_millis(latency)).await;
        }
    }

    fn take_armed(&self, kind: Kind) -> Option<Cut> {
        let mut armed = self.armed.lock().expect("nothing panics while it holds this lock");
        let matches = match *armed {
            Some(Cut::BeforeCommit | Cut::AfterCommit | Cut::Warn | Cut::Freeze) => kind == Kind::Commit,
            Some(Cut::Reply) => kind != Kind::Other,
            None => false,
        };
        if !matches {
            return None;
        }
        self.fired.fetch_add(1, Ordering::Relaxed);
        armed.take()
    }
}

/// The warning of PostgreSQL about a commit that did not wait for the synchronous standby, in the format of the
/// protocol.
fn warning() -> Vec<u8> {
    let fields = "SWARNING\0VWARNING\0C01000\0\
                  Mcanceling wait for synchronous replication due to user request\0RSyncRepWaitForLSN\0\0";
    let length = u32::try_from(fields.len() + 4).expect("it is short");
    [b"N".as_slice(), &length.to_be_bytes(), fields.as_bytes()].concat()
}
