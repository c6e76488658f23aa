//! The statuses after which a delivery is not retried.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::FINAL_STATUSES_MAX;
use crate::violation::{Violation, at};

/// Statuses that ask for a later attempt. No class contains them, and no list may.
const NEVER_FINAL: [u16; 3] = [408, 425, 429];

/// A list of statuses and classes. The status 410 is final in every case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalStatuses(Vec<FinalStatus>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalStatus {
    One(u16),
    /// The first digit of a class such as `"4xx"`.
    Class(u16),
}

impl FinalStatuses {
    pub fn contains(&self, status: u16) -> bool {
        let matches = |entry: &FinalStatus| match entry {
            FinalStatus::One(one) => *one == status,
            FinalStatus::Class(first) => status / 100 == *first,
        };
        !NEVER_FINAL.contains(&status) && self.0.iter().any(matches)
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        if self.0.len() > FINAL_STATUSES_MAX {
            return Err(at("finalStatuses").breaks(format!("must have at most {FINAL_STATUSES_MAX} entries")));
        }
        for (index, entry) in self.0.iter().enumerate() {
            let place = || at("finalStatuses").index(index);
            match entry {
                FinalStatus::One(status) if NEVER_FINAL.contains(status) => {
                    return Err(place().breaks(format!("must not be {status}, which asks for a later attempt")));
                }
                FinalStatus::One(300..=599) | FinalStatus::Class(3..=5) => {}
                FinalStatus::One(_) => return Err(place().breaks("must be 300 to 599")),
                FinalStatus::Class(_) => return Err(place().breaks("must be \"3xx\", \"4xx\" or \"5xx\"")),
            }
        }
        Ok(())
    }
}

impl Serialize for FinalStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FinalStatus::One(status) => serializer.serialize_u16(*status),
            FinalStatus::Class(first) => serializer.collect_str(&format_args!("{first}xx")),
        }
    }
}

impl<'de> Deserialize<'de> for FinalStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FinalStatus, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = FinalStatus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status such as 400, or a class such as \"4xx\"")
            }

            fn visit_u64<E: serde::de::Error>(self, status: u64) -> Result<FinalStatus, E> {
                // Larger numbers are refused by the check like every other status that does not exist.
                Ok(FinalStatus::One(u16::try_from(status).unwrap_or(u16::MAX)))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FinalStatus, E> {
                let first = text.strip_suffix("xx").and_then(|first| first.parse().ok());
                first.map(FinalStatus::Class).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
