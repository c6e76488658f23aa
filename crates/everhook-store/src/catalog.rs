//! What users configure: environments, keys, applications, endpoints, event types.
//!
//! Changes are compare-and-set by revision: read, change, replace; on `Stale` read again. So two concurrent changes never
//! undo each other, and the rules for a change live in one place above the stores.

use everhook_core::api_key::{ApiKeyHash, KeyScope};
use everhook_core::id::KeyId;
use everhook_core::name::Name;

/// How a user names an object: by our id or by their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator<I> {
    /// Our id.
    Id(I),
    /// Their uid.
    Uid(Name),
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

/// A piece of a list: rows strictly beyond `after` in this direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<K> {
    /// Where the piece before ended.
    pub after: Option<K>,
    /// Which way.
    pub order: Order,
    /// Rows at most.
    pub limit: usize,
}

/// What became of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created<T> {
    /// It is new.
    New(T),
    /// The same request created it before.
    Repeated(T),
    /// Its uid or name is taken, by this one.
    Taken(T),
    /// The idempotency key was used with another body.
    KeyReused,
    /// What it would belong to does not exist.
    NoParent,
    /// What it would belong to has as many of its kind as it may have.
    Full,
}

impl<T> Created<T> {
    /// The same result with another record.
    pub fn map<U>(self, record: impl FnOnce(T) -> U) -> Created<U> {
        match self {
            Created::New(new) => Created::New(record(new)),
            Created::Repeated(known) => Created::Repeated(record(known)),
            Created::Taken(known) => Created::Taken(record(known)),
            Created::KeyReused => Created::KeyReused,
            Created::NoParent => Created::NoParent,
            Created::Full => Created::Full,
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<T> {
    /// As it is now.
    Done(T),
    /// The same request changed it before.
    Repeated,
    /// Someone changed or deleted it meanwhile: read again.
    Stale,
    /// The new uid is taken.
    Taken,
    /// The idempotency key was used with another body.
    KeyReused,
}

impl<T> Replaced<T> {
    /// The same result with another record.
    pub fn map<U>(self, record: impl FnOnce(T) -> U) -> Replaced<U> {
        match self {
            Replaced::Done(changed) => Replaced::Done(record(changed)),
            Replaced::Repeated => Replaced::Repeated,
            Replaced::Stale => Replaced::Stale,
            Replaced::Taken => Replaced::Taken,
            Replaced::KeyReused => Replaced::KeyReused,
        }
    }
}

/// A change of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Stops the key for ever.
    Revoke,
}

/// A key to keep.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its handle.
    pub id: KeyId,
    /// What is kept of it.
    pub hash: ApiKeyHash,
    /// To recognise it.
    pub hint: String,
    /// What it may do.
    pub scope: KeyScope,
}

/// Which applications a list has, by their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Having {
    /// Whatever they have.
    Anything,
    /// At least one endpoint.
    Endpoints,
    /// At least one endpoint that is enabled.
    EnabledEndpoints,
    /// An endpoint that is enabled, or none at all.
    NotOnlyDisabledEndpoints,
}

impl Having {
    /// The number that stands for it in statements.
    pub const fn to_db(self) -> i16 {
        match self {
            Having::Anything => 0,
            Having::Endpoints => 1,
            Having::EnabledEndpoints => 2,
            Having::NotOnlyDisabledEndpoints => 3,
        }
    }
}

/// Whether a list has archived event types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivedTypes {
    /// It does.
    Included,
    /// It does not.
    Excluded,
}
