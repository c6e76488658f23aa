//! Tasks are leased when they are due, lane by lane, and a blocked lane does not delay others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::fair::GroupId;
use everhook_core::id::{EndpointId, EnvironmentId, Id, LaneId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::policy::{Settings, WhileDisabled};
use everhook_core::task::Trigger;
use everhook_store::backlog::Backlog;
use everhook_store::capacity::{Capacity, LeaseCapacity};
use everhook_store::catalog::{Locator, Replaced};
use everhook_store::lease::{Append, Appended, LeaseAsk, Leased, NewMessage, Reclaim, ReclaimAsk, Settlement};
use everhook_store::query;
use everhook_store::store::Resources;

use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast, name};

fn subjects(tasks: &[Leased]) -> Vec<Id> {
    tasks.iter().map(|leased| leased.task.key.subject).collect()
}

fn by_lane(tasks: &[Leased]) -> BTreeMap<LaneId, usize> {
    let mut counts = BTreeMap::new();
    for leased in tasks {
        *counts.entry(leased.task.lane).or_default() += 1;
    }
    counts
}

pub(super) async fn a_pending_delivery_is_leased_once_with_all_its_holder_needs(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let new = fx.message();
    fx.append_one(None, new.clone()).await;
    let (session, other) = (fx.session().await, fx.session().await);
    let leased = fx.lease_one(session).await;
    let task = leased.task;
    assert_eq!((task.key.environment, task.key.subject), (fx.here, new.message.id.0));
    assert_eq!((task.lane, task.trigger), (endpoint.lane(), Trigger::Scheduled));
    assert_eq!((task.tries, task.crashes, task.epoch, task.cancel), (0, 0, 1, false));
    let message = leased.message().cloned().expect("it was just appended");
    assert_eq!(message.payload, new.message.payload, "the bytes are the bytes");
    assert_eq!((message.id, &message.event_type), (new.message.id, &new.message.event_type));
    assert_eq!(leased.endpoint().cloned().expect("it was just created").id, endpoint);
    assert_eq!(fx.lease(other).await.len(), 0);
    fx.end(&task, session, NextRow::Gone).await;
    assert_eq!(fx.lease(session).await.len(), 0);
}

pub(super) async fn nothing_to_do_is_no_error(fx: &Fixture) {
    fx.endpoint().await;
    let grant = fx.lease_with(fx.ask(fx.session().await)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None));
}

pub(super) async fn what_is_not_due_stays_and_its_time_is_told(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0);
    let next = grant.next_ready.expect("something is due in an hour");
    assert!(HOUR / 2 < next && next <= HOUR, "{next:?}");
}

pub(super) async fn what_waits_is_counted(fx: &Fixture) {
    let count = async || {
        let Backlog { pending, dead, due_for, .. } = fx.read(query::CountBacklog {}).await;
        assert!(due_for < HOUR, "{due_for:?}");
        (pending, dead, due_for)
    };
    assert_eq!(count().await, (0, 0, Duration::ZERO));
    fx.endpoint().await;
    let began = fx.store.now().await.unwrap();
    fx.send_many(3).await;
    let later = fx.store.now().await.unwrap();
    let (pending, dead, due_for) = count().await;
    assert_eq!((pending, dead), (3, 0));
    // The clock of an in-memory store may stand still.
    assert!(due_for > Duration::ZERO || later == began, "it is due since it was sent");
    let session = fx.session().await;
    let mut tasks = fx.lease_with(LeaseAsk { limit: 1, per_lane: 1, ..fx.ask(session) }).await.tasks;
    let turned = fx.store.now().await.unwrap();
    let (pending, _, due_for) = count().await;
    assert!(pending == 2 && due_for >= turned.since(later), "what is left was due before its lane had a turn");
    tasks.extend(fx.lease(session).await);
    assert_eq!(count().await, (0, 0, Duration::ZERO), "what is leased does not wait");
    fx.end(&tasks[0].task, session, NextRow::Dead).await;
    fx.end(&tasks[1].task, session, NextRow::Pending { due_in: HOUR }).await;
    fx.end(&tasks[2].task, session, NextRow::Gone).await;
    assert_eq!(count().await, (1, 1, Duration::ZERO), "what is not due waits, but nobody is late");
}

pub(super) async fn what_is_due_later_is_remembered_when_the_rest_of_its_lane_goes(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.send().await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 1);
    let next = grant.next_ready.expect("the other one is due in an hour");
    assert!(HOUR / 2 < next && next <= HOUR, "{next:?}");
    let grant = fx.lease_with(fx.ask(session)).await;
    assert!(grant.tasks.is_empty() && grant.next_ready.is_some(), "{grant:?}");
}

pub(super) async fn what_was_due_first_goes_first(fx: &Fixture) {
    fx.endpoint().await;
    let session = fx.session().await;
    let (first, second) = (fx.send().await.0, fx.send().await.0);
    let tasks = fx.lease(session).await;
    assert_eq!(subjects(&tasks), [first, second]);
    for leased in tasks.iter().rev() {
        fx.end(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    }
    assert_eq!(subjects(&fx.lease(session).await), [second, first]);
}

pub(super) async fn a_lane_gives_no_more_than_it_has_room_for(fx: &Fixture) {
    let (narrow, wide) = (fx.endpoint().await.lane(), fx.endpoint().await.lane());
    let session = fx.session().await;
    fx.send_many(5).await;
    let ask = LeaseAsk { free_by_lane: vec![(narrow, 1)], per_lane: 3, ..fx.ask(session) };
    let tasks = fx.lease_with(ask.clone()).await.tasks;
    assert_eq!(by_lane(&tasks), BTreeMap::from([(narrow, 1), (wide, 3)]));
    let tasks = fx.lease_with(ask).await.tasks;
    assert_eq!(by_lane(&tasks), BTreeMap::from([(narrow, 1), (wide, 2)]));
}

pub(super) async fn a_lane_without_room_is_not_looked_at(fx: &Fixture) {
    let full = fx.endpoint().await.lane();
    let session = fx.session().await;
    fx.send().await;
    let grant = fx.lease_with(LeaseAsk { free_by_lane: vec![(full, 0)], ..fx.ask(session) }).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None));
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_lease_gives_no_more_than_it_was_asked_for(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    let session = fx.session().await;
    fx.send_many(3).await;
    let mut seen = Vec::new();
    for want in [4, 2, 0] {
        let grant = fx.lease_with(LeaseAsk { limit: 4, ..fx.ask(session) }).await;
        assert_eq!(grant.tasks.len(), want);
        seen.extend(grant.tasks.iter().map(|leased| leased.task.key));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6);
}

pub(super) async fn more_work_is_announced_at_once(fx: &Fixture) {
    fx.endpoint().await;
    let session = fx.session().await;
    fx.send_many(3).await;
    let grant = fx.lease_with(LeaseAsk { per_lane: 2, ..fx.ask(session) }).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (2, Some(Duration::ZERO)));
    let grant = fx.lease_with(LeaseAsk { per_lane: 2, ..fx.ask(session) }).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (1, None));
}

pub(super) async fn lanes_take_turns(fx: &Fixture) {
    let lanes = [fx.endpoint().await.lane(), fx.endpoint().await.lane(), fx.endpoint().await.lane()];
    let session = fx.session().await;
    fx.send_many(4).await;
    for _ in 0..2 {
        let mut round = Vec::new();
        for _ in 0..lanes.len() {
            round.extend(fx.lease_with(LeaseAsk { limit: 2, per_lane: 2, ..fx.ask(session) }).await.tasks);
        }
        assert_eq!(by_lane(&round), lanes.map(|lane| (lane, 2)).into());
    }
}

pub(super) async fn a_lane_that_was_cut_off_is_the_next_one(fx: &Fixture) {
    let lanes = [fx.endpoint().await.lane(), fx.endpoint().await.lane()];
    let session = fx.session().await;
    fx.send_many(4).await;
    let first = fx.lease_with(LeaseAsk { limit: 3, per_lane: 2, ..fx.ask(session) }).await.tasks;
    let second = fx.lease_with(LeaseAsk { limit: 1, per_lane: 2, ..fx.ask(session) }).await.tasks;
    let all: Vec<_> = first.into_iter().chain(second).collect();
    assert_eq!(by_lane(&all), lanes.map(|lane| (lane, 2)).into());
}

pub(super) async fn a_held_lane_is_not_looked_at_until_its_time(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.send().await;
    let retry = fx.settlement(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO });
    fx.settle(&Settlement { hold_lane: Some(HOUR), ..retry }).await;
    let neighbour = fx.endpoint().await;
    fx.send().await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(by_lane(&grant.tasks), BTreeMap::from([(neighbour.lane(), 1)]));
    let next = grant.next_ready.expect("the hold ends in an hour");
    assert!(HOUR / 2 < next && next <= HOUR, "{next:?}");
}

pub(super) async fn a_hold_is_never_shortened(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    fx.send().await;
    fx.send().await;
    let session = fx.session().await;
    let tasks = fx.lease_with(LeaseAsk { per_lane: 2, ..fx.ask(session) }).await.tasks;
    for (leased, hold) in tasks.iter().zip([HOUR, Duration::ZERO]) {
        let gone = fx.settlement(&leased.task, session, NextRow::Gone);
        fx.settle(&Settlement { hold_lane: Some(hold), ..gone }).await;
    }
    assert_eq!(fx.lease(session).await.len(), 0);
}

pub(super) async fn a_hold_that_is_over_holds_nothing(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let retry = fx.settlement(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO });
    fx.settle(&Settlement { hold_lane: Some(Duration::ZERO), ..retry }).await;
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_hold_over_an_empty_lane_is_nothing_to_wait_for(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let gone = fx.settlement(&leased.task, session, NextRow::Gone);
    fx.settle(&Settlement { hold_lane: Some(HOUR), ..gone }).await;
    assert_eq!(fx.lease_with(fx.ask(session)).await.next_ready, None);
}

pub(super) async fn a_disabled_endpoint_keeps_its_deliveries_until_it_is_enabled(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send().await.0;
    let session = fx.session().await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None));
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(subjects(&fx.lease(session).await), [sent]);
}

/// Changes an endpoint of this environment.
pub(super) async fn change(fx: &Fixture, id: EndpointId, change: impl FnOnce(&mut Endpoint)) {
    let find = query::FindEndpoint { scope: fx.app_scope(), locator: Locator::Id(id) };
    let mut endpoint = fx.read(find).await.expect("it was created");
    change(&mut endpoint);
    let replaced = fx.store.replace(fx.scope(), endpoint).await.unwrap();
    assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
}

fn policy(settings: Settings) -> Option<Arc<Settings>> {
    Some(Arc::new(settings))
}

pub(super) async fn a_paused_endpoint_takes_deliveries_and_holds_them(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let first = fx.send().await.0;
    let paused = Settings { paused: Some(true), ..Settings::default() };
    change(fx, endpoint, |endpoint| endpoint.policy = policy(paused)).await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let new = fx.message();
    let second = new.message.id.0;
    let answer = fx.append_one(Some(fast(session, &capacity)), new).await;
    assert!(matches!(&answer, Appended::Accepted { leased, pending: 1, .. } if leased.is_empty()), "{answer:?}");
    let grant = fx.lease_with(planned(fx, session, &capacity)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None), "nobody looks at it");
    change(fx, endpoint, |endpoint| endpoint.policy = None).await;
    assert_eq!(subjects(&fx.lease(session).await), [first, second], "in order");
}

pub(super) async fn a_disabled_endpoint_may_hold_new_deliveries(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    let held = Settings { while_disabled: Some(WhileDisabled::Hold), ..Settings::default() };
    change(fx, endpoint, |endpoint| endpoint.policy = policy(held)).await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    let sent = fx.send().await.0;
    assert_eq!(fx.lease(session).await.len(), 0);
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(subjects(&fx.lease(session).await), [sent]);
}

pub(super) async fn a_retry_for_a_disabled_endpoint_waits_until_it_is_enabled(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let endpoint = EndpointId(leased.task.lane.0);
    fx.switch(endpoint, EndpointState::Disabled).await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    assert_eq!(fx.lease(session).await.len(), 0);
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(fx.lease_one(session).await.task.epoch, 2);
}

pub(super) async fn deliveries_to_a_deleted_endpoint_come_out_whatever_they_waited_for(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    fx.send().await;
    fx.send().await;
    let tasks = fx.lease(session).await;
    let later = fx.settlement(&tasks[0].task, session, NextRow::Pending { due_in: HOUR });
    fx.settle(&Settlement { hold_lane: Some(HOUR), ..later }).await;
    fx.end(&tasks[1].task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    assert_eq!(fx.lease(session).await.len(), 0, "the lane is held");
    fx.delete(endpoint).await;
    let tasks = fx.lease(session).await;
    assert_eq!(tasks.len(), 2);
    for leased in &tasks {
        assert!(leased.endpoint().is_none() && leased.message().is_some(), "{leased:?}");
        fx.end(&leased.task, session, NextRow::Gone).await;
    }
    assert_eq!(fx.lease_with(fx.ask(session)).await.next_ready, None);
}

pub(super) async fn a_delivery_that_was_leased_before_it_was_due_is_held_since_its_lease(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    fx.send().await;
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    fx.delete(endpoint).await;
    assert_eq!(fx.lease(session).await.len(), 1, "a deleted endpoint lets go what waits for it");
    fx.store.close_session(session).await.unwrap();
    let ask = ReclaimAsk { session: fx.session().await, limit: PLENTY, what: Reclaim::Orphaned };
    let taken = fx.store.reclaim(ask).await.unwrap();
    assert!(taken[0].from.since <= fx.store.now().await.unwrap(), "{taken:?}");
}

pub(super) async fn deliveries_to_a_deleted_endpoint_come_out_also_if_it_was_disabled(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send().await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    fx.delete(endpoint).await;
    assert!(fx.lease_one(fx.session().await).await.endpoint().is_none());
}

pub(super) async fn deliveries_to_a_deleted_endpoint_come_out_in_portions(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    fx.send_many(5).await;
    for leased in fx.lease(session).await {
        fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    }
    fx.delete(endpoint).await;
    let mut portions = Vec::new();
    for _ in 0..4 {
        portions.push(fx.lease_with(LeaseAsk { per_lane: 2, ..fx.ask(session) }).await.tasks.len());
    }
    assert_eq!(portions, [2, 2, 1, 0]);
}

pub(super) async fn deleting_an_application_lets_its_deliveries_out(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    fx.send().await;
    assert!(fx.other.drop_application(fx.here, fx.application).await);
    let tasks = fx.lease(fx.session().await).await;
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|leased| leased.endpoint().is_none()));
}

pub(super) async fn a_removed_payload_comes_as_none(fx: &Fixture) {
    fx.endpoint().await;
    let sent = fx.send().await;
    assert!(fx.other.drop_payload(fx.here, fx.application, sent).await);
    let leased = fx.lease_one(fx.session().await).await;
    assert_eq!(leased.message().cloned().expect("the message itself stays").payload, None);
}

pub(super) async fn a_lease_sees_the_endpoint_as_it_is_now(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let endpoint = EndpointId(leased.task.lane.0);
    fx.end(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    fx.switch(endpoint, EndpointState::Enabled).await;
    let seen = fx.lease_one(session).await.endpoint().cloned().expect("it is there");
    assert_eq!(seen.state, EndpointState::Enabled);
}

pub(super) async fn equal_ids_in_two_environments_do_not_meet(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let new = fx.message();
    let mut twin = NewMessage { environment: fx.there, ..new.clone() };
    twin.message.payload = Some(bytes::Bytes::from_static(b"{\"twin\":true}"));
    let payloads = BTreeMap::from([(fx.here, new.message.payload.clone()), (fx.there, twin.message.payload.clone())]);
    fx.store.append(Append { fast: None, messages: vec![new, twin] }).await.unwrap();
    let session = fx.session().await;
    let lease = async || fx.store.lease(LeaseAsk { per_lane: PLENTY, ..fx.ask(session) }).await.unwrap().tasks;
    let environments = |tasks: &[Leased]| {
        let mut list: Vec<EnvironmentId> = tasks.iter().map(|leased| leased.task.key.environment).collect();
        list.sort();
        list
    };
    fx.switch(endpoint, EndpointState::Disabled).await;
    let there = lease().await;
    assert_eq!(environments(&there), [fx.there]);
    fx.end(&there[0].task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    fx.switch(endpoint, EndpointState::Enabled).await;
    let both = lease().await;
    let mut want = vec![fx.here, fx.there];
    want.sort();
    assert_eq!(environments(&both), want);
    for leased in &both {
        let message = leased.message().expect("it was just appended");
        assert_eq!(message.payload, payloads[&leased.task.key.environment]);
        let due_in = if leased.task.key.environment == fx.here { Duration::ZERO } else { HOUR };
        fx.end(&leased.task, session, NextRow::Pending { due_in }).await;
    }
    fx.delete(endpoint).await;
    assert_eq!(environments(&lease().await), [fx.here], "there the retry waits for its time");
}

/// Returns a request whose slots come from `capacity`.
fn planned(fx: &Fixture, session: SessionId, capacity: &Arc<FixedCapacity>) -> LeaseAsk {
    let slots: Arc<dyn Capacity> = Arc::<FixedCapacity>::clone(capacity);
    LeaseAsk { slots: Some(LeaseCapacity(slots)), ..fx.ask(session) }
}

pub(super) async fn a_lease_takes_only_the_slots_that_its_node_gives(fx: &Fixture) {
    for _ in 0..3 {
        fx.endpoint().await;
    }
    fx.send().await;
    fx.send().await;
    let session = fx.session().await;
    let capacity = FixedCapacity::of(2);
    let grant = fx.lease_with(planned(fx, session, &capacity)).await;
    assert_eq!((grant.tasks.len(), by_lane(&grant.tasks).len()), (2, 2), "one slot for each of two lanes");
    assert_eq!((grant.slots.len(), capacity.left()), (2, 0));
    assert_eq!((grant.next_ready, grant.resume), (Some(Duration::ZERO), None));
    drop(grant.slots);
    assert_eq!(capacity.left(), 2, "slots are released when they are dropped");
    let capacity = FixedCapacity::of(0);
    let grant = fx.lease_with(planned(fx, session, &capacity)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None), "the node knows when it has capacity");
    let capacity = FixedCapacity::of(PLENTY);
    let mut left = 4;
    while left > 0 {
        let grant = fx.lease_with(planned(fx, session, &capacity)).await;
        assert!(!grant.tasks.is_empty(), "{left} are left");
        left -= grant.tasks.len();
        assert_eq!(capacity.left(), PLENTY - grant.slots.len(), "unused slots are released");
    }
}

pub(super) async fn a_group_at_its_share_is_passed_over(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let session = fx.session().await;
    let group = GroupId { environment: fx.here, id: fx.application.0 };
    let capacity = FixedCapacity::of(PLENTY);
    let grant = fx.lease_with(LeaseAsk { full_groups: vec![group], ..planned(fx, session, &capacity) }).await;
    assert_eq!((grant.tasks.len(), grant.next_ready, capacity.left()), (0, None, PLENTY));
    let namesake = GroupId { environment: fx.there, ..group };
    let grant = fx.lease_with(LeaseAsk { full_groups: vec![namesake], ..planned(fx, session, &capacity) }).await;
    assert_eq!(grant.tasks.len(), 1, "the group of another environment");
}

pub(super) async fn a_paused_environment_is_passed_over(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let grant = fx.lease_with(LeaseAsk { paused: vec![fx.here], ..planned(fx, session, &capacity) }).await;
    assert_eq!((grant.tasks.len(), grant.next_ready, capacity.left()), (0, None, PLENTY));
    let grant = fx.lease_with(LeaseAsk { paused: vec![fx.there], ..planned(fx, session, &capacity) }).await;
    assert_eq!(grant.tasks.len(), 1, "another environment is paused");
}

pub(super) async fn a_lease_goes_on_behind_lanes_that_its_node_refused(fx: &Fixture) {
    const BEHIND: usize = 4;
    // Two messages, because the fixture reads one page of attempts of each.
    for (channel, endpoints) in [("front", LEASE_LANES_MAX / 2), ("back", LEASE_LANES_MAX / 2 + BEHIND)] {
        for _ in 0..endpoints {
            fx.endpoint_with(|endpoint| endpoint.channels = Some(vec![name(channel)])).await;
        }
        let mut new = fx.message();
        new.message.channels = vec![name(channel)];
        fx.append_one(None, new).await;
    }
    let session = fx.session().await;
    let grant = fx.lease_with(planned(fx, session, &FixedCapacity::of(0))).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, Some(Duration::ZERO)));
    let resume = grant.resume.expect("there are more ready lanes");
    let ask = planned(fx, session, &FixedCapacity::of(PLENTY));
    let grant = fx.lease_with(LeaseAsk { after: Some(resume), ..ask }).await;
    assert_eq!((grant.tasks.len(), grant.resume), (BEHIND, None), "those behind, and the next lease starts over");
    let grant = fx.lease_with(planned(fx, session, &FixedCapacity::of(PLENTY))).await;
    assert_eq!((grant.tasks.len(), grant.resume), (PLENTY, None), "the lease is full: the next one looks here again");
}
