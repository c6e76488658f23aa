//! Lease: lock ready lanes in fair order, take a bounded number of due tasks from each.
//!
//! The protocol that loses no wake-up is in `queries/touch_lane.sql` and `queries/drain_lane.sql`. What is leased is read
//! completely before the commit, so that nothing is owned that could not be told.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, LaneId, MessageId};
use everhook_core::limits::{LEASE_LANES_MAX, LEASE_TASKS_MAX};
use everhook_core::message::Message;
use everhook_core::task::{PRIORITY_DEFAULT, Task};
use everhook_core::time::Timestamp;
use everhook_store::lease::{DeliveryAsk, LeaseGrant, Leased};
use futures_util::future::{try_join, try_join5};
use tokio_postgres::{Error, Row};

use crate::endpoints::{self, AppKey};
use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql;
use crate::statement::{Params, Prepared, Transaction, within};
use crate::store::PostgresStore;

/// The lane of a deleted endpoint, whose tasks go whenever they are due.
const CLOSING: i16 = 2;
/// How far what is taken from a lane gets ahead of its floor before the floor of a lane with a backlog is raised.
const FLOOR_STEP: Duration = Duration::from_millis(50);
/// Lanes that stay ready though nothing is due in them, at most: every lease locks and looks at them all.
const STAY_LANES_MAX: usize = 64;
/// A lane whose next task is due within this need not be written: it is looked at again, whatever it says.
const SOON: Duration = Duration::from_secs(1);

/// A lane that this lease has locked.
struct ReadyLane {
    environment: EnvironmentId,
    id: LaneId,
    application: ApplicationId,
    closing: bool,
    /// New deliveries wait in it.
    waiting: bool,
    /// No pending task is due before this. Nobody changes it while the lane is locked.
    floor: Timestamp,
    /// None if the application was deleted.
    revision: Option<i64>,
    /// How many tasks it may give.
    room: usize,
}

impl ReadyLane {
    fn key(&self) -> (EnvironmentId, LaneId) {
        (self.environment, self.id)
    }
}

/// What a lease took from lanes.
struct Taken {
    tasks: Vec<Task>,
    /// Where the look at each lane began.
    begun: Vec<Timestamp>,
    /// When the next task of each lane is due.
    next_due: Vec<Timestamp>,
}

/// What a lane is told after the lease took from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It gave all it was asked for, the last of it due at this time: to the back.
    Back(Timestamp),
    /// It has nothing more that is due.
    Drain,
    /// It was not asked for all it could give: it keeps its place.
    Keep,
    /// Nothing, though all that was due until then is leased: it is to be looked at again at `next`, and keeps nobody waiting until then.
    Stay { until: Timestamp, next: Timestamp },
}

type MessageKey = (EnvironmentId, ApplicationId, MessageId);

impl PostgresStore {
    pub(crate) async fn lease_once(&self, ask: &DeliveryAsk) -> Result<LeaseGrant, Fault> {
        let limit = ask.limit.min(LEASE_TASKS_MAX);
        let full: Vec<&[u8]> = full_lanes(ask);
        let transaction = self.database.transaction().await?;
        let (next_lane, next_ready) =
            (transaction.prepare(&sql::NEXT_LANE).await?, transaction.prepare(&sql::NEXT_READY).await?);
        let lanes_max =
            if limit == 0 || ask.per_lane == 0 && ask.rooms.is_empty() { 0 } else { LEASE_LANES_MAX as i64 };
        let (lane_rows, ready_rows) = transaction
            .begin_with(try_join(
                transaction.query(&next_lane, &[&full, &lanes_max]),
                transaction.query(&next_ready, &[&full]),
            ))
            .await?;
        let (lanes, now) = read_lanes(&lane_rows, ask)?;
        if lanes.is_empty() {
            transaction.roll_back().await?;
            return Ok(LeaseGrant { tasks: Vec::new(), jobs: Vec::new(), next_ready: read_next_ready(&ready_rows)? });
        }
        let taken = self.take(&transaction, ask, limit, &lanes, now).await?;
        let turns = turns(&lanes, &taken, limit, now, |lane| self.looks.is_old(lane.key(), now));
        let (messages, ready_rows) = turn_lanes(&transaction, &full, &lanes, &turns, &taken.tasks, now).await?;
        let tasks = self.dress(&transaction, &lanes, taken.tasks, &messages).await?;
        let next_ready = [read_next_ready(&ready_rows)?, next_stay(&turns, now)].into_iter().flatten().min();
        transaction.commit().await?;
        for ((lane, turn), begun) in lanes.iter().zip(turns).zip(taken.begun) {
            match turn {
                Turn::Stay { until, .. } => self.looks.remember(lane.key(), until, begun == lane.floor, now),
                Turn::Back(_) | Turn::Drain => self.looks.forget(lane.key()),
                Turn::Keep => {}
            }
        }
        Ok(LeaseGrant { tasks, jobs: Vec::new(), next_ready })
    }

    /// Leases what is due in lanes. Before it takes nothing, it looks through all of them.
    async fn take(
        &self,
        transaction: &Transaction,
        ask: &DeliveryAsk,
        limit: usize,
        lanes: &[ReadyLane],
        now: Timestamp,
    ) -> Result<Taken, Fault> {
        let floors: Vec<Timestamp> = lanes.iter().map(|lane| lane.floor).collect();
        let begun = lanes.iter().map(|lane| self.looks.begin(lane.key(), lane.floor, now)).collect();
        let taken = take_from(transaction, ask, limit, lanes, begun, now).await?;
        if taken.tasks.is_empty() && taken.begun != floors {
            return take_from(transaction, ask, limit, lanes, floors, now).await;
        }
        Ok(taken)
    }

    /// Adds messages and endpoints to tasks.
    async fn dress(
        &self,
        transaction: &Transaction,
        lanes: &[ReadyLane],
        tasks: Vec<Task>,
        messages: &[Row],
    ) -> Result<Vec<Leased>, Fault> {
        let by_lane: HashMap<(EnvironmentId, LaneId), &ReadyLane> =
            lanes.iter().map(|lane| ((lane.environment, lane.id), lane)).collect();
        let lane_of = |task: &Task| by_lane.get(&(task.key.environment, task.lane)).copied();
        let mut revisions: HashMap<AppKey, i64> = HashMap::new();
        for lane in tasks.iter().filter_map(lane_of) {
            revisions.extend(lane.revision.map(|revision| ((lane.environment, lane.application), revision)));
        }
        let sets = endpoints::load(transaction, &self.cache, &revisions).await?;
        let mut found: HashMap<MessageKey, Arc<Message>> = HashMap::with_capacity(messages.len());
        for row in messages {
            let (environment, message) = rows::message(row)?;
            found.insert((environment, message.application, message.id), Arc::new(message));
        }
        let dress = |task: Task| {
            let lane = lane_of(&task);
            let key = lane.map(|lane| (lane.environment, lane.application, MessageId(task.key.subject)));
            let set = lane.and_then(|lane| sets.get(&(lane.environment, lane.application)));
            Leased {
                task,
                message: key.and_then(|key| found.get(&key).cloned()),
                endpoint: set.and_then(|set| set.find(everhook_core::id::EndpointId(task.lane.0)).cloned()),
            }
        };
        Ok(tasks.into_iter().map(dress).collect())
    }
}

/// Tells every lane what comes next for it, and reads the messages, in one round trip.
async fn turn_lanes(
    transaction: &Transaction,
    full: &[&[u8]],
    lanes: &[ReadyLane],
    turns: &[Turn],
    tasks: &[Task],
    now: Timestamp,
) -> Result<(Vec<Row>, Vec<Row>), Fault> {
    let (mut back, mut calm, mut drain) = (LaneColumns::default(), LaneColumns::default(), LaneColumns::default());
    // What is said of lanes that stay is no longer what they say.
    let mut known = full.to_vec();
    for (lane, turn) in lanes.iter().zip(turns) {
        match turn {
            Turn::Back(last) => {
                back.push(lane, None);
                if last.since(lane.floor) >= FLOOR_STEP && !lane.closing {
                    drain.push(lane, Some(now));
                }
            }
            Turn::Drain => {
                if lane.waiting {
                    calm.push(lane, None);
                }
                drain.push(lane, None);
            }
            Turn::Stay { next, .. } => {
                known.push(lane.id.as_bytes().as_slice());
                if lane.waiting && *next > now {
                    calm.push(lane, None);
                }
            }
            Turn::Keep => {}
        }
    }
    let messages = message_keys(lanes, tasks);
    let (environments, applications, ids) = message_columns(&messages);
    let rotate_lane = transaction.prepare(&sql::ROTATE_LANE).await?;
    let calm_lane = transaction.prepare(&sql::CALM_LANE).await?;
    let drain_lane = transaction.prepare(&sql::DRAIN_LANE).await?;
    let refill_lane = transaction.prepare(&sql::REFILL_LANE).await?;
    let find_message = transaction.prepare(&sql::FIND_MESSAGE).await?;
    let next_ready = transaction.prepare(&sql::NEXT_READY).await?;
    let turned_at = now.as_micros();
    let refill: Params<'_> = &[&drain.environments, &drain.ids, &drain.floors, &drain.turns, &PRIORITY_DEFAULT];
    // Sent in this order. Lanes that could not be drained are turned and calmed all the same.
    let (_, _, _, messages, ready) = within(try_join5(
        send_unless(drain.is_empty(), transaction, &drain_lane, &[&drain.environments, &drain.ids]),
        send_unless(drain.is_empty(), transaction, &refill_lane, refill),
        try_join(
            send_unless(back.is_empty(), transaction, &rotate_lane, &[&back.environments, &back.ids, &turned_at]),
            send_unless(calm.is_empty(), transaction, &calm_lane, &[&calm.environments, &calm.ids]),
        ),
        send_unless(ids.is_empty(), transaction, &find_message, &[&environments, &applications, &ids]),
        transaction.query(&next_ready, &[&known]),
    ))
    .await?;
    Ok((messages, ready))
}

/// Lanes as columns, with what `refill_lane` has to know of them.
#[derive(Default)]
struct LaneColumns<'a> {
    environments: Vec<i32>,
    ids: Vec<&'a [u8]>,
    floors: Vec<i64>,
    /// When it is their turn again, if they have to wait for it.
    turns: Vec<Option<i64>>,
}

impl<'a> LaneColumns<'a> {
    fn push(&mut self, lane: &'a ReadyLane, turn: Option<Timestamp>) {
        self.environments.push(lane.environment.0);
        self.ids.push(lane.id.as_bytes().as_slice());
        self.floors.push(lane.floor.as_micros());
        self.turns.push(turn.map(Timestamp::as_micros));
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

fn full_lanes(ask: &DeliveryAsk) -> Vec<&[u8]> {
    ask.rooms.iter().filter(|(_, room)| *room == 0).map(|(lane, _)| lane.as_bytes().as_slice()).collect()
}

fn read_lanes(rows: &[Row], ask: &DeliveryAsk) -> Result<(Vec<ReadyLane>, Timestamp), Fault> {
    let rooms: HashMap<LaneId, usize> = ask.rooms.iter().copied().collect();
    let (mut lanes, mut now) = (Vec::with_capacity(rows.len()), Timestamp::default());
    for row in rows {
        let mut row = Reader::new(row, "lane");
        let (environment, id) = (EnvironmentId(row.get("environment")?), LaneId(row.id("id")?));
        lanes.push(ReadyLane {
            environment,
            id,
            application: ApplicationId(row.id("application")?),
            closing: row.get::<i16>("state")? == CLOSING,
            waiting: row.get("waiting")?,
            floor: row.time("floor")?,
            revision: row.get("revision")?,
            room: rooms.get(&id).copied().unwrap_or(ask.per_lane),
        });
        now = row.time("now")?;
    }
    Ok((lanes, now))
}

async fn take_from(
    transaction: &Transaction,
    ask: &DeliveryAsk,
    limit: usize,
    lanes: &[ReadyLane],
    begun: Vec<Timestamp>,
    now: Timestamp,
) -> Result<Taken, Fault> {
    let (environments, ids): (Vec<i32>, Vec<&[u8]>) =
        lanes.iter().map(|lane| (lane.environment.0, lane.id.as_bytes().as_slice())).unzip();
    let floors: Vec<i64> = begun.iter().map(|begun| begun.as_micros()).collect();
    let due_until: Vec<i64> =
        lanes.iter().map(|lane| if lane.closing { Timestamp::NEVER } else { now }.as_micros()).collect();
    let rooms: Vec<i64> = lanes.iter().map(|lane| lane.room.min(limit) as i64).collect();
    let (limit, session) = (limit as i64, ask.session.as_bytes().as_slice());
    let params: Params<'_> = &[&environments, &ids, &floors, &due_until, &rooms, &PRIORITY_DEFAULT, &limit, &session];
    let lease_task = transaction.prepare(&sql::LEASE_TASK).await?;
    let next_due = transaction.prepare(&sql::NEXT_DUE).await?;
    let (tasks, next_due) = within(try_join(
        transaction.query(&lease_task, params),
        transaction.query(&next_due, &[&environments, &ids, &PRIORITY_DEFAULT, &now.as_micros()]),
    ))
    .await?;
    let mut tasks = tasks.iter().map(rows::task).collect::<Result<Vec<Task>, Fault>>()?;
    // An update tells its rows in the order of its plan, which is nobody's promise.
    let turns: HashMap<_, usize> = lanes.iter().enumerate().map(|(n, lane)| (lane.key(), n)).collect();
    tasks.sort_by_key(|task| (turns.get(&(task.key.environment, task.lane)).copied(), task.due_at, task.key.id));
    Ok(Taken { tasks, begun, next_due: read_next_due(&next_due, lanes.len())? })
}

fn read_next_due(rows: &[Row], lanes: usize) -> Result<Vec<Timestamp>, Fault> {
    let mut next_due = vec![Timestamp::NEVER; lanes];
    for row in rows {
        let mut row = Reader::new(row, "task");
        let n = row.get::<i64>("n")? as usize;
        next_due[n - 1] = row.time("due_at")?;
    }
    Ok(next_due)
}

/// What each lane is told, in the order in which they were asked.
///
/// Every write of a lane leaves a version behind that an old snapshot keeps. So a lane is written only where others have to know:
/// because not all that are ready were asked, or there are many, and they have to take turns; because the lane has nothing for a while; or because it `is_old`.
fn turns(
    lanes: &[ReadyLane],
    taken: &Taken,
    limit: usize,
    now: Timestamp,
    is_old: impl Fn(&ReadyLane) -> bool,
) -> Vec<Turn> {
    let mut given: HashMap<(EnvironmentId, LaneId), (usize, Timestamp)> = HashMap::new();
    for task in &taken.tasks {
        let (count, last) = given.entry((task.key.environment, task.lane)).or_default();
        (*count, *last) = (*count + 1, task.due_at.max(*last));
    }
    let mut left = limit;
    let turn = |lane: &ReadyLane| {
        let (gave, last) = given.get(&lane.key()).copied().unwrap_or_default();
        let asked = left.min(lane.room);
        left -= gave.min(left);
        match gave {
            _ if asked == 0 => Turn::Keep,
            _ if gave < asked => Turn::Drain,
            _ if asked < lane.room => Turn::Keep,
            _ => Turn::Back(last),
        }
    };
    let turns: Vec<Turn> = lanes.iter().map(turn).collect();
    if lanes.len() > STAY_LANES_MAX || turns.contains(&Turn::Keep) {
        return turns;
    }
    let stay = |((turn, lane), next): ((Turn, &ReadyLane), Timestamp)| match turn {
        _ if lane.closing || is_old(lane) => turn,
        Turn::Back(last) => Turn::Stay { until: last, next: now },
        Turn::Drain if next <= now.plus(SOON) => Turn::Stay { until: now, next },
        _ => turn,
    };
    turns.into_iter().zip(lanes).zip(taken.next_due.iter().copied()).map(stay).collect()
}

/// How long until a lane that stays as it is has to be looked at again.
fn next_stay(turns: &[Turn], now: Timestamp) -> Option<Duration> {
    let next = |turn: &Turn| if let Turn::Stay { next, .. } = turn { Some(next.since(now)) } else { None };
    turns.iter().filter_map(next).min()
}

fn message_keys(lanes: &[ReadyLane], tasks: &[Task]) -> BTreeSet<MessageKey> {
    let applications: HashMap<_, _> =
        lanes.iter().map(|lane| ((lane.environment, lane.id), lane.application)).collect();
    let key = |task: &Task| {
        let application = applications.get(&(task.key.environment, task.lane))?;
        Some((task.key.environment, *application, MessageId(task.key.subject)))
    };
    tasks.iter().filter_map(key).collect()
}

pub(crate) fn message_columns<'a>(
    keys: impl IntoIterator<Item = &'a MessageKey>,
) -> (Vec<i32>, Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let (mut environments, mut applications, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (environment, application, id) in keys {
        environments.push(environment.0);
        applications.push(application.as_bytes().as_slice());
        ids.push(id.as_bytes().as_slice());
    }
    (environments, applications, ids)
}

fn read_next_ready(rows: &[Row]) -> Result<Option<Duration>, Fault> {
    let Some(row) = rows.first() else { return Ok(None) };
    let wait: i64 = Reader::new(row, "lane").get("ready_at")?;
    Ok(Some(Duration::from_micros(u64::try_from(wait).unwrap_or(0))))
}

/// A statement that is left out where it has nothing to do.
pub(crate) async fn send_unless(
    idle: bool,
    transaction: &Transaction,
    prepared: &Prepared,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    if idle { Ok(Vec::new()) } else { transaction.query(prepared, params).await }
}

#[cfg(test)]
mod tests {
    use everhook_core::id::{Id, TaskId};
    use everhook_core::task::{TaskKey, TaskKind, Trigger};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(100_000);
    const DUE: Timestamp = Timestamp::from_millis(99_000);
    const SECONDS_LATER: Timestamp = Timestamp::from_millis(105_000);

    fn lane(n: u8, room: usize) -> ReadyLane {
        ReadyLane {
            environment: EnvironmentId(1),
            id: LaneId(Id::from_bytes([n; 20])),
            application: ApplicationId(Id::MIN),
            closing: false,
            waiting: false,
            floor: Timestamp::default(),
            revision: None,
            room,
        }
    }

    fn task(lane: &ReadyLane) -> Task {
        Task {
            key: TaskKey { environment: lane.environment, subject: Id::MIN, id: TaskId(Id::MIN) },
            lane: lane.id,
            kind: TaskKind::Delivery,
            trigger: Trigger::Scheduled,
            priority: PRIORITY_DEFAULT,
            due_at: DUE,
            tries: 0,
            crashes: 0,
            epoch: 1,
            cancel: false,
            batch: None,
        }
    }

    /// What lanes are told that gave so many and have their next task due then.
    fn told(lanes: &[ReadyLane], gave: &[usize], next_due: Timestamp, limit: usize, old: bool) -> Vec<Turn> {
        let tasks = lanes.iter().zip(gave).flat_map(|(lane, gave)| vec![task(lane); *gave]).collect();
        let taken =
            Taken { tasks, begun: vec![Timestamp::default(); lanes.len()], next_due: vec![next_due; lanes.len()] };
        turns(lanes, &taken, limit, NOW, |_| old)
    }

    #[test]
    fn lanes_that_were_all_asked_are_not_written() {
        let lanes = [lane(1, 2), lane(2, 2)];
        let soon = NOW.plus(SOON);
        let (more, empty) = (Turn::Stay { until: DUE, next: NOW }, Turn::Stay { until: NOW, next: soon });
        assert_eq!(told(&lanes, &[2, 1], soon, 9, false), [more, empty]);
        assert_eq!(next_stay(&[empty], NOW), Some(SOON));
        assert_eq!(next_stay(&[empty, more], NOW), Some(Duration::ZERO));
    }

    #[test]
    fn lanes_take_turns_where_not_all_were_asked() {
        let lanes = [lane(1, 2), lane(2, 2), lane(3, 2)];
        assert_eq!(told(&lanes, &[2, 1, 1], NOW, 4, false), [Turn::Back(DUE), Turn::Drain, Turn::Keep]);
        let many: Vec<ReadyLane> = (0..=STAY_LANES_MAX).map(|n| lane(n as u8, 2)).collect();
        assert!(told(&many, &[], NOW, 4, false).iter().all(|turn| *turn == Turn::Drain), "there are many");
        let few = &many[1..];
        assert!(told(few, &[], NOW, 4, false).iter().all(|turn| matches!(turn, Turn::Stay { .. })));
    }

    #[test]
    fn a_lane_is_written_every_now_and_then_and_when_it_has_nothing_for_a_while() {
        assert_eq!(told(&[lane(1, 2), lane(2, 2)], &[2, 1], NOW, 9, true), [Turn::Back(DUE), Turn::Drain]);
        assert_eq!(told(&[lane(1, 2)], &[1], SECONDS_LATER, 9, false), [Turn::Drain]);
        let closing = ReadyLane { closing: true, ..lane(1, 2) };
        assert_eq!(told(&[closing], &[1], NOW, 9, false), [Turn::Drain]);
    }
}
