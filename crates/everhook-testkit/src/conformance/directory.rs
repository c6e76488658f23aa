//! Endpoints and messages are found without their application, and open tasks are counted by environment.

use bytes::Bytes;
use everhook_core::endpoint::{EndpointKey, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_store::backlog::{LaneCounts, OpenCounts};
use everhook_store::catalog::{Order, Slice};
use everhook_store::directory::PlacedEndpoint;
use everhook_store::history::MessageFilter;
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::query;

use crate::conformance::fixture::{Fixture, HOUR, name, new_application, new_endpoint, new_message, pages};

/// Adds an application with this many endpoints.
async fn application(fx: &Fixture, endpoints: usize) -> (ApplicationId, Vec<EndpointId>) {
    let application = new_application(ApplicationId(fx.id()));
    fx.other.stage_application(fx.here, &application).await;
    let mut ids = Vec::new();
    for _ in 0..endpoints {
        let endpoint = new_endpoint(EndpointId(fx.id()), application.id);
        fx.other.stage_endpoint(fx.here, &endpoint).await;
        ids.push(endpoint.id);
    }
    (application.id, ids)
}

pub(super) async fn endpoints_of_all_applications_are_listed_in_pages(fx: &Fixture) {
    let mut keys = vec![EndpointKey { application: fx.application, endpoint: fx.endpoint().await }];
    for endpoints in [0, 3, 2] {
        let (application, endpoints) = application(fx, endpoints).await;
        keys.extend(endpoints.into_iter().map(|endpoint| EndpointKey { application, endpoint }));
    }
    let deleted = fx.endpoint().await;
    fx.delete(deleted).await;
    keys.sort();
    for order in [Order::Ascending, Order::Descending] {
        let read = async |slice| {
            let page = fx.read(query::AllEndpoints { scope: fx.scope(), slice }).await;
            assert!(page.iter().all(|placed| placed.application.id == placed.endpoint.application));
            page
        };
        let slice = Slice { after: None, order, limit: 2 };
        assert_eq!(pages(slice, PlacedEndpoint::key, read).await, keys, "{order:?}");
        keys.reverse();
    }
    let ids = vec![keys[1].endpoint, deleted, EndpointId(fx.id())];
    let found = fx.read(query::FindEndpoints { scope: fx.scope(), ids }).await;
    assert_eq!(found.iter().map(|placed| placed.key()).collect::<Vec<_>>(), [keys[1]], "known ones only");
    let ids = vec![keys[1].endpoint];
    let there = fx.read(query::FindEndpoints { scope: Scope::of(fx.there), ids: ids.clone() }).await;
    assert_eq!(there.len(), usize::from(keys[1].application == fx.application), "{ids:?}");
}

pub(super) async fn the_application_of_a_message_is_found(fx: &Fixture) {
    application(fx, 1).await;
    let message = fx.send().await;
    let find = async |environment, message| {
        let scope = Scope::of(environment);
        fx.read(query::FindMessageApplication { scope, message }).await
    };
    assert_eq!(find(fx.here, message).await, Some(fx.application));
    assert_eq!(find(fx.here, MessageId(fx.id())).await, None);
}

pub(super) async fn messages_of_all_applications_are_listed_in_pages(fx: &Fixture) {
    let [quiet, busy] = [new_application(ApplicationId(fx.id())), new_application(ApplicationId(fx.id()))];
    for environment in [fx.here, fx.there] {
        fx.other.stage_application(environment, &quiet).await;
        fx.other.stage_application(environment, &busy).await;
    }
    let (quiet, busy) = (quiet.id, busy.id);
    let mut sent = Vec::new();
    for (index, application) in [busy, fx.application, busy, busy, quiet, busy, fx.application].into_iter().enumerate()
    {
        let mut new = NewMessage::new(fx.here, new_message(MessageId(fx.id()), application));
        new.message.tags = if index % 3 == 0 { vec![name("t")] } else { Vec::new() };
        new.message.payload = Some(Bytes::from(format!(r#"{{"n":"%{index}"}}"#)));
        sent.push((application, new.message.id));
        assert!(matches!(fx.append_one(None, new).await, Appended::Accepted { .. }));
    }
    let list = async |tag: Option<Name>, text: Option<&str>, order, limit| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let slice = Slice { after, order, limit };
            let (before, event_types, scan) = (None, Vec::new(), SCAN_ROWS_MAX);
            let tag = tag.clone();
            let (channel, text) = (None, text.map(str::to_owned));
            let filter = MessageFilter { slice, before, after: None, channel, tag, event_types, text, scan };
            let piece = fx.read(query::AllMessages { scope: fx.scope(), filter }).await;
            assert!(piece.rows.iter().all(|row| row.application.id == row.message.application));
            assert!(piece.rows.iter().all(|row| row.message.payload.is_none()), "payloads are not read");
            found.extend(piece.rows.iter().map(|row| (row.application.id, row.message.id)));
            after = found.last().map(|(_, id)| *id);
            if piece.rows.len() < limit {
                return found;
            }
        }
    };
    for limit in [1, 2, 3, 50] {
        assert_eq!(list(None, None, Order::Ascending, limit).await, sent, "{limit}");
        assert_eq!(list(None, None, Order::Descending, limit).await, sent.iter().rev().copied().collect::<Vec<_>>());
    }
    assert_eq!(list(Some(name("t")), None, Order::Ascending, 2).await, [sent[0], sent[3], sent[6]]);
    assert_eq!(list(Some(name("u")), None, Order::Ascending, 2).await, []);
    assert_eq!(list(None, Some("%4"), Order::Descending, 1).await, [sent[4]], "a text in the payload");
    assert_eq!(list(None, Some("%7"), Order::Descending, 1).await, []);
    assert_eq!(list(Some(name("t")), Some("n"), Order::Ascending, 50).await, [sent[0], sent[3], sent[6]]);
}

async fn count(fx: &Fixture) -> OpenCounts {
    fx.read(query::CountOpen { scope: fx.scope() }).await
}

pub(super) async fn open_tasks_are_counted_by_state(fx: &Fixture) {
    assert_eq!(count(fx).await, OpenCounts::default());
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    for row in [NextRow::Dead, NextRow::Pending { due_in: HOUR }, NextRow::Gone] {
        fx.send().await;
        let leased = fx.lease_one(session).await;
        fx.end(&leased.task, session, row).await;
    }
    fx.send().await;
    fx.lease_one(session).await;
    fx.send().await;
    fx.send().await;
    fx.work().await;
    let counts = count(fx).await;
    let OpenCounts { pending, due, retrying, leased, dead, dead_jobs, oldest_due } = counts;
    assert_eq!((pending, due, leased, dead, dead_jobs), (4, 3, 1, 1, 0), "jobs are tasks, too");
    assert!(retrying == 1 && oldest_due.is_some(), "{counts:?}");
    fx.switch(endpoint, EndpointState::Disabled).await;
    let held = count(fx).await;
    assert_eq!((held.pending, held.due), (4, 1), "a held delivery waits, but is not due");
}

pub(super) async fn deliveries_of_one_endpoint_are_counted(fx: &Fixture) {
    let count = async |endpoint| {
        let scope = fx.scope();
        fx.read(query::CountLane { scope, endpoint }).await
    };
    let (endpoint, other) = (fx.endpoint().await, EndpointId(fx.id()));
    let session = fx.session().await;
    for row in [NextRow::Dead, NextRow::Pending { due_in: HOUR }, NextRow::Gone] {
        fx.send().await;
        let leased = fx.lease_one(session).await;
        fx.end(&leased.task, session, row).await;
    }
    assert_eq!(count(endpoint).await, LaneCounts { due: 0, dead: 1, oldest_due: None });
    fx.send().await;
    fx.send().await;
    let LaneCounts { due, dead, oldest_due } = count(endpoint).await;
    assert!((due, dead) == (2, 1) && oldest_due.is_some(), "{due} {dead} {oldest_due:?}");
    assert_eq!(count(other).await, LaneCounts::default());
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert_eq!(count(endpoint).await, LaneCounts { due: 0, dead: 1, oldest_due: None }, "held deliveries are not due");
}
