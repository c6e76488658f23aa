//! Where a node meets the world: everything it says or hears passes its gate, and stops there when the node is paused or dead.

use std::sync::Mutex;

use tokio::sync::Notify;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It runs.
    Alive,
    /// It does nothing until it is resumed, and does not know.
    Paused,
    /// It does nothing any more.
    Dead,
}

/// A value that the world changes and futures wait for. Wakes in the order of waiting, so that a seed stays one world.
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

    /// Waits until the value is as wished.
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

/// A node's gate.
#[derive(Debug)]
pub(crate) struct Gate(Watched<Health>);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(Watched::new(Health::Alive))
    }

    pub(crate) fn set(&self, health: Health) {
        // The dead stay dead.
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

    /// Returns while the node is alive; never again for a dead one.
    pub(crate) async fn pass(&self) {
        self.0.wait_for(|health| health == Health::Alive).await;
    }
}
