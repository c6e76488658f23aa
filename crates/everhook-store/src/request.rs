//! Requests with an idempotency key whose handlers do not deduplicate by themselves: the key is claimed before the
//! handler runs, and the answer is stored after it.
//!
//! A key belongs to one request for the time of its claim. If the server crashes before the answer is stored, the claim
//! expires, and a repeated request runs again.

use std::borrow::Cow;

use bytes::Bytes;
use everhook_core::id::Id;
use everhook_core::seal::{OpenError, SealKeyId, SealedAt};

use crate::dedup::DedupKey;
use crate::seal::Seal;

/// The stored answer of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAnswer {
    pub status: u16,
    /// None if the body was too large to be stored.
    pub body: Option<Bytes>,
}

impl RequestAnswer {
    /// Returns the body as it is stored: sealed with the current key.
    pub fn sealed_body(
        &self,
        seal: &Seal,
        current: Option<SealKeyId>,
        place: SealedAt<'_>,
    ) -> Result<Option<Cow<'_, [u8]>>, OpenError> {
        self.body.as_deref().map(|body| seal.seal(current, place, body)).transpose()
    }
}

/// The end of a request that holds its key.
#[derive(Clone, Debug)]
pub struct RequestEnd {
    pub key: DedupKey,
    pub holder: Id,
    /// None releases the key.
    pub answer: Option<RequestAnswer>,
}

/// The result of claiming the key of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestClaim {
    /// The caller holds the key and must run the request.
    Won,
    /// The same request is running.
    Running,
    /// The same request was answered earlier.
    Answered(RequestAnswer),
    /// Another request has used the key.
    Reused,
}

impl RequestClaim {
    /// Decides about a key that another holder has: by the hashes of the two bodies, and the answer if there is one.
    pub fn of_holder(is_same_body: bool, status: Option<u16>, body: Option<Bytes>) -> RequestClaim {
        match status {
            _ if !is_same_body => RequestClaim::Reused,
            None => RequestClaim::Running,
            Some(status) => RequestClaim::Answered(RequestAnswer { status, body }),
        }
    }
}
