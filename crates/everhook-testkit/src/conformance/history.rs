//! Messages and attempts are found by all their filters, in their own environment only.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, MessageId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::message::{Message, Rest};
use everhook_core::outcome::Class;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order, Slice};
use everhook_store::delivery::{Content, DeliveryFilter, EndpointCounts, Period};
use everhook_store::history::{Attempt, AttemptFilter, AttemptResult, AttemptsOf, Expunge, MessageFilter};
use everhook_store::lease::{Append, Appended, NewMessage, Settled};
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::{Reads, Resources};

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, new_application};

fn slice<K>(order: Order) -> Slice<K> {
    Slice { after: None, order, limit: PLENTY }
}

fn messages() -> MessageFilter {
    let slice = slice(Order::Ascending);
    MessageFilter {
        slice,
        before: None,
        after: None,
        channel: None,
        tag: None,
        event_types: Vec::new(),
        text: None,
        scan: PLENTY,
    }
}

fn attempts(of: AttemptsOf) -> AttemptFilter {
    AttemptFilter {
        of,
        slice: slice(Order::Ascending),
        result: None,
        status_class: None,
        before: None,
        after: None,
        channel: None,
        tag: None,
        event_types: Vec::new(),
        scan: PLENTY,
    }
}

async fn append(fx: &Fixture, new: NewMessage) -> Message {
    match fx.append_one(None, new).await {
        Appended::Accepted { message, .. } => Message::clone(&message),
        other => panic!("{other:?}"),
    }
}

fn labelled(fx: &Fixture, event_type: &str, channels: &[&str], tags: &[&str]) -> NewMessage {
    let mut new = fx.message();
    new.message.event_type = name(event_type);
    new.message.channels = channels.iter().map(|text| name(text)).collect();
    new.message.tags = tags.iter().map(|text| name(text)).collect();
    new
}

pub(super) async fn a_message_is_found_by_id_and_event_id_exactly_as_accepted(fx: &Fixture) {
    let mut new = fx.message_with_event_id("e");
    new.message.channels = vec![name("x"), name("y")];
    new.message.tags = vec![name("t")];
    new.message.payload = Some(Bytes::from_static(b"{ \"a\" : 1e2,\n\"b\":\"\\u0000\" }"));
    let sent = append(fx, new).await;
    let find = async |environment, application, locator| {
        fx.other.read(query::FindMessage { scope: AppScope::of(environment, application), locator }).await.unwrap()
    };
    let (by_id, by_event) = (Locator::Id(sent.id), Locator::Uid(name("e")));
    assert_eq!(find(fx.here, fx.application, by_id.clone()).await.as_ref(), Some(&sent));
    assert_eq!(find(fx.here, fx.application, by_event.clone()).await.as_ref(), Some(&sent));
    assert_eq!(find(fx.here, fx.application, Locator::Uid(name("f"))).await, None);
    assert_eq!(find(fx.here, fx.application, Locator::Id(MessageId(fx.id()))).await, None);
    for locator in [by_id.clone(), by_event.clone()] {
        assert_eq!(find(fx.here, ApplicationId(fx.id()), locator.clone()).await, None);
        let there = find(fx.there, fx.application, locator).await.expect("its twin");
        assert_eq!(there.id, sent.id);
        assert_ne!(there.payload, sent.payload);
    }
}

pub(super) async fn messages_are_found_by_type_channel_and_tag(fx: &Fixture) {
    let plain = append(fx, labelled(fx, "a", &[], &[])).await.id;
    let x = append(fx, labelled(fx, "a", &["x", "y"], &["t"])).await.id;
    let xx = append(fx, labelled(fx, "b", &["xx"], &["t", "u"])).await.id;
    let list = async |filter: MessageFilter| {
        let list = fx
            .other
            .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
            .await
            .unwrap()
            .rows;
        list.iter().map(|message| message.id).collect::<Vec<_>>()
    };
    assert_eq!(list(messages()).await, [plain, x, xx]);
    assert_eq!(list(MessageFilter { channel: Some(name("x")), ..messages() }).await, [x], "whole names only");
    assert_eq!(list(MessageFilter { tag: Some(name("t")), ..messages() }).await, [x, xx]);
    assert_eq!(list(MessageFilter { event_types: vec![name("a")], ..messages() }).await, [plain, x]);
    assert_eq!(list(MessageFilter { event_types: vec![name("a"), name("b")], ..messages() }).await, [plain, x, xx]);
    let both = MessageFilter { event_types: vec![name("a")], tag: Some(name("t")), ..messages() };
    assert_eq!(list(both).await, [x]);
    assert_eq!(list(MessageFilter { channel: Some(name("t")), ..messages() }).await, []);
}

pub(super) async fn messages_are_found_by_a_text_in_their_payload(fx: &Fixture) {
    let send = async |payload: &'static [u8]| {
        let new = labelled(fx, "a", &[], &["t"]);
        append(fx, NewMessage { message: Message { payload: Some(payload.into()), ..new.message }, ..new }).await.id
    };
    let (first, second) = (send(br#"{"to":"S\u00f6hne","n":100}"#).await, send("{\"to\":\"Söhne\"}".as_bytes()).await);
    let list = async |text: &str, scan| {
        let filter = MessageFilter { text: Some(text.to_owned()), scan, ..messages() };
        let scope = AppScope::of(fx.here, fx.application);
        let piece = fx.other.read(query::Messages { scope, filter }).await.unwrap();
        (piece.rows.iter().map(|message| message.id).collect::<Vec<_>>(), piece.next)
    };
    assert_eq!(list("to", PLENTY).await, (vec![first, second], None));
    assert_eq!(list("Söhne", PLENTY).await, (vec![second], None), "the accepted bytes are searched");
    assert_eq!(list(r"S\u00f6hne", PLENTY).await, (vec![first], None));
    assert_eq!(list("söhne", PLENTY).await, (vec![], None), "case matters");
    assert_eq!(list("%", PLENTY).await, (vec![], None), "no pattern");
    assert_eq!(list("Söhne", 1).await, (vec![], Some(first)), "a search reads a bounded number of rows");
    let what = Expunge::Message(second);
    assert!(fx.store.expunge(AppScope::of(fx.here, fx.application), what).await.unwrap());
    assert_eq!(list("Söhne", PLENTY).await, (vec![], None), "a removed payload has no text");
}

pub(super) async fn messages_are_found_by_time(fx: &Fixture) {
    let sent = fx.send().await;
    let now = fx.store.now().await.unwrap();
    let list = async |before, after| {
        let filter = MessageFilter { before, after, ..messages() };
        let list = fx
            .other
            .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
            .await
            .unwrap()
            .rows;
        list.iter().map(|message| message.id).collect::<Vec<_>>()
    };
    let (past, future) = (Some(now.minus(HOUR)), Some(now.plus(HOUR)));
    assert_eq!(list(future, past).await, [sent]);
    assert_eq!(list(past, None).await, []);
    assert_eq!(list(None, future).await, []);
    let found = fx
        .other
        .read(query::FindMessage { scope: AppScope::of(fx.here, fx.application), locator: Locator::Id(sent) })
        .await
        .unwrap();
    let exactly = Some(found.expect("it was sent").created_at);
    assert_eq!(list(None, exactly).await, [sent], "the time itself is not too early");
    assert_eq!(list(exactly, None).await, [], "the time itself is too late");
}

pub(super) async fn messages_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let mut want = Vec::new();
    for _ in 0..5 {
        want.push(fx.send().await);
    }
    let stranger = ApplicationId(fx.id());
    for environment in [fx.here, fx.there] {
        fx.store.create(Scope::of(environment), new_application(stranger), None).await.unwrap();
    }
    let mut other = fx.message();
    other.message.application = stranger;
    append(fx, other).await;
    let pages = async |order: Order| {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let filter = MessageFilter { slice: Slice { after, order, limit: 2 }, ..messages() };
            let page = fx
                .other
                .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
                .await
                .unwrap()
                .rows;
            let Some(last) = page.last() else { return ids };
            after = Some(last.id);
            ids.extend(page.iter().map(|message| message.id));
        }
    };
    assert_eq!(pages(Order::Ascending).await, want);
    want.reverse();
    assert_eq!(pages(Order::Descending).await, want);
}

pub(super) async fn a_list_of_large_messages_ends_early_and_goes_on(fx: &Fixture) {
    let mut want = Vec::new();
    for _ in 0..7 {
        let mut new = fx.message();
        new.message.payload = Some(Bytes::from(vec![b'x'; PAGE_BYTES_MAX / 3]));
        want.push(append(fx, new).await.id);
    }
    for order in [Order::Ascending, Order::Descending] {
        let (mut ids, mut pieces, mut after) = (Vec::new(), 0, None);
        loop {
            let filter = MessageFilter { slice: Slice { after, order, limit: PLENTY }, ..messages() };
            let piece = fx
                .other
                .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
                .await
                .unwrap();
            assert!(piece.rows.len() <= 4, "{} rows have more bytes than a page", piece.rows.len());
            ids.extend(piece.rows.iter().map(|message| message.id));
            pieces += 1;
            after = piece.next;
            if after.is_none() {
                break;
            }
            assert_eq!(after, ids.last().copied(), "it goes on behind the last row");
        }
        assert_eq!((&ids, pieces), (&want, 2));
        want.reverse();
    }
    let filter = MessageFilter { slice: Slice { after: None, order: Order::Ascending, limit: 2 }, ..messages() };
    let piece = fx
        .other
        .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
        .await
        .unwrap();
    assert_eq!((piece.rows.len(), piece.next), (2, None), "all that were asked for");
}

/// Reads a whole list of messages, two rows at a time.
async fn scanned(fx: &Fixture, order: Order, filter: &MessageFilter) -> (Vec<MessageId>, usize) {
    let (mut ids, mut pieces, mut after) = (Vec::new(), 0, None);
    loop {
        let filter = MessageFilter { slice: Slice { after, order, limit: PLENTY }, scan: 2, ..filter.clone() };
        let piece = fx
            .other
            .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
            .await
            .unwrap();
        assert!(piece.rows.len() <= 2, "{piece:?}");
        ids.extend(piece.rows.iter().map(|message| message.id));
        pieces += 1;
        assert!(pieces <= PLENTY, "it always goes on");
        match piece.next {
            Some(next) => after = Some(next),
            None => return (ids, pieces),
        }
    }
}

pub(super) async fn a_search_of_messages_looks_at_a_few_and_goes_on(fx: &Fixture) {
    let mut wanted = Vec::new();
    for number in 0..7 {
        let tags: &[&str] = if number % 3 == 0 { &["t"] } else { &[] };
        let id = append(fx, labelled(fx, "a", &[], tags)).await.id;
        wanted.extend((number % 3 == 0).then_some(id));
    }
    let by_tag = MessageFilter { tag: Some(name("t")), ..messages() };
    for order in [Order::Ascending, Order::Descending] {
        assert_eq!(scanned(fx, order, &by_tag).await, (wanted.clone(), 4), "{order:?}");
        wanted.reverse();
    }
    let none = MessageFilter { tag: Some(name("u")), ..messages() };
    assert_eq!(scanned(fx, Order::Descending, &none).await, (Vec::new(), 4), "empty pieces go on as well");
    let all = MessageFilter { scan: 2, ..messages() };
    let piece = fx
        .other
        .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: all.clone() })
        .await
        .unwrap();
    assert_eq!((piece.rows.len(), piece.next), (7, None), "without a filter every row that is looked at is shown");
}

pub(super) async fn a_search_of_attempts_looks_at_a_few_and_goes_on(fx: &Fixture) {
    let Tried { endpoints, attempts: [_, two, _, four], .. } = tried(fx).await;
    let failed = AttemptFilter { status_class: Some(300), scan: 2, ..attempts(AttemptsOf::Endpoint(endpoints[0])) };
    let piece = fx
        .other
        .read(query::Attempts { scope: AppScope::of(fx.here, fx.application), filter: failed.clone() })
        .await
        .unwrap();
    assert_eq!((piece.rows.len(), piece.next), (0, Some(two)));
    let slice = Slice { after: Some(two), order: Order::Ascending, limit: PLENTY };
    let piece = fx
        .other
        .read(query::Attempts {
            scope: AppScope::of(fx.here, fx.application),
            filter: AttemptFilter { slice, ..failed },
        })
        .await
        .unwrap();
    let ids: Vec<_> = piece.rows.iter().map(|attempt| attempt.id).collect();
    assert_eq!((ids, piece.next), (vec![four], None));
}

pub(super) async fn a_message_whose_payload_was_erased_is_still_listed(fx: &Fixture) {
    let mut new = fx.message();
    new.message.rest.payload_until = Some(fx.store.now().await.unwrap().minus(HOUR));
    let sent = append(fx, new).await;
    let scope = AppScope::of(fx.here, fx.application);
    let find = async || fx.other.read(query::FindMessage { scope, locator: Locator::Id(sent.id) }).await.unwrap();
    assert_eq!(find().await.expect("it was just sent").payload, sent.payload, "nothing is erased without a prune");
    let prune = Prune { what: Prunable::Payloads, before: Timestamp::default(), limit: PLENTY };
    fx.store.prune(prune).await.unwrap();
    let erased = Message { payload: None, ..sent.clone() };
    assert_eq!(find().await.as_ref(), Some(&erased));
    assert_eq!(fx.other.read(query::Messages { scope, filter: messages() }).await.unwrap().rows, [erased]);
}

pub(super) async fn a_message_keeps_what_few_others_have(fx: &Fixture) {
    fx.endpoint().await;
    let mut new = fx.message();
    let at = Timestamp::from_micros(1_614_265_330_123_456);
    new.message.rest = Rest {
        deliver_at: Some(at),
        payload_until: Some(at.plus(HOUR)),
        content_type: Some("text/csv".to_owned()),
        redrive_of: Some(MessageId(fx.id())),
        trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok(),
    };
    let sent = append(fx, new.clone()).await;
    assert_eq!(sent.rest, new.message.rest);
    let found = fx
        .other
        .read(query::FindMessage { scope: AppScope::of(fx.here, fx.application), locator: Locator::Id(sent.id) })
        .await
        .unwrap();
    assert_eq!(found, Some(sent.clone()));
    let list = fx
        .other
        .read(query::Messages { scope: AppScope::of(fx.here, fx.application), filter: messages() })
        .await
        .unwrap();
    assert_eq!(list.rows, std::slice::from_ref(&sent));
    let leased = fx.lease(fx.session().await).await;
    assert_eq!(leased[0].message().map(|message| &**message), Some(&sent), "whoever sends it knows");
}

pub(super) async fn a_payload_is_removed_for_good(fx: &Fixture) {
    let sent = append(fx, fx.message()).await;
    for _ in 0..2 {
        assert!(fx.store.expunge(AppScope::of(fx.here, fx.application), Expunge::Message(sent.id)).await.unwrap());
    }
    assert!(
        !fx.store.expunge(AppScope::of(fx.here, fx.application), Expunge::Message(MessageId(fx.id()))).await.unwrap()
    );
    assert!(!fx.store.expunge(AppScope::of(fx.here, ApplicationId(fx.id())), Expunge::Message(sent.id)).await.unwrap());
    let find = async |environment| {
        let found = fx
            .other
            .read(query::FindMessage {
                scope: AppScope::of(environment, fx.application),
                locator: Locator::Id(sent.id),
            })
            .await
            .unwrap();
        found.expect("the message itself stays")
    };
    assert_eq!(find(fx.here).await, Message { payload: None, ..sent.clone() });
    assert!(find(fx.there).await.payload.is_some());
}

/// Two endpoints and two messages with the following attempts, in the order of their ids.
struct Tried {
    endpoints: [EndpointId; 2],
    messages: [MessageId; 2],
    /// The first message to the first endpoint: 500, then 204. To the second: no answer, dead. The second message to
    /// the first endpoint: 302, dead.
    attempts: [AttemptId; 4],
}

async fn tried(fx: &Fixture) -> Tried {
    let first = fx.endpoint().await;
    let second = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("a").into()])).await;
    let a = append(fx, labelled(fx, "a", &["x"], &["t"])).await.id;
    let session = fx.session().await;
    let mut ids = Vec::new();
    let mut attempt = async |message: MessageId, endpoint: EndpointId, class, status, row, end| {
        let leased = fx.lease(session).await.into_iter().map(|leased| leased.task).collect::<Vec<_>>();
        for task in leased {
            let wanted = task.key.subject == message.0 && task.lane == endpoint.lane();
            let mut settlement = fx.settlement(&task, session, row);
            if wanted {
                let attempt = settlement.attempt.as_mut().expect("it is logged");
                (attempt.class, attempt.status, attempt.end) = (class, status, end);
                ids.push(attempt.id);
            } else {
                settlement.attempt = None;
                settlement.row = NextRow::Pending { due_in: Duration::ZERO };
            }
            assert_eq!(fx.settle(&settlement).await, Settled::Done);
        }
    };
    let now = NextRow::Pending { due_in: Duration::ZERO };
    attempt(a, first, Class::Status, 500, now, EndState::Open).await;
    attempt(a, first, Class::Success, 204, NextRow::Gone, EndState::Succeeded).await;
    attempt(a, second, Class::Connect, 0, NextRow::Dead, EndState::Dead).await;
    let b = append(fx, labelled(fx, "b", &["xx"], &["u"])).await.id;
    attempt(b, first, Class::Status, 302, NextRow::Dead, EndState::Dead).await;
    let attempts = ids.try_into().expect("four attempts");
    Tried { endpoints: [first, second], messages: [a, b], attempts }
}

async fn list(fx: &Fixture, filter: AttemptFilter) -> Vec<AttemptId> {
    let list = fx
        .other
        .read(query::Attempts { scope: AppScope::of(fx.here, fx.application), filter: filter.clone() })
        .await
        .unwrap()
        .rows;
    list.iter().map(|attempt| attempt.id).collect()
}

pub(super) async fn attempts_are_found_by_message_and_endpoint(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[0], None))).await, [one, two, three]);
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[0], Some(endpoints[0])))).await, [one, two]);
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[1], Some(endpoints[1])))).await, []);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(endpoints[0]))).await, [one, two, four]);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(endpoints[1]))).await, [three]);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(EndpointId(fx.id())))).await, []);
    let there = attempts(AttemptsOf::Endpoint(endpoints[0]));
    assert_eq!(
        fx.other
            .read(query::Attempts { scope: AppScope::of(fx.there, fx.application), filter: there.clone() })
            .await
            .unwrap()
            .rows,
        []
    );
}

pub(super) async fn attempts_are_found_by_result_and_status(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    let of_endpoint = || attempts(AttemptsOf::Endpoint(endpoints[0]));
    let of_message = || attempts(AttemptsOf::Message(messages[0], None));
    let with = |result| AttemptFilter { result: Some(result), ..of_endpoint() };
    assert_eq!(list(fx, with(AttemptResult::Succeeded)).await, [two]);
    assert_eq!(list(fx, with(AttemptResult::Failed)).await, [one, four]);
    let with = |status| AttemptFilter { status_class: Some(status), ..of_message() };
    assert_eq!(list(fx, with(500)).await, [one]);
    assert_eq!(list(fx, with(200)).await, [two]);
    assert_eq!(list(fx, with(0)).await, [three], "no status at all");
    assert_eq!(list(fx, with(400)).await, []);
    assert_eq!(list(fx, AttemptFilter { status_class: Some(300), ..of_endpoint() }).await, [four]);
}

pub(super) async fn attempts_are_found_by_what_their_message_is(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    for (of, expected) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        let all = || attempts(of);
        assert_eq!(list(fx, AttemptFilter { channel: Some(name("x")), ..all() }).await, expected);
        assert_eq!(list(fx, AttemptFilter { tag: Some(name("t")), ..all() }).await, expected);
        assert_eq!(list(fx, AttemptFilter { event_types: vec![name("a")], ..all() }).await, expected);
    }
    let all = || attempts(AttemptsOf::Endpoint(endpoints[0]));
    assert_eq!(list(fx, AttemptFilter { event_types: vec![name("b"), name("c")], ..all() }).await, [four]);
    assert_eq!(list(fx, AttemptFilter { tag: Some(name("x")), ..all() }).await, []);
}

pub(super) async fn attempts_are_found_by_time(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    let now = fx.store.now().await.unwrap();
    let (past, future) = (Some(now.minus(HOUR)), Some(now.plus(HOUR)));
    for (of, all) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two, four]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        assert_eq!(list(fx, AttemptFilter { before: future, after: past, ..attempts(of) }).await, all);
        assert_eq!(list(fx, AttemptFilter { before: past, ..attempts(of) }).await, []);
        assert_eq!(list(fx, AttemptFilter { after: future, ..attempts(of) }).await, []);
    }
}

pub(super) async fn attempts_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    for (of, mut want) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two, four]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        for order in [Order::Ascending, Order::Descending] {
            let (mut ids, mut after) = (Vec::new(), None);
            loop {
                let slice = Slice { after, order, limit: 2 };
                let page = list(fx, AttemptFilter { slice, ..attempts(of) }).await;
                let Some(last) = page.last() else { break };
                after = Some(*last);
                ids.extend(page);
            }
            assert_eq!(ids, want);
            want.reverse();
        }
    }
}

pub(super) async fn an_attempt_is_found_in_its_message_and_its_reply_removed(fx: &Fixture) {
    let Tried { messages, attempts: [one, two, ..], .. } = tried(fx).await;
    let find =
        async |message, id| fx.other.read(query::FindAttempt { scope: Scope::of(fx.here), message, id }).await.unwrap();
    let seen = find(messages[0], one).await.expect("it is there");
    assert_eq!((seen.id, seen.message, seen.status), (one, messages[0], 500));
    assert!(!seen.reply.is_empty());
    assert_eq!(seen.exchange, Some(super::fixture::exchange()));
    assert_eq!(find(messages[1], one).await, None);
    assert_eq!(find(messages[0], AttemptId(fx.id())).await, None);
    assert_eq!(
        fx.other.read(query::FindAttempt { scope: Scope::of(fx.there), message: messages[0], id: one }).await.unwrap(),
        None
    );
    assert!(
        !fx.store
            .expunge(AppScope::of(fx.there, fx.application), Expunge::Attempt { message: messages[0], id: one })
            .await
            .unwrap()
    );
    assert!(
        !fx.store
            .expunge(AppScope::of(fx.here, fx.application), Expunge::Attempt { message: messages[1], id: one })
            .await
            .unwrap()
    );
    for _ in 0..2 {
        assert!(
            fx.store
                .expunge(AppScope::of(fx.here, fx.application), Expunge::Attempt { message: messages[0], id: one })
                .await
                .unwrap()
        );
    }
    assert_eq!(
        find(messages[0], one).await,
        Some(Attempt { reply: Bytes::from_static(b"EXPUNGED"), exchange: None, ..seen })
    );
    assert!(!find(messages[0], two).await.expect("it is there").reply.is_empty());
}

pub(super) async fn a_message_that_could_not_be_written_claims_no_slot(fx: &Fixture) {
    let taken = fx.send().await;
    let claim = |id| {
        let mut new = fx.message_once("k", None);
        new.message.id = id;
        Append { fast: None, messages: vec![new] }
    };
    // Two messages cannot have the same id. If writing the message fails, its claim of the slot is undone, too.
    assert!(fx.store.append(claim(taken)).await.is_err());
    assert_eq!(
        fx.other.read(query::FindOnce { scope: AppScope::of(fx.here, fx.application), key: name("k") }).await.unwrap(),
        None
    );
    let answers = fx.store.append(claim(MessageId(fx.id()))).await.unwrap();
    assert!(matches!(answers[..], [Appended::Accepted { .. }]), "{answers:?}");
    fx.other.reset_once(AppScope::of(fx.here, fx.application), name("k")).await.unwrap();
    assert!(fx.store.append(claim(taken)).await.is_err());
    let found =
        fx.other.read(query::FindOnce { scope: AppScope::of(fx.here, fx.application), key: name("k") }).await.unwrap();
    assert!(found.is_some_and(|found| found.slot.is_open()), "the phase is still to be had");
}

pub(super) async fn deliveries_are_listed_with_payloads_up_to_the_bytes_of_a_page(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let payload = Bytes::from(format!("{{\"a\":\"{}\"}}", "x".repeat(PAGE_BYTES_MAX / 2)));
    let mut sent = Vec::new();
    for _ in 0..4 {
        let mut new = fx.message();
        new.message.payload = Some(payload.clone());
        sent.push(append(fx, new).await.id);
    }
    let mut after = None;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let slice = Slice { after, order: Order::Ascending, limit: PLENTY };
        let filter = DeliveryFilter {
            endpoint: Some(endpoint),
            content: Content::WithPayload,
            ..DeliveryFilter::of(Some(fx.application), slice, PLENTY)
        };
        let piece = fx.other.read(query::Deliveries { scope: Scope::of(fx.here), filter }).await.unwrap();
        assert!(piece.rows.iter().all(|row| row.message.payload.as_ref() == Some(&payload)));
        assert!(piece.rows.len() < 4, "four are more than a page");
        seen.extend(piece.rows.iter().map(|row| row.message.id));
        after = piece.next;
    }
    assert_eq!(seen, sent);
}

pub(super) async fn the_attempts_of_an_endpoint_are_counted_by_result(fx: &Fixture) {
    let (endpoint, other) = (fx.endpoint().await, fx.endpoint().await);
    let session = fx.session().await;
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(fx.send().await);
    }
    for leased in fx.lease(session).await {
        let row = if leased.task.key.subject == sent[0].0 { NextRow::Gone } else { NextRow::Dead };
        fx.end(&leased.task, session, row).await;
    }
    fx.send().await;
    fx.lease(session).await;
    fx.send().await;
    let count = async |endpoint, since: Timestamp, until: Timestamp| {
        let (scope, period) = (Scope::of(fx.here), Period { since, until });
        fx.other.read(query::CountEndpoint { scope, endpoint, period }).await.unwrap()
    };
    let now = fx.store.now().await.unwrap();
    let want = EndpointCounts { succeeded: 1, failed: 2, cancelled: 0, pending: 1, sending: 1, is_capped: false };
    assert_eq!(count(endpoint, now.minus(HOUR), now.plus(HOUR)).await, want);
    assert_eq!(count(other, now.minus(HOUR), now.plus(HOUR)).await, want);
    let earlier = count(endpoint, now.minus(2 * HOUR), now.minus(HOUR)).await;
    assert_eq!((earlier.succeeded, earlier.failed), (0, 0));
    let none = count(EndpointId(fx.id()), now.minus(HOUR), now.plus(HOUR)).await;
    assert_eq!(none, EndpointCounts::default());
}
