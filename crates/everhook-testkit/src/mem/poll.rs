//! Messages of polled endpoints, and the positions of their readers.

use everhook_core::id::{EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::POLL_CONSUMERS_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::poll::{PollMark, resume};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::poll::{PollAsk, PollRange, PollReader, Polled, SeekAsk, since};

use crate::mem::tables::{ConsumerRow, PolledRow, Tables};

type PollerKey = (EnvironmentId, EndpointId);

pub(super) fn add(tables: &mut Tables, poller: PollerKey, message: MessageId, due_at: Timestamp) {
    tables.polled.insert((poller.0, poller.1, message), PolledRow { position: None, due_at });
}

pub(super) fn poll(tables: &mut Tables, now: Timestamp, scope: AppScope, ask: &PollAsk) -> Polled {
    let poller = (scope.environment, ask.endpoint);
    order(tables, now, poller);
    let mark = match &ask.reader {
        PollReader::From(mark) => *mark,
        PollReader::Since(after) => PollMark { position: position_since(tables, poller, *after), generation: 0 },
        PollReader::Consumer { name, confirmed } => {
            let known = find_consumer(tables, poller, name);
            let Ok(mark) = resume(known, *confirmed) else { return Polled::OutOfStep };
            if known.is_none() && has_all_consumers(tables, poller) {
                return Polled::TooManyConsumers;
            }
            put_consumer(tables, poller, name, mark, now);
            mark
        }
    };
    let range = PollRange::new(mark.position, bounds(tables, poller));
    let mut rows: Vec<(i64, Message)> = positions(tables, poller)
        .filter(|(position, _)| *position > range.after && *position <= range.until)
        .filter_map(|(position, id)| {
            let message = tables.messages.get(&(scope.environment, scope.application, id))?;
            Some((position, Message::clone(message)))
        })
        .filter(|(_, message)| ask.event_type.as_ref().is_none_or(|wanted| *wanted == message.event_type))
        .filter(|(_, message)| ask.channel.as_ref().is_none_or(|wanted| message.channels.contains(wanted)))
        .collect();
    rows.sort_by_key(|(position, _)| *position);
    rows.truncate(ask.limit);
    let is_cut = rows.len() == ask.limit;
    Polled::Page(range.page(rows, is_cut, mark.generation))
}

pub(super) fn seek(tables: &mut Tables, now: Timestamp, scope: AppScope, ask: &SeekAsk) -> Option<PollMark> {
    let poller = (scope.environment, ask.endpoint);
    order(tables, now, poller);
    let position = position_since(tables, poller, ask.after);
    let known = find_consumer(tables, poller, &ask.consumer);
    if known.is_none() && has_all_consumers(tables, poller) {
        return None;
    }
    let mark = PollMark { position, generation: known.unwrap_or_default().generation + 1 };
    put_consumer(tables, poller, &ask.consumer, mark, now);
    Some(mark)
}

/// Gives positions to due messages.
fn order(tables: &mut Tables, now: Timestamp, poller: PollerKey) {
    let of_poller = |key: &(EnvironmentId, EndpointId, MessageId)| (key.0, key.1) == poller;
    let is_due = |row: &PolledRow| row.position.is_none() && row.due_at <= now;
    let due = tables.polled.iter().filter(|(key, row)| of_poller(key) && is_due(row));
    let mut due: Vec<_> = due.map(|(key, row)| (row.due_at, *key)).collect();
    due.sort();
    for (_, key) in due {
        let last = tables.pollers.entry(poller).or_default();
        *last += 1;
        let position = Some(*last);
        tables.polled.entry(key).and_modify(|row| row.position = position);
    }
}

fn positions(tables: &Tables, poller: PollerKey) -> impl Iterator<Item = (i64, MessageId)> {
    let rows = tables.polled.iter().filter(move |(key, _)| (key.0, key.1) == poller);
    rows.filter_map(|(key, row)| Some((row.position?, key.2)))
}

fn bounds(tables: &Tables, poller: PollerKey) -> Option<(Option<i64>, i64)> {
    let last = *tables.pollers.get(&poller)?;
    Some((positions(tables, poller).map(|(position, _)| position).min(), last))
}

fn position_since(tables: &Tables, poller: PollerKey, after: Timestamp) -> i64 {
    let near = positions(tables, poller).filter(|(_, message)| message.0 >= Id::floor(after));
    since(near.map(|(position, _)| position).min(), bounds(tables, poller))
}

fn find_consumer(tables: &Tables, poller: PollerKey, name: &Name) -> Option<PollMark> {
    tables.consumers.get(&(poller.0, poller.1, name.clone())).map(|row| row.mark)
}

fn has_all_consumers(tables: &Tables, poller: PollerKey) -> bool {
    tables.consumers.keys().filter(|key| (key.0, key.1) == poller).count() >= POLL_CONSUMERS_MAX
}

fn put_consumer(tables: &mut Tables, poller: PollerKey, name: &Name, mark: PollMark, now: Timestamp) {
    tables.consumers.insert((poller.0, poller.1, name.clone()), ConsumerRow { mark, used_at: now });
}
