//! Polled endpoints: messages wait for readers, in an order that never changes behind a reader.

use everhook_core::endpoint::EndpointState;
use everhook_core::id::{EndpointId, MessageId};
use everhook_core::limits::POLL_CONSUMERS_MAX;
use everhook_core::poll::{POLL_URL, PollMark};
use everhook_core::time::Timestamp;
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::poll::{PollAsk, PollPage, PollReader, Polled, SeekAsk};
use everhook_store::retention::{Prunable, Prune};

use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast, name};

async fn poller(fx: &Fixture) -> EndpointId {
    fx.endpoint_with(|endpoint| endpoint.url = POLL_URL.to_owned()).await
}

/// Appends a message and returns its id.
async fn send(fx: &Fixture, new: NewMessage) -> MessageId {
    let id = new.message.id;
    let answer = fx.append_one(None, new).await;
    assert!(matches!(answer, Appended::Accepted { .. }), "{answer:?}");
    id
}

fn ask(endpoint: EndpointId, reader: PollReader, limit: usize) -> PollAsk {
    PollAsk { endpoint, reader, limit, event_type: None, channel: None }
}

fn by(consumer: &str, confirmed: Option<PollMark>) -> PollReader {
    PollReader::Consumer { name: name(consumer), confirmed }
}

async fn poll(fx: &Fixture, ask: PollAsk) -> Polled {
    fx.store.poll(fx.app_scope(), ask).await.unwrap()
}

async fn page(fx: &Fixture, ask: PollAsk) -> (Vec<MessageId>, PollMark, bool) {
    match poll(fx, ask).await {
        Polled::Page(PollPage { messages, mark, done }) => {
            (messages.into_iter().map(|message| message.id).collect(), mark, done)
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_polled_endpoint_keeps_messages_for_its_readers(fx: &Fixture) {
    let (endpoint, session) = (poller(fx).await, fx.session().await);
    let from = |mark, limit| ask(endpoint, PollReader::From(mark), limit);
    let (none, start, done) = page(fx, from(PollMark::default(), PLENTY)).await;
    assert_eq!((none.len(), done), (0, true));
    let mut sent = Vec::new();
    for _ in 0..3 {
        let new = fx.message();
        sent.push(new.message.id);
        let answer = fx.append_one(Some(fast(session, &FixedCapacity::of(5))), new).await;
        let Appended::Accepted { leased, pending: 0, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(leased.len(), 0, "nothing is sent to a polled endpoint");
    }
    assert_eq!(fx.lease(session).await.len(), 0);
    let (first, mark, done) = page(fx, from(start, 2)).await;
    assert_eq!((&first[..], done), (&sent[..2], false));
    assert_eq!(page(fx, from(start, 2)).await.0, first, "a page can be read again");
    let (second, mark, done) = page(fx, from(mark, 2)).await;
    assert_eq!((&second[..], done), (&sent[2..], true));
    assert_eq!(page(fx, from(mark, 2)).await, (Vec::new(), mark, true));
    sent.push(send(fx, fx.message()).await);
    assert_eq!(page(fx, from(mark, 2)).await.0, sent[3..]);
    fx.switch(endpoint, EndpointState::Disabled).await;
    send(fx, fx.message()).await;
    assert_eq!(page(fx, from(start, PLENTY)).await.0, sent, "a disabled endpoint gets nothing");
}

pub(super) async fn a_reader_may_choose_messages(fx: &Fixture) {
    let endpoint = poller(fx).await;
    let mut paid = fx.message();
    paid.message.event_type = name("paid");
    paid.message.channels = vec![name("red")];
    let (other, paid) = (send(fx, fx.message()).await, send(fx, paid).await);
    let now = fx.store.now().await.unwrap();
    let from = ask(endpoint, PollReader::From(PollMark::default()), PLENTY);
    let of_type = PollAsk { event_type: Some(name("paid")), ..from.clone() };
    let on_channel = PollAsk { channel: Some(name("red")), ..from.clone() };
    let (chosen, mark, done) = page(fx, of_type).await;
    assert_eq!((&chosen[..], done), (&[paid][..], true));
    assert_eq!(page(fx, ask(endpoint, PollReader::From(mark), PLENTY)).await.0, []);
    assert_eq!(page(fx, on_channel).await.0, [paid]);
    let since = |time| ask(endpoint, PollReader::Since(time), PLENTY);
    assert_eq!(page(fx, since(Timestamp::default())).await.0, [other, paid]);
    assert_eq!(page(fx, since(now.plus(HOUR))).await.0, []);
}

pub(super) async fn a_message_for_later_reaches_readers_later(fx: &Fixture) {
    let endpoint = poller(fx).await;
    let later = fx.store.now().await.unwrap().plus(HOUR);
    send(fx, NewMessage { deliver_at: Some(later), ..fx.message() }).await;
    let now = send(fx, fx.message()).await;
    let (seen, _, done) = page(fx, ask(endpoint, PollReader::From(PollMark::default()), PLENTY)).await;
    assert_eq!((&seen[..], done), (&[now][..], true));
}

pub(super) async fn a_consumer_continues_where_it_confirmed(fx: &Fixture) {
    let endpoint = poller(fx).await;
    let sent = [send(fx, fx.message()).await, send(fx, fx.message()).await, send(fx, fx.message()).await];
    let (first, mark, _) = page(fx, ask(endpoint, by("one", None), 2)).await;
    assert_eq!(first, sent[..2]);
    assert_eq!(page(fx, ask(endpoint, by("one", None), 2)).await.0, sent[..2], "an unconfirmed page comes again");
    let (rest, end, done) = page(fx, ask(endpoint, by("one", Some(mark)), 2)).await;
    assert_eq!((&rest[..], done), (&sent[2..], true));
    page(fx, ask(endpoint, by("one", Some(end)), 2)).await;
    assert_eq!(page(fx, ask(endpoint, by("one", None), 2)).await.0, []);
    assert_eq!(page(fx, ask(endpoint, by("two", None), PLENTY)).await.0, sent, "consumers do not meet");

    let seek = async |after| {
        let seek = SeekAsk { endpoint, consumer: name("one"), after };
        fx.other.seek(fx.app_scope(), seek).await.unwrap().unwrap()
    };
    let sought = seek(Timestamp::default()).await;
    assert_eq!(poll(fx, ask(endpoint, by("one", Some(end)), 2)).await, Polled::OutOfStep);
    assert_eq!(page(fx, ask(endpoint, by("one", None), PLENTY)).await.0, sent);
    assert_eq!(page(fx, ask(endpoint, by("one", Some(sought)), PLENTY)).await.0, sent);
    seek(fx.store.now().await.unwrap().plus(HOUR)).await;
    assert_eq!(page(fx, ask(endpoint, by("one", None), PLENTY)).await.0, []);
}

pub(super) async fn a_poller_has_a_bounded_number_of_consumers(fx: &Fixture) {
    let endpoint = poller(fx).await;
    for number in 0..POLL_CONSUMERS_MAX {
        page(fx, ask(endpoint, by(&format!("c{number}"), None), 1)).await;
    }
    assert_eq!(poll(fx, ask(endpoint, by("more", None), 1)).await, Polled::TooManyConsumers);
    let seek = SeekAsk { endpoint, consumer: name("more"), after: Timestamp::default() };
    assert_eq!(fx.store.seek(fx.app_scope(), seek).await.unwrap(), None);
    page(fx, ask(endpoint, by("c0", None), 1)).await;
    let prune = |what, before| fx.store.prune(Prune { what, before, limit: 2 * PLENTY });
    let later = fx.store.now().await.unwrap().plus(HOUR);
    assert_eq!(prune(Prunable::PollConsumers, Timestamp::default()).await.unwrap(), 0);
    assert!(prune(Prunable::PollConsumers, later).await.unwrap() >= 100);
    page(fx, ask(endpoint, by("more", None), 1)).await;
}

pub(super) async fn pruned_entries_do_not_stop_a_reader(fx: &Fixture) {
    let endpoint = poller(fx).await;
    send(fx, fx.message()).await;
    let from = || ask(endpoint, PollReader::From(PollMark::default()), PLENTY);
    let (_, mark, _) = page(fx, from()).await;
    let prune = |what, before| fx.store.prune(Prune { what, before, limit: 2 * PLENTY });
    let later = fx.store.now().await.unwrap().plus(48 * HOUR);
    assert_eq!(prune(Prunable::Polled, Timestamp::default()).await.unwrap(), 0);
    assert!(prune(Prunable::Polled, later).await.unwrap() >= 1);
    assert_eq!(page(fx, from()).await, (Vec::new(), mark, true));
    let new = send(fx, fx.message()).await;
    assert_eq!(page(fx, ask(endpoint, PollReader::From(mark), PLENTY)).await.0, [new]);
}
