//! How many jobs queues may give: their state, limits and rates, read and locked for a lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, ID_BYTES, Id, LaneId};
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::queue::{Queue, QueueState, Rate, Target, gate};
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAsk, QueueAsk};
use futures_util::future::try_join3;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::count;
use crate::error::Fault;
use crate::job::lease::ReadyLane;
use crate::job::rows::{self, queue_at};
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Params, Transaction};

/// Sorts behind every lane.
const LANE_ABOVE: [u8; ID_BYTES + 1] = [0xff; ID_BYTES + 1];

/// A queue that jobs may be taken from; locked, if it has a limit or a rate.
pub(crate) struct OpenQueue<'a> {
    pub(crate) ask: &'a QueueAsk,
    queue: Option<Queue>,
    pub(crate) target: Option<Arc<Target>>,
    /// It had a limit or a rate when it was looked at.
    pub(crate) is_locked: bool,
    /// What its leased tasks are counted under.
    pub(crate) gate: Option<Id>,
    /// How many more may be leased by its limit.
    spare: Option<usize>,
    /// How many it may give.
    pub(crate) room: usize,
    /// How many it gave.
    pub(crate) taken: usize,
    /// Until when its rate is used up.
    pub(crate) booked_until: Timestamp,
}

impl<'a> OpenQueue<'a> {
    fn new(ask: &'a QueueAsk, mut queue: Option<Queue>, booked_until: Timestamp) -> OpenQueue<'a> {
        let is_limited = queue.as_ref().is_some_and(Queue::is_limited);
        OpenQueue {
            ask,
            target: queue.as_mut().and_then(|queue| queue.target.take()).map(Arc::new),
            is_locked: false,
            gate: is_limited.then(|| gate(ask.environment, &ask.name)),
            spare: None,
            room: 0,
            taken: 0,
            booked_until,
            queue,
        }
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        self.queue.as_ref()?.rate
    }

    fn key_limit(&self) -> Option<usize> {
        self.queue.as_ref()?.key_limit.map(to_size)
    }

    /// Whether this lane is that of a concurrency key, and those have a limit.
    pub(crate) fn has_key_limit(&self, lane: LaneId) -> bool {
        self.key_limit().is_some() && self.gate.is_some_and(|gate| gate != lane.0)
    }

    /// Decides how many it may give, once what is leased of it was counted.
    pub(crate) fn make_room(&mut self, limit: usize, now: Timestamp) {
        self.room = self.ask.room.min(limit).min(self.spare.unwrap_or(usize::MAX));
        if let Some(rate) = self.rate() {
            (self.room, _) = rate.take(self.booked_until, now, self.room);
        }
    }

    /// Keeps what its rate has given: only what was taken.
    pub(crate) fn book(&mut self, taken: usize, now: Timestamp) {
        self.taken = taken;
        if let Some(rate) = self.rate() {
            (_, self.booked_until) = rate.take(self.booked_until, now, taken);
        }
    }

    /// Whether its limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.spare.is_some_and(|spare| spare <= self.taken)
    }

    /// How long until its rate lets one go.
    pub(crate) fn token_in(&self, now: Timestamp) -> Duration {
        self.rate().map_or(Duration::ZERO, |_| self.booked_until.since(now))
    }
}

/// The queues that jobs may be taken from now, in the order of the asks.
pub(crate) struct Opened<'a> {
    pub(crate) queues: Vec<OpenQueue<'a>>,
    /// Locked lanes of those that are not locked themselves.
    pub(crate) lanes: Vec<ReadyLane>,
    pub(crate) now: Timestamp,
    /// Another lease holds a queue with a limit.
    pub(crate) is_held: bool,
    /// How many lanes of each queue are looked at.
    pub(crate) share: usize,
}

/// Begins, reads the asked queues, locks lanes of those without limits, all in one round trip; and locks those with limits.
pub(crate) async fn open_queues<'a>(transaction: &Transaction, ask: &'a JobAsk) -> Result<Opened<'a>, Fault> {
    // One that is named twice would be counted twice.
    let mut named = HashSet::with_capacity(ask.queues.len());
    let with_room = ask.queues.iter().filter(|queue| queue.room > 0);
    let asks: Vec<&QueueAsk> = with_room.filter(|queue| named.insert((queue.environment, &queue.name))).collect();
    let share = if ask.limit == 0 { 0 } else { LEASE_LANES_MAX.div_ceil(asks.len().max(1)) };
    let (environments, names) = columns(asks.iter().copied());
    let (find_queue, read_clock, next_lane) = (
        transaction.prepare(&sql::NEXT_QUEUE).await?,
        transaction.prepare(&sql::NOW).await?,
        transaction.prepare(&sql::NEXT_LANE_QUEUE).await?,
    );
    let (params, lane_params): (Params<'_>, Params<'_>) =
        (&[&environments, &names], &[&environments, &names, &count(share), &false]);
    let (clock, found, lane_rows) = transaction
        .begin_with(try_join3(
            transaction.query(&read_clock, &[]),
            transaction.query(&find_queue, params),
            transaction.query(&next_lane, lane_params),
        ))
        .await?;
    let mut now = rows::now(&clock)?;
    let (mut open, mut limited) = (Vec::with_capacity(found.len()), Vec::new());
    for row in &found {
        let read = Read::new(row, asks.len())?;
        if read.queue.as_ref().is_some_and(Queue::is_limited) {
            limited.push(read.n);
        } else if read.is_open() {
            open.push((read.n, OpenQueue::new(asks[read.n], read.queue, read.booked_until)));
        }
    }
    let mut is_held = false;
    if !limited.is_empty() {
        let (environments, names) = columns(limited.iter().map(|n| asks[*n]));
        let locked = transaction.rows(&sql::LOCK_QUEUE, &[&environments, &names]).await?;
        is_held = locked.len() < limited.len();
        for row in &locked {
            let read = Read::new(row, limited.len())?;
            now = read.now.max(now);
            if read.is_open() {
                let n = limited[read.n];
                let queue = OpenQueue::new(asks[n], read.queue, read.booked_until);
                open.push((n, OpenQueue { is_locked: true, ..queue }));
            }
        }
        open.sort_by_key(|(n, _)| *n);
    }
    // What was read of a queue is older than its lanes: they do not count where it says something else.
    let place = |n: usize| open.iter().position(|(at, queue)| *at == n && !queue.is_locked);
    let lanes = read_lanes(&lane_rows, asks.len(), place)?;
    Ok(Opened { queues: open.into_iter().map(|(_, queue)| queue).collect(), lanes, now, is_held, share })
}

/// Reads lanes of asked queues, of those that have a place.
pub(crate) fn read_lanes(
    rows: &[Row],
    asked: usize,
    place: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<ReadyLane>, Fault> {
    let mut lanes = Vec::with_capacity(rows.len());
    for row in rows {
        let mut row = Reader::new(row, "lane");
        let n: i64 = row.get("n")?;
        let n = usize::try_from(n - 1).ok().filter(|n| *n < asked).ok_or_else(|| row.corrupt("n"))?;
        let (environment, id) = (EnvironmentId(row.get("environment")?), LaneId(row.id("id")?));
        let ready_at = row.time("ready_at")?;
        lanes.extend(place(n).map(|queue| ReadyLane { queue, environment, id, ready_at, spare: usize::MAX, room: 0 }));
    }
    Ok(lanes)
}

/// A queue as a statement tells it.
struct Read {
    /// Which of those that were asked for.
    n: usize,
    now: Timestamp,
    booked_until: Timestamp,
    queue: Option<Queue>,
}

impl Read {
    fn new(row: &Row, asked: usize) -> Result<Read, Fault> {
        let mut head = Reader::new(row, "queue");
        let n: i64 = head.get("n")?;
        let n = usize::try_from(n - 1).ok().filter(|n| *n < asked).ok_or_else(|| head.corrupt("n"))?;
        let now = head.time("now")?;
        let booked_until: Option<i64> = head.get("booked_until")?;
        let booked_until = booked_until.map_or(Timestamp::default(), Timestamp::from_micros);
        Ok(Read { n, now, booked_until, queue: queue_at(row, 3)? })
    }

    fn is_open(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.state == QueueState::Open)
    }
}

/// Queues as columns.
pub(crate) fn columns<'a>(asks: impl Iterator<Item = &'a QueueAsk>) -> (Vec<i32>, Vec<&'a str>) {
    asks.map(|ask| (ask.environment.0, ask.name.as_str())).unzip()
}

/// What is to be counted, as columns; each for a place in a list of the caller's.
#[derive(Default)]
pub(crate) struct Counts {
    places: Vec<usize>,
    gates: Vec<Vec<u8>>,
    low: Vec<Vec<u8>>,
    high: Vec<Vec<u8>>,
    most: Vec<i64>,
}

impl Counts {
    /// Everything that is leased of queues with a limit.
    pub(crate) fn of_queues(queues: &[OpenQueue<'_>]) -> Counts {
        let mut counts = Counts::default();
        for (place, open) in queues.iter().enumerate() {
            let limit = open.queue.as_ref().and_then(|queue| queue.limit);
            if let (Some(limit), Some(gate)) = (limit, open.gate) {
                counts.push(place, gate, (&[], &LANE_ABOVE), to_size(limit));
            }
        }
        counts
    }

    fn push(&mut self, place: usize, gate: Id, (low, high): (&[u8], &[u8]), most: usize) {
        self.places.push(place);
        self.gates.push(gate.as_bytes().to_vec());
        self.low.push(low.to_vec());
        self.high.push(high.to_vec());
        self.most.push(count(most));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.gates, &self.low, &self.high, &self.most]
    }

    /// How many more may be leased, by place.
    fn spare(&self, counted: &[Row]) -> Result<Vec<(usize, usize)>, Fault> {
        let read = |row: &Row| {
            let mut row = Reader::new(row, "task");
            let (n, running): (i64, i64) = (row.get("n")?, row.get("running")?);
            let n = usize::try_from(n - 1).ok().filter(|n| *n < self.places.len()).ok_or_else(|| row.corrupt("n"))?;
            Ok((self.places[n], usize::try_from(self.most[n].saturating_sub(running)).unwrap_or(0)))
        };
        counted.iter().map(read).collect()
    }

    pub(crate) fn apply(&self, counted: &[Row], queues: &mut [OpenQueue<'_>]) -> Result<(), Fault> {
        for (place, spare) in self.spare(counted)? {
            queues[place].spare = Some(spare);
        }
        Ok(())
    }
}

/// Cuts the room of lanes whose concurrency key has a limit.
pub(crate) async fn limit_keys(
    transaction: &Transaction,
    queues: &[OpenQueue<'_>],
    lanes: &mut [ReadyLane],
) -> Result<(), Fault> {
    let mut counts = Counts::default();
    for (place, lane) in lanes.iter().enumerate() {
        let queue = &queues[lane.queue];
        if let (true, Some(limit), Some(gate)) = (queue.has_key_limit(lane.id), queue.key_limit(), queue.gate) {
            counts.push(place, gate, (lane.id.as_bytes(), lane.id.as_bytes()), limit);
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    let counted = transaction.rows(&sql::COUNT_GATE, &counts.params()).await?;
    for (place, spare) in counts.spare(&counted)? {
        lanes[place].spare = spare;
        lanes[place].room = lanes[place].room.min(spare);
    }
    Ok(())
}

fn to_size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
