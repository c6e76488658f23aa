//! The pause of egress: messages and jobs are accepted, and nothing is sent.
//!
//! The pause is stored, so that it holds on every replica and after a restart. Every backup contains one: a restored
//! copy must not repeat the requests that the original has sent meanwhile.

use crate::time::Timestamp;

/// A pause that lasts until an operator ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressPause {
    pub since: Timestamp,
    /// The reason in words, for operators.
    pub reason: String,
}
