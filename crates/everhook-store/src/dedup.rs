//! Keys under which an object is accepted once: idempotency keys, event ids, outbox rows and unique jobs.

use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, ID_BYTES, Id};
use everhook_core::job::Unique;
use everhook_core::limits::{IDEMPOTENCY_KEPT, MESSAGES_KEPT};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;

use crate::dedup::DedupScope::{EventId, Idempotency, Outbox, UniqueJob};
use crate::outbox::IDENTITY_BYTES;

/// The rule that a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DedupScope {
    /// A repeated request gets the first answer again.
    Idempotency,
    /// The user's own id of a message, accepted once per application.
    EventId,
    /// A row of an outbox. A relay repeats the row if it cannot tell whether the row was relayed.
    Outbox,
    /// The key of a unique job, accepted once per queue within its window.
    UniqueJob,
}

impl DedupScope {
    /// Returns the number in the database.
    pub const fn to_db(self) -> i16 {
        match self {
            Idempotency => 0,
            EventId => 1,
            Outbox => 2,
            UniqueJob => 3,
        }
    }
}

/// Bytes of a hash in the table: long enough that two keys never collide, short because it is part of an index.
pub const HASH_BYTES: usize = ID_BYTES;

/// A key under which one object is accepted per environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupKey {
    pub scope: DedupScope,
    pub hash: [u8; HASH_BYTES],
    /// Hash of the body that came with the key. The same key with another body is an error of the caller.
    pub body: [u8; HASH_BYTES],
    /// The time until the key expires.
    pub kept: Duration,
}

impl DedupKey {
    /// The key of a request: method, path and idempotency key. Two requests with this key are compared by body.
    pub fn request(method: &str, path: &str, key: &str, body: &[u8]) -> DedupKey {
        let hash = hash(&[method.as_bytes(), path.as_bytes(), key.as_bytes()]);
        DedupKey { scope: Idempotency, hash, body: self::hash(&[body]), kept: IDEMPOTENCY_KEPT }
    }

    /// The key of one entry of a request, by its index.
    #[must_use]
    pub fn entry(&self, index: usize) -> DedupKey {
        DedupKey { hash: hash(&[&self.hash, &(index as u64).to_be_bytes()]), ..self.clone() }
    }

    /// The key of a request of `environment` whose object is kept in another environment, together with those of
    /// others.
    #[must_use]
    pub fn of_environment(&self, environment: EnvironmentId) -> DedupKey {
        DedupKey { hash: hash(&[&self.hash, &environment.0.to_be_bytes()]), ..self.clone() }
    }

    /// The key of an event id.
    pub fn event_id(application: ApplicationId, event_id: &Name) -> DedupKey {
        let hash = hash(&[application.as_bytes(), event_id.as_str().as_bytes()]);
        DedupKey { scope: EventId, hash, body: [0; HASH_BYTES], kept: MESSAGES_KEPT }
    }

    /// The key of an outbox row. It includes the time, because row numbers may start again after a restore from a
    /// backup.
    pub fn outbox(identity: &[u8; IDENTITY_BYTES], row: i64, created_at: Timestamp) -> DedupKey {
        let hash = hash(&[identity, &row.to_be_bytes(), &created_at.as_micros().to_be_bytes()]);
        DedupKey { scope: Outbox, hash, body: [0; HASH_BYTES], kept: MESSAGES_KEPT }
    }

    /// The key of a unique job.
    pub fn unique_job(queue: &Name, unique: &Unique) -> DedupKey {
        let hash = hash(&[queue.as_str().as_bytes(), unique.key.as_bytes()]);
        DedupKey { scope: UniqueJob, hash, body: [0; HASH_BYTES], kept: unique.window }
    }
}

fn hash(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    *Id::derived(parts).as_bytes()
}
