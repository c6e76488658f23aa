//! Types for configured objects: locators, list slices, and the results of creations and changes.
//!
//! A change is a compare-and-set by revision: read, change, replace, and read again on `Stale`. Two concurrent changes
//! therefore never undo each other, and the rules of a change stay in one place above the stores.

use everhook_core::api_key::{ApiKeyHash, KeyAccess};
use everhook_core::id::{Id, KeyId, TokenKeyId};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::token::TokenSecret;

/// The name of an object in a request: Everhook's id, or the uid that the user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator<I> {
    Id(I),
    Uid(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// A part of a list: the rows strictly beyond `after` in this direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<K> {
    /// The last key of the previous part.
    pub after: Option<K>,
    pub order: Order,
    pub limit: usize,
}

impl<K: Copy + Into<Id>> Slice<K> {
    /// Returns the same part of a list by bare ids.
    pub fn ids(&self) -> Slice<Id> {
        Slice { after: self.after.map(K::into), order: self.order, limit: self.limit }
    }
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created<T> {
    New(T),
    /// The same request created it earlier.
    Repeated(T),
    /// This object already has the uid or name.
    Taken(T),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The application does not exist.
    NoParent,
    /// The application already has the most objects of this kind that are allowed.
    Full,
}

impl<T> Created<T> {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<T> {
    Done(T),
    /// The same request changed it earlier.
    Repeated,
    /// The object was changed or deleted in the meantime: read it again.
    Stale,
    /// Another object has the new uid.
    Taken,
    /// The idempotency key was used with another body.
    KeyReused,
}

impl<T> Replaced<T> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Disables the key for ever.
    Revoke,
    /// Notes that the key was used now.
    Use,
}

/// An API key to store. Only its hash is stored.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub id: KeyId,
    pub hash: ApiKeyHash,
    /// The first characters, by which a user recognises the key.
    pub hint: String,
    pub name: String,
    pub access: KeyAccess,
    pub expires_at: Option<Timestamp>,
}

/// A key that signs application tokens, to store.
#[derive(Clone, Debug)]
pub struct NewTokenKey {
    pub id: TokenKeyId,
    pub secret: TokenSecret,
}

/// A filter of applications by their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Having {
    Anything,
    Endpoints,
    EnabledEndpoints,
    /// An enabled endpoint, or no endpoint at all.
    NotOnlyDisabledEndpoints,
}

impl Having {
    /// Returns the number that stands for the filter in statements.
    pub const fn to_db(self) -> i16 {
        match self {
            Having::Anything => 0,
            Having::Endpoints => 1,
            Having::EnabledEndpoints => 2,
            Having::NotOnlyDisabledEndpoints => 3,
        }
    }
}

/// Whether a list includes archived event types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivedTypes {
    Included,
    Excluded,
}
