//! A connection with the keys of its store, so that statements can open sealed secrets.

use std::ops::{Deref, DerefMut};

use everhook_store::seal::Seal;

/// A connection of SQLite, and the keys of the store.
pub(crate) struct Connection {
    inner: rusqlite::Connection,
    seal: Seal,
}

impl Connection {
    pub(crate) fn new(inner: rusqlite::Connection, seal: &Seal) -> Connection {
        Connection { inner, seal: seal.clone() }
    }

    pub(crate) fn seal(&self) -> &Seal {
        &self.seal
    }
}

impl Deref for Connection {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &rusqlite::Connection {
        &self.inner
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut rusqlite::Connection {
        &mut self.inner
    }
}
