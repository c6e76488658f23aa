//! Lease: lock ready lanes in fair order, take a bounded number of due tasks from each.
//!
//! The protocol that loses no wake-up is in `queries/lower_lane_due.sql` and `queries/mark_lane_empty.sql`. What is leased is read
//! completely before the commit, so that nothing is owned that could not be told.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, LaneId, MessageId, SessionId};
use everhook_core::limits::{LEASE_LANES_MAX, LEASE_TASKS_MAX};
use everhook_core::message::Message;
use everhook_core::task::{PRIORITY_DEFAULT, Task};
use everhook_core::time::Timestamp;
use everhook_store::lease::{DeliveryAsk, LeaseGrant, Leased};
use everhook_store::{columns, row, statement};

use crate::columns::Keys;
use crate::endpoints::{self, AppKey};
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    /// Lanes to look through, each from its floor to a due time, for so many tasks.
    LaneScans of LaneScan {
        environment: EnvironmentId, id: LaneId, floor: Timestamp, due_until: Timestamp, capacity: usize,
    }

    /// Lanes whose next task is looked for from their floor, and when it is their turn again, if they have to wait for
    /// it.
    LaneLooks of LaneLook { environment: EnvironmentId, id: LaneId, floor: Timestamp, turn_at: Option<Timestamp> }

    /// Messages by their keys.
    pub(crate) MessageKeys of MessageKey { environment: EnvironmentId, application: ApplicationId, id: MessageId }
}

row! {
    pub(crate) struct NextLaneRow in "lane" {
        environment: EnvironmentId, id: LaneId, application: ApplicationId, state: i16, waiting: bool, floor: Timestamp,
    }
}

statement! {
    // A lane, the version of its group unless the application was deleted, and the time.
    pub(crate) NextLane = "next_lane" { full: Vec<LaneId>, limit: usize }
        -> Vec<(NextLaneRow, Option<i64>, Timestamp)>;
    pub(crate) NextReady = (
        "next_ready",
        "select ready_at - everhook.now_us() from everhook.lane \
        where ready_at < 9223372036854775807 and id <> all (:full) order by ready_at limit 1"
    ) { full: Vec<LaneId> } -> Option<i64>;
    pub(crate) LeaseTask = "lease_task" { lane: LaneScans, priority: i16, limit: usize, owner: SessionId } -> Vec<Task>;
    pub(crate) NextDue = "next_due" { wanted: Keys, priority: i16, after: Timestamp } -> Vec<(usize, Timestamp)>;
    pub(crate) MarkLaneEmpty = "mark_lane_empty" { wanted: Keys };
    pub(crate) RecomputeLaneDue = "recompute_lane_due" { wanted: LaneLooks, priority: i16 };
    pub(crate) MoveLaneToBack = (
        "move_lane_to_back",
        "update everhook.lane set next_due = :now, floor_of = :now, \
        floor = case lane.floor_of when lane.next_due then least(lane.floor, :now) else 0 end \
        from unnest(:used) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id and lane.next_due < :now"
    ) { used: Keys, now: Timestamp };
    pub(crate) ClearLaneWaiting = (
        "clear_lane_waiting",
        "update everhook.lane set waiting = false from unnest(:used) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id"
    ) { used: Keys };
    pub(crate) FindMessage = "find_message" { wanted: MessageKeys } -> Vec<(EnvironmentId, Message)>;
}

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
    version: Option<i64>,
    /// How many tasks it may give.
    capacity: usize,
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
enum LaneTurn {
    /// It gave all it was asked for, the last of it due at this time: to the back.
    Back(Timestamp),
    /// It has nothing more that is due.
    Drain,
    /// It was not asked for all it could give: it keeps its place.
    Keep,
    /// Nothing, though all that was due until then is leased: it is to be looked at again at `next`, and keeps nobody waiting until then.
    Stay { until: Timestamp, next: Timestamp },
}

impl PostgresStore {
    pub(crate) async fn lease_once(&self, ask: &DeliveryAsk) -> Result<LeaseGrant, Fault> {
        let limit = ask.limit.min(LEASE_TASKS_MAX);
        let full = full_lanes(ask);
        let tx = self.database.tx().await?;
        let lanes_max =
            if limit == 0 || ask.per_lane == 0 && ask.free_by_lane.is_empty() { 0 } else { LEASE_LANES_MAX };
        let next_lane = NextLane { full: full.clone(), limit: lanes_max };
        let (found, ready) = tx.begin((next_lane, NextReady { full: full.clone() })).await?;
        let (lanes, now) = read_lanes(found, ask);
        if lanes.is_empty() {
            tx.roll_back().await?;
            return Ok(LeaseGrant { tasks: Vec::new(), jobs: Vec::new(), next_ready: ready.map(wait) });
        }
        let taken = self.take(&tx, ask, limit, &lanes, now).await?;
        let turns = turns(&lanes, &taken, limit, now, |lane| self.scan_cursors.is_old(lane.key(), now));
        let (messages, ready) = turn_lanes(&tx, full, &lanes, &turns, &taken.tasks, now).await?;
        let tasks = self.attach_payloads(&tx, &lanes, taken.tasks, messages).await?;
        let next_ready = [ready.map(wait), next_stay(&turns, now)].into_iter().flatten().min();
        tx.commit().await?;
        for ((lane, turn), begun) in lanes.iter().zip(turns).zip(taken.begun) {
            match turn {
                LaneTurn::Stay { until, .. } => self.scan_cursors.remember(lane.key(), until, begun == lane.floor, now),
                LaneTurn::Back(_) | LaneTurn::Drain => self.scan_cursors.forget(lane.key()),
                LaneTurn::Keep => {}
            }
        }
        Ok(LeaseGrant { tasks, jobs: Vec::new(), next_ready })
    }

    /// Leases what is due in lanes. Before it takes nothing, it looks through all of them.
    async fn take(
        &self,
        tx: &Tx<'_>,
        ask: &DeliveryAsk,
        limit: usize,
        lanes: &[ReadyLane],
        now: Timestamp,
    ) -> Result<Taken, Fault> {
        let floors: Vec<Timestamp> = lanes.iter().map(|lane| lane.floor).collect();
        let begun = lanes.iter().map(|lane| self.scan_cursors.begin(lane.key(), lane.floor, now)).collect();
        let taken = take_from(tx, ask, limit, lanes, begun, now).await?;
        if taken.tasks.is_empty() && taken.begun != floors {
            return take_from(tx, ask, limit, lanes, floors, now).await;
        }
        Ok(taken)
    }

    /// Adds messages and endpoints to tasks.
    async fn attach_payloads(
        &self,
        tx: &Tx<'_>,
        lanes: &[ReadyLane],
        tasks: Vec<Task>,
        messages: Vec<(EnvironmentId, Message)>,
    ) -> Result<Vec<Leased>, Fault> {
        let by_lane: HashMap<(EnvironmentId, LaneId), &ReadyLane> =
            lanes.iter().map(|lane| ((lane.environment, lane.id), lane)).collect();
        let lane_of = |task: &Task| by_lane.get(&(task.key.environment, task.lane)).copied();
        let mut versions: HashMap<AppKey, i64> = HashMap::new();
        for lane in tasks.iter().filter_map(lane_of) {
            versions.extend(lane.version.map(|version| ((lane.environment, lane.application), version)));
        }
        let sets = endpoints::load(tx, &self.cache, &versions).await?;
        let keyed = |(environment, message): (EnvironmentId, Message)| {
            ((environment, message.application, message.id), Arc::new(message))
        };
        let found: HashMap<_, Arc<Message>> = messages.into_iter().map(keyed).collect();
        let attach_payloads = |task: Task| {
            let lane = lane_of(&task);
            let key = lane.map(|lane| (lane.environment, lane.application, MessageId(task.key.subject)));
            let set = lane.and_then(|lane| sets.get(&(lane.environment, lane.application)));
            Leased {
                task,
                message: key.and_then(|key| found.get(&key).cloned()),
                endpoint: set.and_then(|set| set.find(everhook_core::id::EndpointId(task.lane.0)).cloned()),
            }
        };
        Ok(tasks.into_iter().map(attach_payloads).collect())
    }
}

/// Tells every lane what comes next for it, and reads the messages and how long until a lane is ready, in one round
/// trip.
async fn turn_lanes(
    tx: &Tx<'_>,
    full: Vec<LaneId>,
    lanes: &[ReadyLane],
    turns: &[LaneTurn],
    tasks: &[Task],
    now: Timestamp,
) -> Result<(Vec<(EnvironmentId, Message)>, Option<i64>), Fault> {
    let (mut back, mut calm, mut drain) = (Vec::new(), Vec::new(), Vec::new());
    // What is said of lanes that stay is no longer what they say.
    let mut known = full;
    for (lane, turn) in lanes.iter().zip(turns) {
        match turn {
            LaneTurn::Back(last) => {
                back.push(lane);
                if last.since(lane.floor) >= FLOOR_STEP && !lane.closing {
                    drain.push((lane, Some(now)));
                }
            }
            LaneTurn::Drain => {
                if lane.waiting {
                    calm.push(lane);
                }
                drain.push((lane, None));
            }
            LaneTurn::Stay { next, .. } => {
                known.push(lane.id);
                if lane.waiting && *next > now {
                    calm.push(lane);
                }
            }
            LaneTurn::Keep => {}
        }
    }
    let turn = |(lane, turn_at): &(&ReadyLane, Option<Timestamp>)| LaneLook {
        environment: lane.environment,
        id: lane.id,
        floor: lane.floor,
        turn_at: *turn_at,
    };
    let drained: LaneLooks = drain.iter().map(turn).collect();
    // Sent in this order. Lanes that could not be drained are turned and calmed all the same.
    let (_, _, _, _, messages, ready) = tx
        .run((
            lane_keys(drain.iter().map(|(lane, _)| *lane)).nonempty().map(|wanted| MarkLaneEmpty { wanted }),
            drained.nonempty().map(|wanted| RecomputeLaneDue { wanted, priority: PRIORITY_DEFAULT }),
            lane_keys(back.into_iter()).nonempty().map(|used| MoveLaneToBack { used, now }),
            lane_keys(calm.into_iter()).nonempty().map(|used| ClearLaneWaiting { used }),
            message_keys(lanes, tasks).nonempty().map(|wanted| FindMessage { wanted }),
            NextReady { full: known },
        ))
        .await?;
    Ok((messages, ready))
}

fn lane_keys<'l>(lanes: impl Iterator<Item = &'l ReadyLane>) -> Keys {
    Keys::of(lanes.map(|lane| (lane.environment, lane.id.0)))
}

fn full_lanes(ask: &DeliveryAsk) -> Vec<LaneId> {
    ask.free_by_lane.iter().filter(|(_, capacity)| *capacity == 0).map(|(lane, _)| *lane).collect()
}

fn read_lanes(rows: Vec<(NextLaneRow, Option<i64>, Timestamp)>, ask: &DeliveryAsk) -> (Vec<ReadyLane>, Timestamp) {
    let free_by_lane: HashMap<LaneId, usize> = ask.free_by_lane.iter().copied().collect();
    let now = rows.first().map_or(Timestamp::default(), |(_, _, now)| *now);
    let ready = |(lane, version, _): (NextLaneRow, Option<i64>, Timestamp)| ReadyLane {
        environment: lane.environment,
        id: lane.id,
        application: lane.application,
        closing: lane.state == CLOSING,
        waiting: lane.waiting,
        floor: lane.floor,
        version,
        capacity: free_by_lane.get(&lane.id).copied().unwrap_or(ask.per_lane),
    };
    (rows.into_iter().map(ready).collect(), now)
}

async fn take_from(
    tx: &Tx<'_>,
    ask: &DeliveryAsk,
    limit: usize,
    lanes: &[ReadyLane],
    begun: Vec<Timestamp>,
    now: Timestamp,
) -> Result<Taken, Fault> {
    let scan = |(lane, floor): (&ReadyLane, &Timestamp)| LaneScan {
        environment: lane.environment,
        id: lane.id,
        floor: *floor,
        due_until: if lane.closing { Timestamp::NEVER } else { now },
        capacity: lane.capacity.min(limit),
    };
    let lane: LaneScans = lanes.iter().zip(&begun).map(scan).collect();
    let lease_task = LeaseTask { lane, priority: PRIORITY_DEFAULT, limit, owner: ask.session };
    let next_due = NextDue { wanted: lane_keys(lanes.iter()), priority: PRIORITY_DEFAULT, after: now };
    let (mut tasks, found) = tx.run((lease_task, next_due)).await?;
    // An update tells its rows in the order of its plan, which is nobody's promise.
    let turns: HashMap<_, usize> = lanes.iter().enumerate().map(|(n, lane)| (lane.key(), n)).collect();
    tasks.sort_by_key(|task| (turns.get(&(task.key.environment, task.lane)).copied(), task.due_at, task.key.id));
    let mut next_due = vec![Timestamp::NEVER; lanes.len()];
    for (n, due_at) in found {
        let lane = n.checked_sub(1).and_then(|n| next_due.get_mut(n));
        *lane.ok_or(Fault::Corrupt { table: "task", column: "n" })? = due_at;
    }
    Ok(Taken { tasks, begun, next_due })
}

/// What each lane is told, in the order in which they were asked.
///
/// Every write of a lane leaves a version behind that a long transaction keeps. So a lane is written only where others have to know:
/// because not all that are ready were asked, or there are many, and they have to take turns; because the lane has nothing for a while; or because it `is_old`.
fn turns(
    lanes: &[ReadyLane],
    taken: &Taken,
    limit: usize,
    now: Timestamp,
    is_old: impl Fn(&ReadyLane) -> bool,
) -> Vec<LaneTurn> {
    let mut given: HashMap<(EnvironmentId, LaneId), (usize, Timestamp)> = HashMap::new();
    for task in &taken.tasks {
        let (count, last) = given.entry((task.key.environment, task.lane)).or_default();
        (*count, *last) = (*count + 1, task.due_at.max(*last));
    }
    let mut left = limit;
    let turn = |lane: &ReadyLane| {
        let (gave, last) = given.get(&lane.key()).copied().unwrap_or_default();
        let asked = left.min(lane.capacity);
        left -= gave.min(left);
        match gave {
            _ if asked == 0 => LaneTurn::Keep,
            _ if gave < asked => LaneTurn::Drain,
            _ if asked < lane.capacity => LaneTurn::Keep,
            _ => LaneTurn::Back(last),
        }
    };
    let turns: Vec<LaneTurn> = lanes.iter().map(turn).collect();
    if lanes.len() > STAY_LANES_MAX || turns.contains(&LaneTurn::Keep) {
        return turns;
    }
    let stay = |((turn, lane), next): ((LaneTurn, &ReadyLane), Timestamp)| match turn {
        _ if lane.closing || is_old(lane) => turn,
        LaneTurn::Back(last) => LaneTurn::Stay { until: last, next: now },
        LaneTurn::Drain if next <= now.plus(SOON) => LaneTurn::Stay { until: now, next },
        _ => turn,
    };
    turns.into_iter().zip(lanes).zip(taken.next_due.iter().copied()).map(stay).collect()
}

/// How long until a lane that stays as it is has to be looked at again.
fn next_stay(turns: &[LaneTurn], now: Timestamp) -> Option<Duration> {
    let next = |turn: &LaneTurn| if let LaneTurn::Stay { next, .. } = turn { Some(next.since(now)) } else { None };
    turns.iter().filter_map(next).min()
}

fn message_keys(lanes: &[ReadyLane], tasks: &[Task]) -> MessageKeys {
    let applications: HashMap<_, _> = lanes.iter().map(|lane| (lane.key(), lane.application)).collect();
    let key = |task: &Task| {
        let application = applications.get(&(task.key.environment, task.lane))?;
        Some((task.key.environment, *application, MessageId(task.key.subject)))
    };
    let keys: BTreeSet<_> = tasks.iter().filter_map(key).collect();
    keys.into_iter().map(|(environment, application, id)| MessageKey { environment, application, id }).collect()
}

/// How long until a time that is so many micros away.
fn wait(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use everhook_core::id::{Id, TaskId};
    use everhook_core::task::{TaskKey, TaskKind, Trigger};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(100_000);
    const DUE: Timestamp = Timestamp::from_millis(99_000);
    const SECONDS_LATER: Timestamp = Timestamp::from_millis(105_000);

    fn lane(n: u8, capacity: usize) -> ReadyLane {
        ReadyLane {
            environment: EnvironmentId(1),
            id: LaneId(Id::from_bytes([n; 20])),
            application: ApplicationId(Id::MIN),
            closing: false,
            waiting: false,
            floor: Timestamp::default(),
            version: None,
            capacity,
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
    fn told(lanes: &[ReadyLane], gave: &[usize], next_due: Timestamp, limit: usize, old: bool) -> Vec<LaneTurn> {
        let tasks = lanes.iter().zip(gave).flat_map(|(lane, gave)| vec![task(lane); *gave]).collect();
        let taken =
            Taken { tasks, begun: vec![Timestamp::default(); lanes.len()], next_due: vec![next_due; lanes.len()] };
        turns(lanes, &taken, limit, NOW, |_| old)
    }

    #[test]
    fn lanes_that_were_all_asked_are_not_written() {
        let lanes = [lane(1, 2), lane(2, 2)];
        let soon = NOW.plus(SOON);
        let (more, empty) = (LaneTurn::Stay { until: DUE, next: NOW }, LaneTurn::Stay { until: NOW, next: soon });
        assert_eq!(told(&lanes, &[2, 1], soon, 9, false), [more, empty]);
        assert_eq!(next_stay(&[empty], NOW), Some(SOON));
        assert_eq!(next_stay(&[empty, more], NOW), Some(Duration::ZERO));
    }

    #[test]
    fn lanes_take_turns_where_not_all_were_asked() {
        let lanes = [lane(1, 2), lane(2, 2), lane(3, 2)];
        assert_eq!(told(&lanes, &[2, 1, 1], NOW, 4, false), [LaneTurn::Back(DUE), LaneTurn::Drain, LaneTurn::Keep]);
        let many: Vec<ReadyLane> = (0..=STAY_LANES_MAX).map(|n| lane(n as u8, 2)).collect();
        assert!(told(&many, &[], NOW, 4, false).iter().all(|turn| *turn == LaneTurn::Drain), "there are many");
        let few = &many[1..];
        assert!(told(few, &[], NOW, 4, false).iter().all(|turn| matches!(turn, LaneTurn::Stay { .. })));
    }

    #[test]
    fn a_lane_is_written_every_now_and_then_and_when_it_has_nothing_for_a_while() {
        assert_eq!(told(&[lane(1, 2), lane(2, 2)], &[2, 1], NOW, 9, true), [LaneTurn::Back(DUE), LaneTurn::Drain]);
        assert_eq!(told(&[lane(1, 2)], &[1], SECONDS_LATER, 9, false), [LaneTurn::Drain]);
        let closing = ReadyLane { closing: true, ..lane(1, 2) };
        assert_eq!(told(&[closing], &[1], NOW, 9, false), [LaneTurn::Drain]);
    }
}
