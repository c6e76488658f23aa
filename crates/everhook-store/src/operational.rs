//! Operational events as the stores write them: messages of the hidden application. The rules are in
//! `core::operational`.
//!
//! A store first asks whether an operational endpoint wants an event, and reads the data of the event only then. Most
//! environments have no such endpoint and most settlements cause no event, so neither pays for this.

use everhook_core::fanout;
use everhook_core::id::{EndpointId, EnvironmentId, LaneId, MessageId, TaskId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::message::{Message, Rest};
use everhook_core::operational::{FAILING_TRIES, News, OPERATIONAL_APPLICATION, OperationalEvent, ReportedAttempt};
use everhook_core::outcome::Class;
use everhook_core::task::{TaskKind, Trigger};
use everhook_core::time::Timestamp;

use crate::cache::EndpointSet;
use crate::lease::{NewMessage, Settlement};

/// An event of a settlement, before its data is read.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEvent {
    pub event: OperationalEvent,
    pub environment: EnvironmentId,
    pub message: MessageId,
    pub task: TaskId,
    pub lane: LaneId,
    pub only_if: OnlyIf,
    pub last: ReportedAttempt,
}

/// The condition of an event that only the attempt log can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlyIf {
    Always,
    /// An earlier attempt ended the task as dead. A redrive resets the tries, so that they do not tell.
    WasDead,
}

impl AttemptEvent {
    pub fn endpoint(&self) -> EndpointId {
        EndpointId(self.lane.0)
    }

    /// Returns the event of a settlement that was written; none for most of them. A manual attempt is followed by its
    /// caller and causes none.
    pub fn of(settlement: &Settlement) -> Option<AttemptEvent> {
        let attempt = settlement.attempt.as_ref().filter(|attempt| attempt.trigger == Trigger::Scheduled)?;
        if settlement.kind != TaskKind::Delivery {
            return None;
        }
        let (event, only_if) = match settlement.row {
            NextRow::Dead => (OperationalEvent::AttemptExhausted, OnlyIf::Always),
            // A crash or an interruption after the fourth failure leaves the tries as they are, and is no news.
            NextRow::Pending { .. }
                if settlement.tries == FAILING_TRIES
                    && !matches!(attempt.class, Class::Abandoned | Class::Interrupted) =>
            {
                (OperationalEvent::AttemptFailing, OnlyIf::Always)
            }
            NextRow::Gone if attempt.end == EndState::Succeeded => {
                // The success is a try, too.
                if settlement.tries > FAILING_TRIES {
                    (OperationalEvent::AttemptRecovered, OnlyIf::Always)
                } else if settlement.epoch > settlement.tries + settlement.crashes {
                    // The task was leased more often than its tries tell: it was redriven, handed back or interrupted.
                    (OperationalEvent::AttemptRecovered, OnlyIf::WasDead)
                } else {
                    return None;
                }
            }
            NextRow::Pending { .. } | NextRow::Gone => return None,
        };
        let (environment, message) = (settlement.key.environment, MessageId(settlement.key.subject));
        let last =
            ReportedAttempt { id: attempt.id, response_status_code: attempt.status, timestamp: attempt.started_at };
        let (task, lane) = (settlement.key.id, settlement.lane);
        Some(AttemptEvent { event, environment, message, task, lane, only_if, last })
    }
}

/// Whether one of the operational endpoints wants an event.
pub fn is_wanted(endpoints: &EndpointSet, event: OperationalEvent) -> bool {
    let event_type = event.event_type();
    endpoints.endpoints.iter().any(|endpoint| fanout::wants(endpoint, &event_type, &[]))
}

/// Returns the message that reports an event.
pub fn message(environment: EnvironmentId, news: &News, id: MessageId) -> NewMessage {
    let message = Message {
        id,
        application: OPERATIONAL_APPLICATION,
        event_type: news.event().event_type(),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(news.to_json().into()),
        created_at: Timestamp::default(),
        rest: Rest::default(),
    };
    NewMessage::new(environment, message)
}
