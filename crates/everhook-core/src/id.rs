//! Ids: a prefix and 27 base62 characters of a 160-bit value that sorts by time.
//!
//! Layout, most significant byte first: 4 bytes of seconds since 2014-05-13, 1 byte with the fraction of the second in
//! steps of 4 ms, 1 byte reserved for a shard, 2 bytes with the remaining milliseconds and a counter, 12 random bytes.
//! The first 5 bytes follow the format of existing installations, whose ids can be imported.
//!
//! Stores keep the 20 bytes and compare them bytewise. Nothing here reads a clock or draws randomness: the caller
//! passes both.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// Bytes of an id in the stores.
pub const ID_BYTES: usize = 20;
/// Characters of an id after its prefix.
pub const ID_CHARS: usize = 27;
/// Random bytes at the end of an id.
pub const ID_RANDOM_BYTES: usize = 12;

/// 2014-05-13, the zero of the seconds field.
const EPOCH_SECS: i64 = 1_400_000_000;
const COUNTER_MAX: u16 = (1 << 14) - 1;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; ID_BYTES]);

impl Id {
    pub const MIN: Id = Id([0; ID_BYTES]);
    pub const MAX: Id = Id([0xff; ID_BYTES]);

    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> Id {
        Id(bytes)
    }

    /// Returns `None` unless `bytes` has 20 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Id> {
        bytes.try_into().ok().map(Id)
    }

    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Returns the smallest id of time `at`: the lower bound of a time range.
    pub fn floor(at: Timestamp) -> Id {
        Id::compose(at, 0, [0; ID_RANDOM_BYTES])
    }

    /// Returns the next larger id, or `MAX` for `MAX`.
    #[must_use]
    pub fn successor(self) -> Id {
        self.moved(0xff, 0x00)
    }

    /// Returns the next smaller id, or `MIN` for `MIN`.
    #[must_use]
    pub fn predecessor(self) -> Id {
        self.moved(0x00, 0xff)
    }

    /// Increments or decrements the bytes as one number: trailing bytes equal to `last` wrap to `first`.
    fn moved(self, last: u8, first: u8) -> Id {
        let mut bytes = self.0;
        let Some(at) = bytes.iter().rposition(|byte| *byte != last) else { return self };
        bytes[at] = if last == 0xff { bytes[at] + 1 } else { bytes[at] - 1 };
        bytes[at + 1..].fill(first);
        Id(bytes)
    }

    /// Derives an id from content: the first bytes of SHA-256 over the parts, each preceded by its length, so that no
    /// two lists of parts collide. Such an id carries no time.
    pub fn derived(parts: &[&[u8]]) -> Id {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        Id(*context.finish().as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
    }

    /// Time of creation, to the millisecond (imported ids: to 4 ms).
    pub fn timestamp(&self) -> Timestamp {
        let secs = u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        let millis = i64::from(self.0[4]) * 4 + i64::from(self.0[6] >> 6);
        Timestamp::from_millis((i64::from(secs) + EPOCH_SECS) * 1000 + millis)
    }

    fn compose(at: Timestamp, counter: u16, random: [u8; ID_RANDOM_BYTES]) -> Id {
        let millis = at.as_millis().max(EPOCH_SECS * 1000);
        let secs = u32::try_from(millis / 1000 - EPOCH_SECS).unwrap_or(u32::MAX);
        let fraction = u16::try_from(millis % 1000).expect("a remainder of 1000 fits");
        let mut bytes = [0; ID_BYTES];
        bytes[..4].copy_from_slice(&secs.to_be_bytes());
        bytes[4] = u8::try_from(fraction / 4).expect("below 250");
        let rest = ((fraction % 4) << 14) | (counter & COUNTER_MAX);
        bytes[6..8].copy_from_slice(&rest.to_be_bytes());
        bytes[8..].copy_from_slice(&random);
        Id(bytes)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = [b'0'; ID_CHARS];
        let mut limbs = [0_u32; ID_BYTES / 4];
        for (limb, bytes) in limbs.iter_mut().zip(self.0.chunks_exact(4)) {
            *limb = u32::from_be_bytes(bytes.try_into().expect("chunks of 4"));
        }
        // Five digits at a time: 62^5 is the largest power that fits a limb.
        const BLOCK: u64 = 62_u64.pow(5);
        for group in chars.rchunks_mut(5) {
            let mut remainder = 0_u64;
            for limb in &mut limbs {
                let value = (remainder << 32) | u64::from(*limb);
                *limb = u32::try_from(value / BLOCK).expect("quotient of a value below BLOCK << 32");
                remainder = value % BLOCK;
            }
            for digit in group.iter_mut().rev() {
                *digit = ALPHABET[usize::try_from(remainder % 62).expect("below 62")];
                remainder /= 62;
            }
        }
        f.write_str(std::str::from_utf8(&chars).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of text without the prefix, or without 27 base62 characters of at most 160 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id")]
pub struct BadId;

impl FromStr for Id {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Id, BadId> {
        if text.len() != ID_CHARS {
            return Err(BadId);
        }
        let mut limbs = [0_u32; ID_BYTES / 4];
        for char in text.bytes() {
            let digit = ALPHABET.binary_search(&char).map_err(|_| BadId)?;
            let mut carry = digit as u64;
            for limb in limbs.iter_mut().rev() {
                let value = u64::from(*limb) * 62 + carry;
                *limb = (value & u64::from(u32::MAX)) as u32;
                carry = value >> 32;
            }
            if carry != 0 {
                return Err(BadId);
            }
        }
        let mut bytes = [0; ID_BYTES];
        for (bytes, limb) in bytes.chunks_exact_mut(4).zip(limbs) {
            bytes.copy_from_slice(&limb.to_be_bytes());
        }
        Ok(Id(bytes))
    }
}

/// Makes strictly increasing ids on one node, for any number of ids per millisecond and any jump of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdSequence {
    last_millis: i64,
    counter: u16,
}

impl IdSequence {
    pub fn next(&mut self, now: Timestamp, random: [u8; ID_RANDOM_BYTES]) -> Id {
        let millis = now.as_millis();
        if millis > self.last_millis {
            self.last_millis = millis;
            self.counter = 0;
        } else if self.counter == COUNTER_MAX {
            // A full millisecond borrows from the next one: ids must neither repeat nor decrease.
            self.last_millis += 1;
            self.counter = 0;
        } else {
            self.counter += 1;
        }
        Id::compose(Timestamp::from_millis(self.last_millis), self.counter, random)
    }
}

macro_rules! prefixed_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Id);

        impl $name {
            /// Prefix of the text form.
            pub const PREFIX: &'static str = $prefix;

            /// Returns `None` unless `bytes` has 20 bytes.
            pub fn from_slice(bytes: &[u8]) -> Option<$name> {
                Id::from_slice(bytes).map($name)
            }

            pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
                self.0.as_bytes()
            }
        }

        impl From<$name> for Id {
            fn from(id: $name) -> Id {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<$name, BadId> {
                text.strip_prefix($prefix).ok_or(BadId)?.parse().map($name)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

prefixed_ids! {
    /// The public id of an environment.
    OrgId = "org_";
    ApplicationId = "app_";
    EndpointId = "ep_";
    MessageId = "msg_";
    /// One life of a delivery or job. A resend gets a new task.
    TaskId = "task_";
    AttemptId = "atmpt_";
    /// One session of one lease holder.
    SessionId = "sess_";
    /// The public handle of an API key.
    KeyId = "key_";
    /// A key of the server's own that signs application tokens.
    TokenKeyId = "tokkey_";
    IntegrationId = "integ_";
    /// The record of a job, which outlives its tasks.
    JobId = "job_";
    /// A background task. Its job has the same id with another prefix.
    BackgroundTaskId = "qtask_";
    BatchId = "batch_";
    ScheduleId = "sched_";
    AlertId = "alert_";
    /// The fairness key of a task.
    LaneId = "lane_";
}

/// The number of an environment in the stores. Short, because it is part of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvironmentId(pub i32);

/// The environment of the server's own jobs and schedules. It belongs to no tenant.
pub const SERVER_ENVIRONMENT: EnvironmentId = EnvironmentId(0);

/// The environment of keys and tokens that name none. Existing installations use this id.
pub const DEFAULT_ORG: &str = "org_23rb8YdGqMT0qIzpgGwdXfHirMu";

impl EndpointId {
    /// A delivery's lane is its endpoint.
    pub const fn lane(self) -> LaneId {
        LaneId(self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_of_an_id_have_nothing_between() {
        let mut bytes = [7; ID_BYTES];
        bytes[ID_BYTES - 1] = 0xff;
        let (id, above) = (Id::from_bytes(bytes), Id::from_bytes(bytes).successor());
        assert_eq!((above.as_bytes()[ID_BYTES - 2], above.as_bytes()[ID_BYTES - 1]), (8, 0));
        assert_eq!(above.predecessor(), id);
        assert!(id.predecessor() < id && id < above);
        assert_eq!((Id::MAX.successor(), Id::MIN.predecessor()), (Id::MAX, Id::MIN));
    }

    proptest! {
        #[test]
        fn text_and_bytes_are_the_same_id_in_the_same_order(a: [u8; ID_BYTES], b: [u8; ID_BYTES]) {
            let (a, b) = (Id(a), Id(b));
            prop_assert_eq!(a.to_string().parse::<Id>(), Ok(a));
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
        }

        #[test]
        fn a_sequence_never_repeats_and_never_runs_backwards(clock in proptest::collection::vec(0_i64..5, 1..200)) {
            let mut sequence = IdSequence::default();
            let mut last = Id::MIN;
            for millis in clock {
                let id = sequence.next(Timestamp::from_millis(1_700_000_000_000 + millis), [0; ID_RANDOM_BYTES]);
                prop_assert!(id > last);
                last = id;
            }
        }
    }

    #[test]
    fn an_id_tells_when_it_was_made() {
        let at = Timestamp::from_millis(1_750_000_000_123);
        assert_eq!(Id::floor(at).timestamp(), at);
        assert!(Id::floor(at) < IdSequence::default().next(at, [1; ID_RANDOM_BYTES]));
    }

    #[test]
    fn a_full_millisecond_borrows_from_the_next() {
        let at = Timestamp::from_millis(1_750_000_000_000);
        let mut sequence = IdSequence::default();
        let mut last = Id::MIN;
        for _ in 0..40_000 {
            let id = sequence.next(at, [7; ID_RANDOM_BYTES]);
            assert!(id > last);
            last = id;
        }
        assert_eq!(last.timestamp(), Timestamp::from_millis(1_750_000_000_002));
    }

    #[test]
    fn the_ids_of_existing_installations_are_read() {
        let org: OrgId = DEFAULT_ORG.parse().unwrap();
        assert_eq!(org.to_string(), DEFAULT_ORG);
        assert_eq!("app_23rb8YdGqMT0qIzpgGwdXfHirMu".parse::<OrgId>(), Err(BadId));
        assert_eq!("org_zzzzzzzzzzzzzzzzzzzzzzzzzzz".parse::<OrgId>(), Err(BadId));
        assert_eq!("org_23rb8YdGqMT0qIzpgGwdXfHirM".parse::<OrgId>(), Err(BadId));
        assert_eq!("org_23rb8YdGqMT0qIzpgGwdXfHirM-".parse::<OrgId>(), Err(BadId));
    }
}
