//! Filters of endpoints: patterns of event types, channels, and an expression over the message.
//!
//! Pure. [`explain`] runs every check and gives its reason; a message passes if every check passes. `core::fanout`
//! asks at fan-out, the API in its tester.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::filter::evaluate::{EvaluationError, Scope};
use crate::filter::expression::Expression;
use crate::limits::{FILTER_MESSAGE_STEPS_MAX, FILTER_STEPS_MAX};
use crate::message::Message;
use crate::name::{BadName, Name};

mod evaluate;
pub mod expression;
mod kinds;
mod parse;

/// The name of an event type, in which segments may be `*`: in the middle for exactly one segment, at the end for one
/// or more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TypePattern {
    Exact(Name),
    /// A pattern with at least one `*`.
    Wild(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("may have '*' only as a whole segment, such as \"invoice.*\"")]
    Star,
    #[error("must not be '*' alone: leave the list out for all event types")]
    Everything,
}

impl TypePattern {
    pub fn as_str(&self) -> &str {
        match self {
            TypePattern::Exact(name) => name.as_str(),
            TypePattern::Wild(pattern) => pattern,
        }
    }

    /// The name, if the pattern has no wildcard.
    pub fn exact(&self) -> Option<&Name> {
        match self {
            TypePattern::Exact(name) => Some(name),
            TypePattern::Wild(_) => None,
        }
    }

    pub fn matches(&self, event_type: &Name) -> bool {
        let pattern = match self {
            TypePattern::Exact(name) => return name == event_type,
            TypePattern::Wild(pattern) => pattern,
        };
        let mut segments = event_type.as_str().split('.');
        let mut wanted = pattern.split('.').peekable();
        while let Some(want) = wanted.next() {
            let Some(segment) = segments.next() else { return false };
            if want == "*" && wanted.peek().is_none() {
                return true;
            }
            if want != "*" && want != segment {
                return false;
            }
        }
        segments.next().is_none()
    }
}

impl FromStr for TypePattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<TypePattern, BadPattern> {
        if !text.contains('*') {
            return Ok(TypePattern::Exact(text.parse()?));
        }
        if text == "*" {
            return Err(BadPattern::Everything);
        }
        if text.split('.').any(|segment| segment.contains('*') && segment != "*") {
            return Err(BadPattern::Star);
        }
        // With a letter for each star, the pattern must be a name.
        text.replace('*', "x").parse::<Name>()?;
        Ok(TypePattern::Wild(text.to_owned()))
    }
}

impl TryFrom<String> for TypePattern {
    type Error = BadPattern;

    fn try_from(text: String) -> Result<TypePattern, BadPattern> {
        text.parse()
    }
}

impl From<TypePattern> for String {
    fn from(pattern: TypePattern) -> String {
        match pattern {
            TypePattern::Exact(name) => name.to_string(),
            TypePattern::Wild(pattern) => pattern,
        }
    }
}

impl From<Name> for TypePattern {
    fn from(name: Name) -> TypePattern {
        TypePattern::Exact(name)
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message as filters see it. The payload is parsed when the first expression needs it, once for all endpoints.
pub struct Facts<'m> {
    pub event_type: &'m Name,
    pub channels: &'m [Name],
    pub tags: &'m [Name],
    pub event_id: Option<&'m Name>,
    content_type: Option<&'m str>,
    body: Option<&'m [u8]>,
    payload: OnceCell<Value>,
    /// Steps that expressions may still take for this message, whatever the number of endpoints.
    steps_left: Cell<usize>,
}

impl<'m> Facts<'m> {
    pub fn of(message: &'m Message) -> Facts<'m> {
        Facts {
            event_type: &message.event_type,
            channels: &message.channels,
            tags: &message.tags,
            event_id: message.event_id.as_ref(),
            content_type: message.rest.content_type.as_deref(),
            body: message.payload.as_deref(),
            payload: OnceCell::new(),
            steps_left: Cell::new(FILTER_MESSAGE_STEPS_MAX),
        }
    }

    /// The payload as JSON; null if it is not JSON or was removed.
    pub fn payload(&self) -> &Value {
        self.payload.get_or_init(|| {
            let body = self.body.filter(|_| self.content_type.is_none());
            body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or(Value::Null)
        })
    }

    fn evaluate(&self, endpoint: &Endpoint, expression: &Expression) -> Result<bool, EvaluationError> {
        let scope = Scope {
            payload: self.payload(),
            event_type: self.event_type.as_str(),
            event_id: self.event_id.map(Name::as_str),
            channels: self.channels,
            tags: self.tags,
            headers: &endpoint.headers,
            content_type: self.content_type.unwrap_or("application/json"),
        };
        let allowed = FILTER_STEPS_MAX.min(self.steps_left.get());
        let (result, used) = expression.evaluate(&scope, allowed);
        self.steps_left.set(self.steps_left.get().saturating_sub(used));
        result
    }
}

/// A check of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPart {
    EventTypes,
    Channels,
    Expression,
}

/// The result of one check, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterCheck {
    pub part: FilterPart,
    pub passes: bool,
    pub reason: String,
}

/// Whether a message passes all filters of an endpoint. An expression that fails does not match.
pub fn passes(endpoint: &Endpoint, facts: &Facts<'_>) -> bool {
    passes_plain(endpoint, facts.event_type, facts.channels)
        && endpoint.filter.as_ref().is_none_or(|filter| facts.evaluate(endpoint, filter).unwrap_or(false))
}

/// Whether a message passes the filters by event type and channel.
pub fn passes_plain(endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
    endpoint.event_types.as_ref().is_none_or(|wanted| wanted.iter().any(|pattern| pattern.matches(event_type)))
        && endpoint.channels.as_ref().is_none_or(|wanted| channels.iter().any(|channel| wanted.contains(channel)))
}

/// Runs every check of an endpoint's filters.
pub fn explain(endpoint: &Endpoint, facts: &Facts<'_>) -> Vec<FilterCheck> {
    let types = match &endpoint.event_types {
        None => (true, "the endpoint gets all event types".to_owned()),
        Some(wanted) => match wanted.iter().find(|pattern| pattern.matches(facts.event_type)) {
            Some(pattern) => (true, format!("{} matches {pattern}", facts.event_type)),
            None => (false, format!("{} matches none of the endpoint's event types", facts.event_type)),
        },
    };
    let channels = match &endpoint.channels {
        None => (true, "the endpoint listens to all channels".to_owned()),
        Some(wanted) => match facts.channels.iter().find(|channel| wanted.contains(channel)) {
            Some(channel) => (true, format!("the endpoint listens to {channel}")),
            None => (false, "the endpoint listens to none of the message's channels".to_owned()),
        },
    };
    let expression = match endpoint.filter.as_ref().map(|filter| facts.evaluate(endpoint, filter)) {
        None => (true, "the endpoint has no expression".to_owned()),
        Some(Ok(true)) => (true, "the expression is true".to_owned()),
        Some(Ok(false)) => (false, "the expression is false".to_owned()),
        Some(Err(error)) => (false, format!("the expression fails, which counts as false: {error}")),
    };
    let checked = |part, (passes, reason)| FilterCheck { part, passes, reason };
    vec![
        checked(FilterPart::EventTypes, types),
        checked(FilterPart::Channels, channels),
        checked(FilterPart::Expression, expression),
    ]
}

#[cfg(test)]
mod tests;
