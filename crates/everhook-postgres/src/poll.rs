//! Messages of polled endpoints, and the positions of their readers.

use everhook_core::id::{EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::{PAGE_BYTES_MAX, POLL_CONSUMERS_MAX};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::poll::{PollMark, resume};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::poll::{
    ORDERED_MAX, PollAsk, PollPage, PollRange, PollReader, Polled, SEEK_NEIGHBOURS, SeekAsk, since,
};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    CountPollConsumer, FindPollConsumer, FindPolledBounds, FindPolledSince, FindPolledWaiting, LockPoller, POLLED_DUE,
    PutPollConsumer, PutPoller,
};
use everhook_store::{columns, statement};

use crate::error::Fault;
use crate::store::PostgresStore;

columns! {
    pub(crate) PolledRows of PolledRow {
        environment: EnvironmentId, endpoint: EndpointId, message: MessageId, due_at: Timestamp,
    }
}

statement! {
    pub(crate) AppendPolled = "append_polled" { fresh: PolledRows };
    OrderPolled = ["order_polled", POLLED_DUE] {
        environment: EnvironmentId, endpoint: EndpointId, now: Timestamp, base: i64, limit: usize,
    };
    ListPolled<'a> = "list_polled" {
        scope: AppScope, endpoint: EndpointId, after: i64, until: i64,
        channel: Option<&'a str>, event_type: Option<&'a str>, limit: usize, bytes_max: usize,
    } -> Vec<(i64, usize, Message)>;
}

impl PostgresStore {
    pub(crate) async fn poll_once(&self, scope: AppScope, ask: &PollAsk) -> Result<Polled, Fault> {
        let (environment, endpoint) = (scope.environment, ask.endpoint);
        let is_all = self.order_polled(environment, endpoint).await?;
        let bounds = self.database.read(FindPolledBounds { environment, endpoint }).await?;
        let mark = match &ask.reader {
            PollReader::From(mark) => *mark,
            PollReader::Since(after) => {
                let position = self.position_since(environment, endpoint, *after, bounds).await?;
                PollMark { position, generation: 0 }
            }
            PollReader::Consumer { name, confirmed } => {
                let known = self.find_consumer(environment, endpoint, name).await?;
                let Ok(mark) = resume(known, *confirmed) else { return Ok(Polled::OutOfStep) };
                if known.is_none() && self.has_all_consumers(environment, endpoint).await? {
                    return Ok(Polled::TooManyConsumers);
                }
                self.put_consumer(environment, endpoint, name, mark).await?;
                mark
            }
        };
        let range = PollRange::new(mark.position, bounds);
        let rows = self.database.read(ListPolled {
            scope,
            endpoint,
            after: range.after,
            until: range.until,
            channel: ask.channel.as_ref().map(Name::as_str),
            event_type: ask.event_type.as_ref().map(Name::as_str),
            limit: ask.limit,
            bytes_max: PAGE_BYTES_MAX,
        });
        let rows = rows.await?;
        let is_cut = rows.first().is_some_and(|(_, matches, _)| *matches > rows.len() || rows.len() == ask.limit);
        let rows = rows.into_iter().map(|(position, _, message)| (position, message)).collect();
        let page = range.page(rows, is_cut, mark.generation);
        Ok(Polled::Page(PollPage { done: page.done && is_all, ..page }))
    }

    pub(crate) async fn seek_once(&self, scope: AppScope, ask: &SeekAsk) -> Result<Option<PollMark>, Fault> {
        let (environment, endpoint) = (scope.environment, ask.endpoint);
        while !self.order_polled(environment, endpoint).await? {}
        let bounds = self.database.read(FindPolledBounds { environment, endpoint }).await?;
        let position = self.position_since(environment, endpoint, ask.after, bounds).await?;
        let known = self.find_consumer(environment, endpoint, &ask.consumer).await?;
        if known.is_none() && self.has_all_consumers(environment, endpoint).await? {
            return Ok(None);
        }
        let mark = PollMark { position, generation: known.unwrap_or_default().generation + 1 };
        self.put_consumer(environment, endpoint, &ask.consumer, mark).await?;
        Ok(Some(mark))
    }

    /// Gives positions to due messages. Returns whether all of them have positions now.
    async fn order_polled(&self, environment: EnvironmentId, endpoint: EndpointId) -> Result<bool, Fault> {
        let waiting =
            self.database.read(FindPolledWaiting { environment, endpoint, now: StoreClock::Database }).await?;
        let Some((_, now)) = waiting.filter(|(due_at, now)| due_at <= now) else { return Ok(true) };
        let tx = self.database.tx().await?;
        let base = tx.begin(LockPoller { environment, endpoint }).await?;
        let base = base.ok_or(Fault::Contended("a poller could not be locked"))?;
        // A separate statement, so that its snapshot includes the poll that the lock waited for.
        let ordered = tx.run(OrderPolled { environment, endpoint, now, base, limit: ORDERED_MAX }).await?;
        let position = base.saturating_add_unsigned(ordered);
        tx.finish(PutPoller { environment, endpoint, position }).await?;
        Ok(usize::try_from(ordered).unwrap_or(usize::MAX) < ORDERED_MAX)
    }

    async fn position_since(
        &self,
        environment: EnvironmentId,
        endpoint: EndpointId,
        after: Timestamp,
        bounds: Option<(Option<i64>, i64)>,
    ) -> Result<i64, Fault> {
        let (floor, limit) = (Id::floor(after), SEEK_NEIGHBOURS);
        let near = self.database.read(FindPolledSince { environment, endpoint, floor, limit }).await?;
        Ok(since(near.flatten(), bounds))
    }

    async fn find_consumer(
        &self,
        environment: EnvironmentId,
        endpoint: EndpointId,
        name: &Name,
    ) -> Result<Option<PollMark>, Fault> {
        let found = self.database.read(FindPollConsumer { environment, endpoint, name }).await?;
        Ok(found.map(|(position, generation)| PollMark { position, generation }))
    }

    async fn has_all_consumers(&self, environment: EnvironmentId, endpoint: EndpointId) -> Result<bool, Fault> {
        let count = CountPollConsumer { environment, endpoint, limit: POLL_CONSUMERS_MAX };
        Ok(self.database.read(count).await?.is_some_and(|count| count >= POLL_CONSUMERS_MAX))
    }

    async fn put_consumer(
        &self,
        environment: EnvironmentId,
        endpoint: EndpointId,
        name: &Name,
        PollMark { position, generation }: PollMark,
    ) -> Result<(), Fault> {
        let put = PutPollConsumer { environment, endpoint, name, position, generation, now: StoreClock::Database };
        self.database.write(put).await.map(drop)
    }
}
