//! The gate of a node. All its calls and replies pass the gate, which blocks them while the node is paused or dead.

use std::sync::Mutex;

use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Alive,
    /// The node is blocked until it is resumed, and does not notice.
    Paused,
    Dead,
}

/// A value that futures can wait for. It wakes them in the order of waiting, so that a seed always gives the same
/// world.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Watched<T> {
    pub(crate) fn new(value: T) -> Watched<T> {
        Watched { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock().expect("one thread")
    }

    pub(crate) fn set(&self, value: T) {
        *self.value.lock().expect("one thread") = value;
        self.changed.notify_waiters();
    }

    /// Waits until `wished` returns true for the value.
    pub(crate) async fn wait_for(&self, wished: impl Fn(T) -> bool) {
        loop {
            let changed = self.changed.notified();
            if wished(self.get()) {
                return;
            }
            changed.await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Gate(Watched<Health>);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(Watched::new(Health::Alive))
    }

    pub(crate) fn set(&self, health: Health) {
        // A dead node stays dead.
        if self.health() != Health::Dead {
            self.0.set(health);
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.0.get()
    }

    /// Returns when the node is dead.
    pub(crate) async fn died(&self) {
        self.0.wait_for(|health| health == Health::Dead).await;
    }

    /// Returns when the node is alive. Never returns for a dead node.
    pub(crate) async fn pass(&self) {
        self.0.wait_for(|health| health == Health::Alive).await;
    }
}
