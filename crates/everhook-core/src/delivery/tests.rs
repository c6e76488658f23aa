use super::*;
use crate::id::{EnvironmentId, Id, LaneId, TaskId};
use crate::policy::BreakerSettings;
use crate::policy::order::OrderKey;
use crate::task::{TaskKey, TaskKind};

#[track_caller]
fn check(change: impl FnOnce(&mut DeliveryFacts), want: &str) {
    let now = Timestamp::from_millis(100_000);
    let mut facts = DeliveryFacts {
        state: DeliveryState::Pending,
        endpoint: EndpointPresence::Enabled,
        due_at: None,
        leased_at: None,
        hold_until: None,
        hold_kind: HoldKind::BackOff,
        breaker: Breaker::default(),
        head: None,
        message: MessageId(Id::MIN),
        cancel: false,
        last: None,
        ended_by_deletion: false,
    };
    change(&mut facts);
    let reason = reason(&facts, now);
    let until = reason.until().map(|until| format!(" until {}", until.as_millis())).unwrap_or_default();
    assert_eq!(format!("{}{until}", reason.kind()), want);
}

fn at(millis: i64) -> Option<Timestamp> {
    Some(Timestamp::from_millis(millis))
}

#[test]
fn a_waiting_delivery_says_what_it_waits_for() {
    check(|facts| facts.due_at = at(99_000), "queued");
    check(|facts| facts.due_at = at(101_000), "scheduled until 101000");
    let retry = |facts: &mut DeliveryFacts| (facts.due_at, facts.last) = (at(101_000), Some(Class::Status));
    check(retry, "retry until 101000");
    check(|facts| (facts.due_at, facts.hold_until) = (at(99_000), at(105_000)), "backOff until 105000");
    let limited = |facts: &mut DeliveryFacts| {
        (facts.due_at, facts.hold_until, facts.hold_kind) = (at(99_000), at(105_000), HoldKind::RateLimit);
    };
    check(limited, "rateLimit until 105000");
    let between = |facts: &mut DeliveryFacts| {
        (facts.due_at, facts.hold_until, facts.hold_kind) = (at(99_000), at(99_950), HoldKind::RateLimit);
    };
    check(between, "rateLimit until 100000");
    let full = |facts: &mut DeliveryFacts| {
        (facts.due_at, facts.hold_until, facts.hold_kind) = (at(99_000), at(100_500), HoldKind::Concurrency);
    };
    check(full, "concurrencyLimit");
    let probing = |facts: &mut DeliveryFacts| {
        full(facts);
        facts.breaker = Breaker::default().open(&BreakerSettings::default()).to;
    };
    check(probing, "breakerProbing");
    let open = |facts: &mut DeliveryFacts| {
        (facts.due_at, facts.hold_until, facts.hold_kind) = (at(99_000), at(105_000), HoldKind::Breaker);
    };
    check(open, "breakerOpen until 105000");
    let ordered = |kind, head| {
        move |facts: &mut DeliveryFacts| {
            (facts.due_at, facts.hold_until, facts.hold_kind) = (at(99_000), at(100_500), kind);
            facts.head = Some(MessageId(head));
        }
    };
    check(ordered(HoldKind::Order, Id::MAX), "behind");
    check(ordered(HoldKind::Retry, Id::MAX), "behind");
    check(ordered(HoldKind::Retry, Id::MIN), "retry until 100500");
    check(ordered(HoldKind::Blocked, Id::MAX), "blocked");
    check(|facts| (facts.due_at, facts.hold_until) = (at(106_000), at(105_000)), "scheduled until 106000");
    check(|facts| (facts.due_at, facts.hold_until) = (at(99_000), at(98_000)), "queued");
    check(|facts| (facts.due_at, facts.cancel) = (at(101_000), true), "cancelRequested");
    check(|facts| facts.state = DeliveryState::Held, "endpointDisabled");
    let paused = |facts: &mut DeliveryFacts| {
        (facts.state, facts.endpoint) = (DeliveryState::Held, EndpointPresence::Paused);
    };
    check(paused, "endpointPaused");
}

#[test]
fn a_pause_of_the_application_or_the_environment_holds_deliveries() {
    let (application, other) = (ApplicationId(Id::MIN), ApplicationId(Id::MAX));
    let pauses = |environment, applications: &[ApplicationId]| OuterPauses {
        environment,
        applications: applications.iter().copied().collect(),
    };
    let held = |presence: EndpointPresence, pauses: OuterPauses, want: &str| {
        let endpoint = presence.under(application, &pauses);
        let state = state(DeliveryTrace::Open(TaskState::Pending), endpoint);
        check(|facts| (facts.state, facts.endpoint, facts.due_at) = (state, endpoint, at(99_000)), want);
    };
    held(EndpointPresence::Enabled, pauses(false, &[other]), "queued");
    held(EndpointPresence::Enabled, pauses(true, &[]), "environmentPaused");
    held(EndpointPresence::Enabled, pauses(true, &[application]), "applicationPaused");
    held(EndpointPresence::Disabled, pauses(true, &[application]), "endpointDisabled");
    held(EndpointPresence::Paused, pauses(true, &[application]), "endpointPaused");
}

#[test]
fn an_ended_delivery_says_how_it_ended() {
    let dead = |class| move |facts: &mut DeliveryFacts| (facts.state, facts.last) = (DeliveryState::Dead, class);
    check(dead(Some(Class::Status)), "exhausted");
    check(dead(Some(Class::Gone)), "gone");
    check(dead(Some(Class::Abandoned)), "crashed");
    check(|facts| facts.state = DeliveryState::Succeeded, "delivered");
    check(|facts| facts.state = DeliveryState::Cancelled, "cancelled");
    check(|facts| (facts.state, facts.due_at) = (DeliveryState::Cancelled, at(1)), "endpointDeleted");
    let ended = |facts: &mut DeliveryFacts| (facts.state, facts.ended_by_deletion) = (DeliveryState::Cancelled, true);
    check(ended, "endpointDeleted");
}

#[test]
fn a_command_fits_the_state_of_its_task() {
    use DeliveryAction::{End, Nothing, Redrive, Refuse, RequestCancel, RunNow};
    let states = [TaskState::Pending, TaskState::Leased, TaskState::Dead];
    let first = task(Timestamp::default());
    let on = |command: DeliveryCommand| states.map(|state| command.on(&first, state));
    assert_eq!(on(DeliveryCommand::Cancel), [End, RequestCancel, Refuse]);
    assert_eq!(on(DeliveryCommand::RetryNow), [RunNow, Nothing, Redrive]);
    assert_eq!(on(DeliveryCommand::Dismiss), [Refuse, Refuse, End]);
    let behind = task(Timestamp::NEVER);
    assert_eq!(states.map(|state| DeliveryCommand::RetryNow.on(&behind, state)), [Nothing, Nothing, Redrive]);
}

/// A delivery that is ordered by a key.
fn task(due_at: Timestamp) -> Task {
    let key = TaskKey { environment: EnvironmentId(1), subject: Id::MIN, id: TaskId(Id::MIN) };
    Task { order_key: Some(OrderKey(1)), ..Task::new(key, LaneId(Id::MIN), TaskKind::Delivery, due_at) }
}

#[test]
fn a_key_is_read_as_it_is_written() {
    let key = DeliveryKey { message: MessageId(Id::MAX), endpoint: EndpointId(Id::MIN) };
    assert_eq!(key.to_string().parse(), Ok(key));
    for bad in ["", "msg_1", "msg_1.ep_1"] {
        assert_eq!(bad.parse::<DeliveryKey>(), Err(BadId), "{bad}");
    }
}

#[test]
fn a_waiting_delivery_depends_on_its_endpoint() {
    let waiting = DeliveryTrace::Open(TaskState::Pending);
    assert_eq!(state(waiting, EndpointPresence::Enabled), DeliveryState::Pending);
    assert_eq!(state(waiting, EndpointPresence::Disabled), DeliveryState::Held);
    assert_eq!(state(waiting, EndpointPresence::Paused), DeliveryState::Held);
    assert_eq!(state(waiting, EndpointPresence::Deleted), DeliveryState::Cancelled);
    let leased = DeliveryTrace::Open(TaskState::Leased);
    assert_eq!(state(leased, EndpointPresence::Enabled), DeliveryState::Sending);
}

#[test]
fn an_ended_delivery_stays_what_it_is() {
    for endpoint in [EndpointPresence::Enabled, EndpointPresence::Disabled, EndpointPresence::Deleted] {
        assert_eq!(state(DeliveryTrace::Ended(EndState::Succeeded), endpoint), DeliveryState::Succeeded);
        let dead = DeliveryTrace::Open(TaskState::Dead);
        assert_eq!(state(dead, endpoint), DeliveryState::Dead);
    }
}
