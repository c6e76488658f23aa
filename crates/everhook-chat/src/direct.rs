//! Direct messages: the calls of a platform's API that bring a message to single people.
//!
//! Pure. [`Dialogue`] says which call is next and reads its answer, [`DirectMemory`] keeps tokens and people between
//! messages, and [`conclude`] decides whether the room gets the message, too. The engine makes the calls.

mod calls;
mod dialogue;
mod memory;

use std::time::Duration;

use everhook_core::chat::{Chat, ChatKind};
use everhook_core::chat_app::PersonAddress;
use everhook_core::limits::{CHAT_PEOPLE_MAX, RETRY_DELAY_MAX};
use everhook_core::outcome::{Class, Outcome};
use serde_json::Value;

pub use self::calls::{DirectBody, DirectCall};
pub use self::dialogue::{Dialogue, Next};
pub use self::memory::DirectMemory;
use crate::escape::{cut, one_line};
use crate::reply::{Judgement, MINUTE};

/// Why a person did not get the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The platform knows no way to this person; the reason is for people.
    Unreachable(String),
    /// The platform accepts no more messages for now.
    Throttled(Option<Duration>),
    /// A failure that may pass.
    Failed { class: Class, reason: String },
}

/// A person, and whether the message arrived.
pub type PersonResult = (String, Result<(), Trouble>);

/// The people that a message names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    pub addresses: Vec<PersonAddress>,
    /// Values that are no valid address, each with the reason.
    pub unreadable: Vec<PersonResult>,
}

/// The end of the direct messages of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectEnd {
    /// Everybody got the message, so the room does not.
    Reached,
    /// A person cannot be reached, so the room gets the message.
    Room,
    /// A later attempt writes to the people who did not get the message.
    Later(Judgement),
}

/// Attempts before the room gets a message that a passing failure keeps from a person.
const PATIENT_ATTEMPTS: u32 = 3;

/// Reads the people that a payload names. A chat endpoint without the setting names nobody.
pub fn people(chat: &Chat, payload: &[u8]) -> People {
    let mut found = People::default();
    let Some(pointer) = &chat.people else { return found };
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return found };
    let values = match payload.pointer(pointer) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
    };
    for value in values {
        let shown = || cut(&one_line(value.as_str().unwrap_or(&value.to_string())), 100);
        let address = value.as_str().ok_or("is not a text").and_then(|text| PersonAddress::read(chat.kind, text));
        match address {
            Ok(address) if found.addresses.contains(&address) => {}
            Ok(_) if found.addresses.len() == CHAT_PEOPLE_MAX => {
                let reason = format!("only the first {CHAT_PEOPLE_MAX} people get direct messages");
                found.unreadable.push((shown(), Err(Trouble::Unreachable(reason))));
                break;
            }
            Ok(address) => found.addresses.push(address),
            Err(reason) if found.unreadable.len() < CHAT_PEOPLE_MAX => {
                found.unreadable.push((shown(), Err(Trouble::Unreachable(reason.to_owned()))));
            }
            Err(_) => {}
        }
    }
    found
}

/// Decides about the attempt. `number` is 1 for the first one.
pub fn conclude(kind: ChatKind, results: &[PersonResult], number: u32) -> DirectEnd {
    let troubles = results.iter().filter_map(|(_, result)| result.as_ref().err());
    let mut end = DirectEnd::Reached;
    for trouble in troubles {
        let is_passing = !matches!(trouble, Trouble::Unreachable(_));
        if is_passing && number < PATIENT_ATTEMPTS {
            return DirectEnd::Later(later(kind, trouble, &report(results)));
        }
        end = DirectEnd::Room;
    }
    end
}

fn later(kind: ChatKind, trouble: &Trouble, report: &str) -> Judgement {
    let (class, outcome) = match trouble {
        Trouble::Throttled(wait) => {
            let retry_after = Some(wait.unwrap_or(MINUTE).min(RETRY_DELAY_MAX));
            (Class::Throttled, Outcome::Throttled { retry_after })
        }
        Trouble::Failed { class, .. } => (*class, Outcome::Failure { retry_after: None }),
        Trouble::Unreachable(_) => (Class::Status, Outcome::Failure { retry_after: None }),
    };
    Judgement { class, outcome, explanation: format!("{kind}: {report}") }
}

/// Returns one line that names the people who got the message.
pub fn report(results: &[PersonResult]) -> String {
    let of_one = |(address, result): &PersonResult| match result {
        Ok(()) => format!("{address} got it"),
        Err(Trouble::Unreachable(reason)) => format!("{address} cannot be reached ({reason})"),
        Err(Trouble::Throttled(_)) => format!("{address} must wait, because the platform is throttling"),
        Err(Trouble::Failed { reason, .. }) => format!("{address} did not get it ({reason})"),
    };
    format!("direct messages: {}", results.iter().map(of_one).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
