//! Messages of polled endpoints, and the positions of their readers, on the writer's thread.

use everhook_core::id::{EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::POLL_CONSUMERS_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::poll::{PollMark, resume};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::history::message_bytes;
use everhook_store::piece::Piece;
use everhook_store::poll::{
    ORDERED_MAX, PollAsk, PollPage, PollRange, PollReader, Polled, SEEK_NEIGHBOURS, SeekAsk, since,
};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    CountPollConsumer, FindPollConsumer, FindPolledBounds, FindPolledSince, FindPolledWaiting, LockPoller, POLLED_DUE,
    PutPollConsumer, PutPoller,
};
use everhook_store::statement;

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    pub(crate) AppendPolled = "append_polled" {
        environment: EnvironmentId, endpoint: EndpointId, message: MessageId, due_at: Timestamp,
    };
    OrderPolled = ["order_polled", POLLED_DUE] {
        environment: EnvironmentId, endpoint: EndpointId, now: Timestamp, base: i64, limit: usize,
    };
    ListPolled<'a> = "list_polled" {
        scope: AppScope, endpoint: EndpointId, after: i64, until: i64,
        channel: Option<&'a str>, event_type: Option<&'a str>, limit: usize,
    } -> Vec<(i64, Message)>;
}

pub(crate) fn poll(tx: &Tx<'_>, scope: AppScope, ask: &PollAsk) -> Result<Polled, Fault> {
    let poller = Poller { tx, environment: scope.environment, endpoint: ask.endpoint };
    let is_all = poller.order()?;
    let bounds = poller.bounds()?;
    let mark = match &ask.reader {
        PollReader::From(mark) => *mark,
        PollReader::Since(after) => PollMark { position: poller.position_since(*after, bounds)?, generation: 0 },
        PollReader::Consumer { name, confirmed } => {
            let known = poller.find_consumer(name)?;
            let Ok(mark) = resume(known, *confirmed) else { return Ok(Polled::OutOfStep) };
            if known.is_none() && poller.has_all_consumers()? {
                return Ok(Polled::TooManyConsumers);
            }
            poller.put_consumer(name, mark)?;
            mark
        }
    };
    let range = PollRange::new(mark.position, bounds);
    let rows = run(
        tx.conn,
        ListPolled {
            scope,
            endpoint: ask.endpoint,
            after: range.after,
            until: range.until,
            channel: ask.channel.as_ref().map(Name::as_str),
            event_type: ask.event_type.as_ref().map(Name::as_str),
            limit: ask.limit,
        },
    )?;
    let weigh = |row: &(i64, Message)| message_bytes(&row.1);
    let piece = Piece::gather(rows.into_iter().map(Ok::<_, Fault>), ask.limit, weigh, |row| row.0, None)?;
    let is_cut = piece.next.is_some() || piece.rows.len() == ask.limit;
    let page = range.page(piece.rows, is_cut, mark.generation);
    Ok(Polled::Page(PollPage { done: page.done && is_all, ..page }))
}

pub(crate) fn seek(tx: &Tx<'_>, scope: AppScope, ask: &SeekAsk) -> Result<Option<PollMark>, Fault> {
    let poller = Poller { tx, environment: scope.environment, endpoint: ask.endpoint };
    while !poller.order()? {}
    let position = poller.position_since(ask.after, poller.bounds()?)?;
    let known = poller.find_consumer(&ask.consumer)?;
    if known.is_none() && poller.has_all_consumers()? {
        return Ok(None);
    }
    let mark = PollMark { position, generation: known.unwrap_or_default().generation + 1 };
    poller.put_consumer(&ask.consumer, mark)?;
    Ok(Some(mark))
}

struct Poller<'t> {
    tx: &'t Tx<'t>,
    environment: EnvironmentId,
    endpoint: EndpointId,
}

impl Poller<'_> {
    /// Gives positions to due messages. Returns whether all of them have positions now.
    fn order(&self) -> Result<bool, Fault> {
        let Poller { tx, environment, endpoint } = *self;
        let waiting = run(tx.conn, FindPolledWaiting { environment, endpoint, now: StoreClock::At(tx.now) })?;
        if waiting.is_none_or(|(due_at, now)| due_at > now) {
            return Ok(true);
        }
        let base = run(tx.conn, LockPoller { environment, endpoint })?;
        let base = base.ok_or(Fault::Corrupt { table: "poller", column: "position" })?;
        let order = OrderPolled { environment, endpoint, now: tx.now, base, limit: ORDERED_MAX };
        let ordered = run(tx.conn, order)?;
        let position = base.saturating_add_unsigned(ordered);
        run(tx.conn, PutPoller { environment, endpoint, position })?;
        Ok(usize::try_from(ordered).unwrap_or(usize::MAX) < ORDERED_MAX)
    }

    fn bounds(&self) -> Result<Option<(Option<i64>, i64)>, Fault> {
        run(self.tx.conn, FindPolledBounds { environment: self.environment, endpoint: self.endpoint })
    }

    fn position_since(&self, after: Timestamp, bounds: Option<(Option<i64>, i64)>) -> Result<i64, Fault> {
        let Poller { tx, environment, endpoint } = *self;
        let find = FindPolledSince { environment, endpoint, floor: Id::floor(after), limit: SEEK_NEIGHBOURS };
        Ok(since(run(tx.conn, find)?.flatten(), bounds))
    }

    fn find_consumer(&self, name: &Name) -> Result<Option<PollMark>, Fault> {
        let Poller { tx, environment, endpoint } = *self;
        let found = run(tx.conn, FindPollConsumer { environment, endpoint, name })?;
        Ok(found.map(|(position, generation)| PollMark { position, generation }))
    }

    fn has_all_consumers(&self) -> Result<bool, Fault> {
        let Poller { tx, environment, endpoint } = *self;
        let count = run(tx.conn, CountPollConsumer { environment, endpoint, limit: POLL_CONSUMERS_MAX })?;
        Ok(count.is_some_and(|count| count >= POLL_CONSUMERS_MAX))
    }

    fn put_consumer(&self, name: &Name, PollMark { position, generation }: PollMark) -> Result<(), Fault> {
        let Poller { tx, environment, endpoint } = *self;
        let put = PutPollConsumer { environment, endpoint, name, position, generation, now: StoreClock::At(tx.now) };
        run(tx.conn, put).map(drop)
    }
}
