//! The audit log: entries about the operations of callers, chained by their hashes.
//!
//! Pure. An operation writes one entry before it begins and one when it has ended. The hash of an entry covers its
//! fields and the hash of the entry before it, so that a changed, removed or inserted entry breaks the chain. The end
//! of the log can be cut off unseen, unless an operator has noted a later hash. Stores append entries; the API writes
//! and verifies them.

use aws_lc_rs::digest::{Context, SHA256};

use crate::id::{EnvironmentId, Id, KeyId};
use crate::task::stored_as;
use crate::time::Timestamp;

/// SHA-256 of a body, of a stored object, or of an entry.
pub type AuditHash = [u8; 32];

/// The moment of an operation that an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditPhase {
    /// The caller was allowed to begin.
    Begun,
    /// The operation has ended. If this entry is missing, the server crashed and the operation may have had effects.
    Ended,
}

stored_as!(AuditPhase { Begun = 0, Ended = 1 });

impl AuditPhase {
    pub const fn name(self) -> &'static str {
        match self {
            AuditPhase::Begun => "begun",
            AuditPhase::Ended => "ended",
        }
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFacts {
    /// The same for both entries of an operation.
    pub operation: Id,
    pub phase: AuditPhase,
    /// The name of the key, or a description of the token.
    pub actor: String,
    pub key: Option<KeyId>,
    /// The person on whose behalf the caller acts, as the caller says.
    pub principal: Option<String>,
    /// The id of the API operation, such as `v1.endpoint.update`.
    pub action: String,
    /// The path of the object.
    pub object: String,
    pub reason: Option<String>,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// The hash of the body of the request.
    pub request: Option<AuditHash>,
    /// The hash of the stored object before and after the change.
    pub before: Option<AuditHash>,
    pub after: Option<AuditHash>,
}

/// An entry in its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The position in the log of the environment, from 1 without gaps.
    pub seq: i64,
    pub at: Timestamp,
    pub facts: AuditFacts,
    pub hash: AuditHash,
}

/// The end of a chain, or the place where a check has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditLink {
    pub seq: i64,
    pub hash: AuditHash,
}

/// The reason why an entry does not follow the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    #[error("entry {missing} is missing: entry {found} follows entry {}", .missing - 1)]
    Gap { missing: i64, found: i64 },
    #[error("entry {seq} was changed, or the entry before it was")]
    Changed { seq: i64 },
}

impl AuditLink {
    /// The link before the first entry.
    pub const START: AuditLink = AuditLink { seq: 0, hash: [0; 32] };

    /// Returns the entry that follows this link.
    pub fn append(self, environment: EnvironmentId, at: Timestamp, facts: AuditFacts) -> AuditEntry {
        let seq = self.seq + 1;
        let hash = self.hash_of(environment, seq, at, &facts);
        AuditEntry { seq, at, facts, hash }
    }

    /// Checks that an entry follows this link, and returns its own.
    pub fn follow(self, environment: EnvironmentId, entry: &AuditEntry) -> Result<AuditLink, BrokenChain> {
        if entry.seq != self.seq + 1 {
            return Err(BrokenChain::Gap { missing: self.seq + 1, found: entry.seq });
        }
        if self.hash_of(environment, entry.seq, entry.at, &entry.facts) != entry.hash {
            return Err(BrokenChain::Changed { seq: entry.seq });
        }
        Ok(AuditLink { seq: entry.seq, hash: entry.hash })
    }

    fn hash_of(self, environment: EnvironmentId, seq: i64, at: Timestamp, facts: &AuditFacts) -> AuditHash {
        let mut context = Context::new(&SHA256);
        let mut part = |bytes: Option<&[u8]>| {
            // Lengths keep the fields apart, and an absent field differs from an empty one.
            let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
            context.update(&length.to_be_bytes());
            context.update(bytes.unwrap_or_default());
        };
        part(Some(b"everhook audit 1"));
        part(Some(&self.hash));
        part(Some(&environment.0.to_be_bytes()));
        part(Some(&seq.to_be_bytes()));
        part(Some(&at.as_micros().to_be_bytes()));
        part(Some(facts.operation.as_bytes()));
        part(Some(&facts.phase.to_db().to_be_bytes()));
        part(Some(facts.actor.as_bytes()));
        part(facts.key.as_ref().map(|key| key.as_bytes().as_slice()));
        part(facts.principal.as_deref().map(str::as_bytes));
        part(Some(facts.action.as_bytes()));
        part(Some(facts.object.as_bytes()));
        part(facts.reason.as_deref().map(str::as_bytes));
        part(facts.status.map(u16::to_be_bytes).as_ref().map(|status| status.as_slice()));
        for hash in [&facts.request, &facts.before, &facts.after] {
            part(hash.as_ref().map(|hash| hash.as_slice()));
        }
        context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: EnvironmentId = EnvironmentId(7);
    const AT: Timestamp = Timestamp::from_millis(1_750_000_000_000);

    fn facts(object: &str) -> AuditFacts {
        AuditFacts {
            operation: Id::MIN,
            phase: AuditPhase::Begun,
            actor: "billing".to_owned(),
            key: Some(KeyId(Id::MIN)),
            principal: None,
            action: "v1.queue.pause".to_owned(),
            object: object.to_owned(),
            reason: Some(String::new()),
            status: Some(200),
            request: None,
            before: Some([1; 32]),
            after: None,
        }
    }

    fn chain() -> Vec<AuditEntry> {
        let mut link = AuditLink::START;
        let append = |object| {
            let entry = link.append(HERE, AT, facts(object));
            link = AuditLink { seq: entry.seq, hash: entry.hash };
            entry
        };
        ["/queue/a", "/queue/b", "/queue/c"].map(append).into()
    }

    fn verify(environment: EnvironmentId, entries: &[AuditEntry]) -> Result<AuditLink, BrokenChain> {
        entries.iter().try_fold(AuditLink::START, |link, entry| link.follow(environment, entry))
    }

    #[test]
    fn an_untouched_chain_holds() {
        let entries = chain();
        assert_eq!(verify(HERE, &entries), Ok(AuditLink { seq: 3, hash: entries[2].hash }));
    }

    #[test]
    fn a_removed_or_moved_entry_is_named() {
        let mut entries = chain();
        entries.remove(1);
        assert_eq!(verify(HERE, &entries), Err(BrokenChain::Gap { missing: 2, found: 3 }));
        assert_eq!(verify(EnvironmentId(8), &chain()), Err(BrokenChain::Changed { seq: 1 }));
    }

    #[test]
    fn every_changed_field_is_noticed() {
        let changes: [fn(&mut AuditEntry); 14] = [
            |entry| entry.at = AT.plus(std::time::Duration::from_micros(1)),
            |entry| entry.hash[0] ^= 1,
            |entry| entry.facts.operation = Id::MAX,
            |entry| entry.facts.phase = AuditPhase::Ended,
            |entry| entry.facts.actor.push('x'),
            |entry| entry.facts.key = None,
            |entry| entry.facts.principal = Some(String::new()),
            |entry| entry.facts.action.clear(),
            |entry| entry.facts.object.push('x'),
            |entry| entry.facts.reason = None,
            |entry| entry.facts.status = None,
            |entry| entry.facts.request = Some([0; 32]),
            |entry| entry.facts.before = None,
            |entry| entry.facts.after = entry.facts.before.take(),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut entries = chain();
            change(&mut entries[1]);
            assert_eq!(verify(HERE, &entries), Err(BrokenChain::Changed { seq: 2 }), "change {index}");
        }
    }
}
