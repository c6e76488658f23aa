//! A settlement is recorded once, and only for the holder of the task.

use std::time::Duration;

use everhook_core::delivery::DeliveryState;
use everhook_core::endpoint::EndpointState;
use everhook_core::exchange::StoredExchange;
use everhook_core::id::{AttemptId, EndpointId, MessageId, SessionId, TaskId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::task::TaskKey;
use everhook_store::lease::{Leased, NewAttempt, Settled, Settlement};

use crate::conformance::fixture::{Fixture, HOUR, PLENTY};

const NOW: NextRow = NextRow::Pending { due_in: Duration::ZERO };
const LATER: NextRow = NextRow::Pending { due_in: HOUR };

fn message(leased: &Leased) -> MessageId {
    MessageId(leased.task.key.subject)
}

pub(super) async fn a_delivered_task_leaves_and_its_attempt_stays(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let settlement = fx.settlement(&leased.task, session, NextRow::Gone);
    let logged = settlement.attempt.clone().expect("it is logged");
    assert_eq!(fx.settle(&settlement).await, Settled::Done);
    let attempts = fx.attempts(message(&leased)).await;
    let [seen] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((seen.message, seen.endpoint), (message(&leased), EndpointId(leased.task.lane.0)));
    assert_eq!((seen.epoch, seen.trigger), (leased.task.epoch, leased.task.trigger));
    let back = NewAttempt {
        holder: None,
        id: seen.id,
        class: seen.class,
        end: seen.end,
        trigger: seen.trigger,
        url: seen.url.clone(),
        status: seen.status,
        reply: seen.reply.clone(),
        started_at: seen.started_at,
        duration: seen.duration,
        exchange: seen.exchange.as_ref().and_then(StoredExchange::of),
    };
    assert_eq!(back, logged);
    assert_eq!(fx.state(message(&leased)).await, DeliveryState::Succeeded);
    assert_eq!(fx.lease_with(fx.ask(session)).await.next_ready, None);
}

pub(super) async fn a_retry_keeps_its_counts_and_gets_a_new_epoch(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let retry = Settlement { tries: 3, crashes: 2, ..fx.settlement(&leased.task, session, NOW) };
    assert_eq!(fx.settle(&retry).await, Settled::Done);
    let again = fx.lease_one(session).await.task;
    assert_eq!(again.key, leased.task.key);
    assert_eq!((again.tries, again.crashes, again.epoch), (3, 2, leased.task.epoch + 1));
}

pub(super) async fn a_dead_task_stays_and_is_not_leased(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None));
    assert_eq!(fx.state(message(&leased)).await, DeliveryState::Dead);
}

pub(super) async fn a_task_that_is_handed_back_leaves_no_trace(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let back = Settlement { attempt: None, tries: 0, ..fx.settlement(&leased.task, session, NOW) };
    assert_eq!(fx.settle(&back).await, Settled::Done);
    assert_eq!(fx.attempts(message(&leased)).await, []);
    assert_eq!(fx.state(message(&leased)).await, DeliveryState::Pending);
    assert_eq!(fx.lease_one(session).await.task.tries, 0);
}

pub(super) async fn only_the_holder_of_this_tenure_can_settle(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let stranger = fx.session().await;
    let epoch = leased.task.epoch;
    for (session, epoch) in [(stranger, epoch), (session, epoch + 1), (session, epoch - 1)] {
        for row in [NextRow::Gone, NOW, NextRow::Dead] {
            let late = fx.settlement(&leased.task, session, row);
            let late = Settlement { epoch, hold_lane: Some(HOUR), stop_lane: true, ..late };
            assert_eq!(fx.settle(&late).await, Settled::Lost);
        }
    }
    assert_eq!(fx.attempts(message(&leased)).await, []);
    fx.end(&leased.task, session, NOW).await;
    let again = fx.lease_one(session).await;
    assert_eq!(
        again.endpoint().cloned().expect("it is there").state,
        EndpointState::Enabled,
        "nothing was disabled or held"
    );
}

pub(super) async fn a_key_that_differs_in_any_part_is_another_task(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let key = leased.task.key;
    let others = [
        TaskKey { environment: fx.there, ..key },
        TaskKey { subject: fx.id(), ..key },
        TaskKey { id: TaskId(fx.id()), ..key },
    ];
    for key in others {
        let settlement = Settlement { key, ..fx.settlement(&leased.task, session, NextRow::Gone) };
        assert_eq!(fx.settle(&settlement).await, Settled::Lost);
    }
    fx.end(&leased.task, session, NextRow::Gone).await;
}

pub(super) async fn once_a_task_was_taken_over_its_earlier_holder_changes_nothing(fx: &Fixture) {
    let (dead, leased) = fx.held().await;
    fx.store.close_session(dead).await.unwrap();
    let sweeper = fx.session().await;
    let taken = fx.reclaim(sweeper, PLENTY).await;
    let late = fx.settlement(&leased.task, dead, NextRow::Gone);
    let late = Settlement { hold_lane: Some(HOUR), stop_lane: true, ..late };
    assert_eq!(fx.settle(&late).await, Settled::Lost);
    assert_eq!(fx.attempts(message(&leased)).await, []);
    fx.end(&taken[0], sweeper, NOW).await;
    assert_eq!(fx.settle(&late).await, Settled::Lost);
    let again = fx.lease_one(sweeper).await;
    assert_eq!(fx.settle(&late).await, Settled::Lost);
    fx.end(&again.task, sweeper, NextRow::Gone).await;
    assert_eq!(fx.settle(&late).await, Settled::Lost);
    assert_eq!(fx.attempts(message(&leased)).await.len(), 2);
}

pub(super) async fn a_closed_session_can_still_settle_what_nobody_took_over(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.store.close_session(session).await.unwrap();
    fx.end(&leased.task, session, NextRow::Gone).await;
    let sweeper = fx.session().await;
    assert_eq!(fx.reclaim(sweeper, PLENTY).await, []);
}

pub(super) async fn settling_twice_counts_once(fx: &Fixture) {
    for row in [NextRow::Gone, LATER, NextRow::Dead] {
        let (session, leased) = fx.held().await;
        let settlement = fx.settlement(&leased.task, session, row);
        for _ in 0..3 {
            assert_eq!(fx.settle(&settlement).await, Settled::Done);
        }
        assert_eq!(fx.attempts(message(&leased)).await.len(), 1);
        let other = NewAttempt { id: AttemptId(fx.id()), ..settlement.attempt.clone().expect("it is logged") };
        let other = Settlement { attempt: Some(other), ..settlement };
        assert_eq!(fx.settle(&other).await, Settled::Lost, "another attempt of the same tenure");
        fx.delete(EndpointId(leased.task.lane.0)).await;
        let cancelled = fx.lease(session).await;
        for leased in cancelled {
            fx.end(&leased.task, session, NextRow::Gone).await;
        }
    }
}

pub(super) async fn a_settlement_said_again_after_the_next_lease_is_still_done(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let settlement = fx.settlement(&leased.task, session, NOW);
    assert_eq!(fx.settle(&settlement).await, Settled::Done);
    let again = fx.lease_one(session).await;
    let repeated = Settlement { hold_lane: Some(HOUR), ..settlement };
    assert_eq!(fx.settle(&repeated).await, Settled::Done);
    fx.end(&again.task, session, NOW).await;
    assert_eq!(fx.lease(session).await.len(), 1, "the repetition held nothing");
}

pub(super) async fn one_lost_settlement_does_not_cost_its_neighbours(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(4).await;
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    let rows = [NextRow::Gone, NextRow::Gone, NOW, NextRow::Dead];
    let mut batch: Vec<_> =
        tasks.iter().zip(rows).map(|(leased, row)| fx.settlement(&leased.task, session, row)).collect();
    batch[1].session = SessionId(fx.id());
    batch.push(batch[0].clone());
    let done = fx.settle_all(&batch).await;
    assert_eq!(done, [Settled::Done, Settled::Lost, Settled::Done, Settled::Done, Settled::Done]);
    let mut states = Vec::new();
    for leased in &tasks {
        states.push(fx.state(message(leased)).await);
    }
    use DeliveryState::{Dead, Pending, Sending, Succeeded};
    assert_eq!(states, [Succeeded, Sending, Pending, Dead]);
    assert_eq!(fx.attempts(message(&tasks[0])).await.len(), 1);
    assert_eq!(fx.attempts(message(&tasks[1])).await.len(), 0);
}

pub(super) async fn a_batch_of_successes_is_settled_whole(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    fx.send_many(20).await;
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    assert_eq!(tasks.len(), 40);
    let batch: Vec<_> = tasks.iter().map(|leased| fx.settlement(&leased.task, session, NextRow::Gone)).collect();
    assert_eq!(fx.settle_all(&batch).await, [Settled::Done; 40]);
    assert_eq!(fx.settle_all(&batch).await, [Settled::Done; 40]);
    for leased in &tasks {
        assert_eq!(fx.attempts(message(leased)).await.len(), 2, "one for each endpoint");
    }
}

pub(super) async fn the_same_settlement_twice_in_a_batch_counts_once(fx: &Fixture) {
    for row in [NextRow::Gone, LATER, NextRow::Dead] {
        let (session, leased) = fx.held().await;
        let first = fx.settlement(&leased.task, session, row);
        let other =
            Settlement { tries: 9, hold_lane: Some(HOUR), ..fx.settlement(&leased.task, session, NextRow::Dead) };
        let done = fx.store.settle([first.clone(), first, other].into()).await.unwrap().answer;
        assert_eq!(done, [Settled::Done, Settled::Done, Settled::Lost]);
        assert_eq!(fx.attempts(message(&leased)).await.len(), 1);
        fx.delete(EndpointId(leased.task.lane.0)).await;
        fx.lease(session).await;
    }
}

pub(super) async fn of_several_ends_of_one_tenure_in_a_batch_the_first_counts(fx: &Fixture) {
    for row in [NextRow::Gone, LATER, NextRow::Dead] {
        let (session, leased) = fx.held().await;
        let ends: [Settlement; 8] = std::array::from_fn(|_| fx.settlement(&leased.task, session, row));
        let mut answers = [Settled::Lost; 8];
        answers[0] = Settled::Done;
        assert_eq!(fx.settle_all(&ends).await, answers);
        let first = ends[0].attempt.as_ref().map(|attempt| attempt.id);
        let logged = fx.attempts(message(&leased)).await;
        assert_eq!(logged.iter().map(|attempt| Some(attempt.id)).collect::<Vec<_>>(), [first]);
        fx.delete(EndpointId(leased.task.lane.0)).await;
        fx.lease(session).await;
    }
}

pub(super) async fn several_holds_of_one_lane_in_a_batch_leave_the_longest(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(3).await;
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    let holds = [Some(Duration::ZERO), Some(HOUR), None];
    let batch: Vec<_> = tasks
        .iter()
        .zip(holds)
        .map(|(leased, hold_lane)| Settlement { hold_lane, ..fx.settlement(&leased.task, session, NOW) })
        .collect();
    assert_eq!(fx.settle_all(&batch).await, [Settled::Done; 3]);
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0);
    assert!(grant.next_ready.is_some_and(|next| next > HOUR / 2));
}

pub(super) async fn several_retries_of_one_lane_in_a_batch_leave_the_earliest(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(3).await;
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    let batch: Vec<_> =
        tasks.iter().zip([LATER, NOW, LATER]).map(|(leased, row)| fx.settlement(&leased.task, session, row)).collect();
    fx.store.settle(batch.clone().into()).await.unwrap();
    assert_eq!(fx.lease_one(session).await.task.key, tasks[1].task.key);
}

pub(super) async fn a_receiver_that_is_gone_is_left_in_peace(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let waiting = fx.send().await;
    let endpoint = EndpointId(leased.task.lane.0);
    let gone = fx.settlement(&leased.task, session, NextRow::Dead);
    assert_eq!(fx.settle(&Settlement { stop_lane: true, ..gone }).await, Settled::Done);
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!((grant.tasks.len(), grant.next_ready), (0, None));
    assert_eq!(fx.state(waiting).await, DeliveryState::Held);
    let after = fx.send().await;
    assert_eq!(fx.states(after).await, [], "it gets no new deliveries");
    let seen = fx.other.destinations_of(fx.here, fx.application, waiting).await;
    assert_eq!(seen[0].endpoint.state, EndpointState::Gone);
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(message(&fx.lease_one(session).await), waiting);
}

pub(super) async fn a_disabled_endpoint_does_not_become_gone(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.switch(EndpointId(leased.task.lane.0), EndpointState::Disabled).await;
    let gone = fx.settlement(&leased.task, session, NextRow::Dead);
    assert_eq!(fx.settle(&Settlement { stop_lane: true, ..gone }).await, Settled::Done);
    let seen = fx.other.destinations_of(fx.here, fx.application, message(&leased)).await;
    assert_eq!(seen[0].endpoint.state, EndpointState::Disabled);
}

pub(super) async fn a_deleted_endpoint_that_is_gone_still_lets_its_deliveries_out(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.send().await;
    fx.delete(EndpointId(leased.task.lane.0)).await;
    let gone = fx.settlement(&leased.task, session, NextRow::Dead);
    assert_eq!(fx.settle(&Settlement { stop_lane: true, ..gone }).await, Settled::Done);
    assert!(fx.lease_one(session).await.endpoint().is_none());
}

pub(super) async fn a_retry_of_a_deleted_endpoint_comes_out_again(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.delete(EndpointId(leased.task.lane.0)).await;
    fx.end(&leased.task, session, NOW).await;
    let again = fx.lease_one(session).await;
    assert!(again.endpoint().is_none());
    let mut cancelled = fx.settlement(&again.task, session, NextRow::Gone);
    cancelled.attempt.as_mut().expect("it is logged").end = EndState::Cancelled;
    assert_eq!(fx.settle(&cancelled).await, Settled::Done);
    assert_eq!(fx.state(message(&leased)).await, DeliveryState::Cancelled);
}
