//! A wire to the server that can be cut, and that can lose the reply to a commit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::database::Database;

/// What the wire does when a commit passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCommit {
    Pass,
    /// The server gets it, the client never hears of it.
    LoseReply,
    /// The server says that it did not wait for its standby.
    Warn,
    /// Nothing passes any more and nobody hangs up, as when a machine loses its power.
    Freeze,
}

/// A wire to the server of a database.
pub(crate) struct Proxy {
    server: String,
    address: SocketAddr,
    on_commit: Arc<AtomicU8>,
    /// Everything that runs while the wire is whole.
    running: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn to(database: &Database) -> Proxy {
        let config: tokio_postgres::Config = database.url().parse().unwrap();
        let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
            panic!("EVERHOOK_TEST_DATABASE names a TCP server")
        };
        let server = format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let on_commit = Arc::new(AtomicU8::new(OnCommit::Pass as u8));
        let mut proxy = Proxy { server, address, on_commit, running: JoinSet::new() };
        proxy.listen(listener);
        proxy
    }

    /// The URL of the database through this wire.
    pub(crate) fn url(&self, database: &Database) -> String {
        database.url().replacen(&self.server, &self.address.to_string(), 1)
    }

    pub(crate) fn on_commit(&self, what: OnCommit) {
        self.on_commit.store(what as u8, Ordering::SeqCst);
    }

    /// Cuts every connection and refuses new ones.
    pub(crate) async fn cut(&mut self) {
        self.running.shutdown().await;
    }

    /// Takes connections again.
    pub(crate) async fn mend(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.listen(listener);
    }

    fn listen(&mut self, listener: TcpListener) {
        let (server, on_commit) = (self.server.clone(), Arc::clone(&self.on_commit));
        self.running.spawn(async move {
            let mut wires = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                wires.spawn(wire(client, server, Arc::clone(&on_commit)));
            }
        });
    }
}

async fn wire(client: TcpStream, server: TcpStream, on_commit: Arc<AtomicU8>) {
    let ((client_in, mut client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    let back = copy(server_in, &mut client_out);
    tokio::select! {
        () = back => {}
        what = forward(client_in, server_out, &on_commit) => {
            if what == OnCommit::Warn {
                // What was sent with the commit has not been answered: the reply stream is between two messages.
                drop(client_out.write_all(&warning()).await);
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Passes on what the client says, until a commit is to go wrong or someone hangs up.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, on_commit: &AtomicU8) -> OnCommit {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return OnCommit::Pass };
        let is_commit = buffer[..read].windows(7).any(|bytes| bytes == b"commit\0");
        let what = on_commit.load(Ordering::SeqCst);
        if is_commit && what == OnCommit::Warn as u8 {
            return OnCommit::Warn;
        }
        if is_commit && what == OnCommit::Freeze as u8 {
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return OnCommit::Pass;
        }
        if is_commit && what == OnCommit::LoseReply as u8 {
            // Dropping the wire could outrun the commit; the server hangs up when it has done all of it.
            drop(to.shutdown().await);
            return OnCommit::LoseReply;
        }
    }
}

async fn copy(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf) {
    drop(tokio::io::copy(&mut from, to).await);
}

/// The notice of a commit that did not wait for the synchronous standby, as it is on the wire.
fn warning() -> Vec<u8> {
    let fields = "SWARNING\0VWARNING\0C01000\0\
                  Mcanceling wait for synchronous replication due to user request\0RSyncRepWaitForLSN\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap();
    [b"N".as_slice(), &length.to_be_bytes(), fields.as_bytes()].concat()
}
