//! Wake-ups between nodes with NOTIFY and LISTEN, each on a direct connection of its own.
//!
//! Never inside a transaction that writes: commits with notifications wait for one another. Both connections are opened
//! at first use, and again after they broke.

use async_trait::async_trait;
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::ids::Ids;
use everhook_store::store::Op;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, Notification};

use crate::connection::Connector;
use crate::error::Fault;
use crate::hosts::connect_wait;
use crate::tx::within;

/// The channel of this database's nodes.
const CHANNEL: &str = "everhook_work";

/// The channel to the other nodes.
pub(crate) struct Wakeups {
    config: Config,
    connector: Connector,
    /// The payload of this node's notifications, by which it ignores its own.
    name: String,
    sender: Mutex<Option<Client>>,
    listener: Mutex<Option<Listener>>,
}

/// A connection that listens as long as it is open.
struct Listener {
    _client: Client,
    heard: mpsc::Receiver<()>,
}

impl Wakeups {
    pub(crate) fn new(config: Config, connector: Connector, ids: &Ids) -> Wakeups {
        let name = ids.next(Timestamp::default()).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Wakeups { config, connector, name, sender: Mutex::new(None), listener: Mutex::new(None) }
    }

    /// Closes both connections. A stopping node neither sends nor receives wake-ups.
    pub(crate) async fn close(&self) {
        self.sender.lock().await.take();
        if let Ok(mut listener) = self.listener.try_lock() {
            listener.take();
        }
    }

    async fn send(&self) -> Result<(), Fault> {
        let mut slot = self.sender.lock().await;
        let client = match slot.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let opening = self.connector.open(&self.config);
                let opened = timeout(connect_wait(&self.config), opening).await.map_err(|_| Fault::Slow)?;
                opened.map_err(Fault::Statement)?.0
            }
        };
        within(client.batch_execute(&format!("notify {CHANNEL}, '{}'", self.name))).await?;
        // Kept only after a success.
        *slot = Some(client);
        Ok(())
    }

    async fn listen(&self) -> Result<(), Fault> {
        let mut slot = self.listener.lock().await;
        let Some(mut listener) = slot.take() else {
            *slot = Some(self.begin_listening().await?);
            // A notification may have been missed before the connection was open, so this counts as a wake-up.
            return Ok(());
        };
        let heard = listener.heard.recv().await;
        if heard.is_some() {
            *slot = Some(listener);
        }
        heard.ok_or(Fault::Contended("the listening connection ended"))
    }

    async fn begin_listening(&self) -> Result<Listener, Fault> {
        // Capacity one: a pending wake-up stands for all that follow.
        let (told, heard) = mpsc::channel(1);
        let name = self.name.clone();
        let hear = move |notification: Notification| {
            if notification.payload() != name {
                let _ = told.try_send(());
            }
        };
        let opening = self.connector.open_listening(&self.config, hear);
        let opened = timeout(connect_wait(&self.config), opening).await.map_err(|_| Fault::Slow)?;
        let (client, _driver) = opened.map_err(Fault::Statement)?;
        within(client.batch_execute(&format!("listen {CHANNEL}"))).await?;
        Ok(Listener { _client: client, heard })
    }
}

#[async_trait]
impl Hints for Wakeups {
    async fn notify(&self) -> Result<(), StoreError> {
        self.send().await.map_err(|fault| fault.into_store_error(Op::NotifyNodes))
    }

    async fn next(&self) -> Result<(), StoreError> {
        self.listen().await.map_err(|fault| fault.into_store_error(Op::ListenForNodes))
    }
}
