//! Messages are found by all their filters, in their own environment only.

use bytes::Bytes;
use everhook_core::id::{ApplicationId, MessageId};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::message::{Message, Rest};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order, Slice};
use everhook_store::delivery::{Content, DeliveryFilter};
use everhook_store::history::{Expunge, MessageFilter};
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, new_application, pages};

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

pub(super) async fn append(fx: &Fixture, new: NewMessage) -> Message {
    match fx.append_one(None, new).await {
        Appended::Accepted { message, .. } => Message::clone(&message),
        other => panic!("{other:?}"),
    }
}

pub(super) fn labelled(fx: &Fixture, event_type: &str, channels: &[&str], tags: &[&str]) -> NewMessage {
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
        fx.read(query::FindMessage { scope: AppScope::of(environment, application), locator }).await
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
        let list = fx.read(query::Messages { scope: fx.app_scope(), filter: filter.clone() }).await.rows;
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
        let scope = fx.app_scope();
        let piece = fx.read(query::Messages { scope, filter }).await;
        (piece.rows.iter().map(|message| message.id).collect::<Vec<_>>(), piece.next)
    };
    assert_eq!(list("to", PLENTY).await, (vec![first, second], None));
    assert_eq!(list("Söhne", PLENTY).await, (vec![second], None), "the accepted bytes are searched");
    assert_eq!(list(r"S\u00f6hne", PLENTY).await, (vec![first], None));
    assert_eq!(list("söhne", PLENTY).await, (vec![], None), "case matters");
    assert_eq!(list("%", PLENTY).await, (vec![], None), "no pattern");
    assert_eq!(list("Söhne", 1).await, (vec![], Some(first)), "a search reads a bounded number of rows");
    let what = Expunge::Message(second);
    assert!(fx.store.expunge(fx.app_scope(), what).await.unwrap());
    assert_eq!(list("Söhne", PLENTY).await, (vec![], None), "a removed payload has no text");
}

pub(super) async fn messages_are_found_by_time(fx: &Fixture) {
    let sent = fx.send().await;
    let now = fx.store.now().await.unwrap();
    let list = async |before, after| {
        let filter = MessageFilter { before, after, ..messages() };
        let list = fx.read(query::Messages { scope: fx.app_scope(), filter: filter.clone() }).await.rows;
        list.iter().map(|message| message.id).collect::<Vec<_>>()
    };
    let (past, future) = (Some(now.minus(HOUR)), Some(now.plus(HOUR)));
    assert_eq!(list(future, past).await, [sent]);
    assert_eq!(list(past, None).await, []);
    assert_eq!(list(None, future).await, []);
    let found = fx.read(query::FindMessage { scope: fx.app_scope(), locator: Locator::Id(sent) }).await;
    let exactly = Some(found.expect("it was sent").created_at);
    assert_eq!(list(None, exactly).await, [sent], "the time itself is not too early");
    assert_eq!(list(exactly, None).await, [], "the time itself is too late");
}

pub(super) async fn messages_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let mut want = fx.send_many(5).await;
    let stranger = ApplicationId(fx.id());
    for environment in [fx.here, fx.there] {
        fx.store.create(Scope::of(environment), new_application(stranger), None).await.unwrap();
    }
    let mut other = fx.message();
    other.message.application = stranger;
    append(fx, other).await;
    let pages = async |order: Order| {
        let read = async |slice| {
            let filter = MessageFilter { slice, ..messages() };
            fx.read(query::Messages { scope: fx.app_scope(), filter }).await.rows
        };
        pages(Slice { after: None, order, limit: 2 }, |message: &Message| message.id, read).await
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
            let piece = fx.read(query::Messages { scope: fx.app_scope(), filter: filter.clone() }).await;
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
    let piece = fx.read(query::Messages { scope: fx.app_scope(), filter: filter.clone() }).await;
    assert_eq!((piece.rows.len(), piece.next), (2, None), "all that were asked for");
}

/// Reads a whole list of messages, two rows at a time.
async fn scanned(fx: &Fixture, order: Order, filter: &MessageFilter) -> (Vec<MessageId>, usize) {
    let (mut ids, mut pieces, mut after) = (Vec::new(), 0, None);
    loop {
        let filter = MessageFilter { slice: Slice { after, order, limit: PLENTY }, scan: 2, ..filter.clone() };
        let piece = fx.read(query::Messages { scope: fx.app_scope(), filter: filter.clone() }).await;
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
    let piece = fx.read(query::Messages { scope: fx.app_scope(), filter: all.clone() }).await;
    assert_eq!((piece.rows.len(), piece.next), (7, None), "without a filter every row that is looked at is shown");
}

pub(super) async fn a_message_whose_payload_was_erased_is_still_listed(fx: &Fixture) {
    let mut new = fx.message();
    new.message.rest.payload_until = Some(fx.store.now().await.unwrap().minus(HOUR));
    let sent = append(fx, new).await;
    let scope = fx.app_scope();
    let find = async || fx.read(query::FindMessage { scope, locator: Locator::Id(sent.id) }).await;
    assert_eq!(find().await.expect("it was just sent").payload, sent.payload, "nothing is erased without a prune");
    let prune = Prune { what: Prunable::Payloads, before: Timestamp::default(), limit: PLENTY };
    fx.store.prune(prune).await.unwrap();
    let erased = Message { payload: None, ..sent.clone() };
    assert_eq!(find().await.as_ref(), Some(&erased));
    assert_eq!(fx.read(query::Messages { scope, filter: messages() }).await.rows, [erased]);
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
    let found = fx.read(query::FindMessage { scope: fx.app_scope(), locator: Locator::Id(sent.id) }).await;
    assert_eq!(found, Some(sent.clone()));
    let list = fx.read(query::Messages { scope: fx.app_scope(), filter: messages() }).await;
    assert_eq!(list.rows, std::slice::from_ref(&sent));
    let leased = fx.lease(fx.session().await).await;
    assert_eq!(leased[0].message().map(|message| &**message), Some(&sent), "whoever sends it knows");
}

pub(super) async fn a_payload_is_removed_for_good(fx: &Fixture) {
    let sent = append(fx, fx.message()).await;
    for _ in 0..2 {
        assert!(fx.store.expunge(fx.app_scope(), Expunge::Message(sent.id)).await.unwrap());
    }
    assert!(!fx.store.expunge(fx.app_scope(), Expunge::Message(MessageId(fx.id()))).await.unwrap());
    assert!(!fx.store.expunge(AppScope::of(fx.here, ApplicationId(fx.id())), Expunge::Message(sent.id)).await.unwrap());
    let find = async |environment| {
        let found = fx
            .read(query::FindMessage {
                scope: AppScope::of(environment, fx.application),
                locator: Locator::Id(sent.id),
            })
            .await;
        found.expect("the message itself stays")
    };
    assert_eq!(find(fx.here).await, Message { payload: None, ..sent.clone() });
    assert!(find(fx.there).await.payload.is_some());
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
    assert_eq!(fx.read(query::FindOnce { scope: fx.app_scope(), key: name("k") }).await, None);
    let answers = fx.store.append(claim(MessageId(fx.id()))).await.unwrap();
    assert!(matches!(answers[..], [Appended::Accepted { .. }]), "{answers:?}");
    fx.other.reset_once(fx.app_scope(), name("k")).await.unwrap();
    assert!(fx.store.append(claim(taken)).await.is_err());
    let found = fx.read(query::FindOnce { scope: fx.app_scope(), key: name("k") }).await;
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
        let piece = fx.read(query::Deliveries { scope: fx.scope(), filter }).await;
        assert!(piece.rows.iter().all(|row| row.message.payload.as_ref() == Some(&payload)));
        assert!(piece.rows.len() < 4, "four are more than a page");
        seen.extend(piece.rows.iter().map(|row| row.message.id));
        after = piece.next;
    }
    assert_eq!(seen, sent);
}
