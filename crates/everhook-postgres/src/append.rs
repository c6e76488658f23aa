//! Append: messages with their deliveries, many requests in one transaction.
//!
//! This is the general path, for batches that `optimistic_append` cannot plan from caches. Round trips: begin and read
//! endpoints and lanes; take the keys, if there are any; lock the once-slots, if there are any; write everything and
//! commit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, LaneId};
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, TakesPosition, accepted, judge, kept_by_suppressed, plan, plan_polled};
use everhook_store::cache::{EndpointSet, takes_permits};
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::{row, statement};

use crate::columns::{DueLane, DueLanes, Expiries, ExpiryRow, Keys, MessageRow, Messages, TaskRow, Tasks, earliest};
use crate::dedup::{self, Owners};
use crate::endpoints::{self, AppKey, EndpointSets};
use crate::error::Fault;
use crate::lease::{BookLane, LaneKey};
use crate::once;
use crate::order::append_ordered;
use crate::poll::{AppendPolled, PolledRow, PolledRows};
use crate::store::PostgresStore;
use crate::tx::Tx;

statement! {
    pub(crate) FindGroupVersion = "find_group_version" { wanted: Keys }
        -> Vec<(EnvironmentId, ApplicationId, i64, Timestamp)>;
    FindLane = "find_lane" { wanted: Keys } -> Vec<LaneRow>;
    LockLaneBooked = ["lock_lane_booked", "locked_lane"] { wanted: Keys } -> Vec<LaneRow>;
    pub(crate) AppendMessage<'a> = "append_message" { fresh: Messages<'a>, created_at: Timestamp };
    pub(crate) AppendPayloadExpiry = "append_payload_expiry" { fresh: Expiries };
    pub(crate) AppendTask = "append_task" { fresh: Tasks };
    pub(crate) LockLane = (
        "lock_lane",
        "with locked as materialized (select from unnest(:wanted) \
        join everhook.lane on lane.environment = any (array[wanted.environment]) and lane.id = wanted.id \
        order by wanted.environment, wanted.id for key share of lane) \
        select everhook.expect(not :strict or count(*) = cardinality(:wanted.environment)) from locked"
    ) { wanted: Keys, strict: bool };
    pub(crate) LowerLaneDue = "lower_lane_due" { wanted: DueLanes };
}

row! {
    struct LaneRow in "lane" {
        id: LaneId,
        state: i16,
        waiting: bool,
        hold_until: Timestamp,
        environment: EnvironmentId,
    }
}

/// Locks lanes against being marked empty, then lowers their due times.
///
/// Two statements, so that the second sees the result of every lease before the lock. A lock with an older snapshot
/// does not wait for a committed write that was not exclusive, and may then return the lane as it was before that
/// lease.
pub(crate) fn lower_lanes_due(wanted: DueLanes) -> (LockLane, LowerLaneDue) {
    (LockLane { wanted: wanted.keys(), strict: false }, LowerLaneDue { wanted })
}

/// Like `lower_lanes_due`, for lanes that retention may have deleted in the meantime. If one is missing, the
/// transaction is undone and run again.
pub(crate) fn lower_known_lanes_due(wanted: DueLanes) -> (LockLane, LowerLaneDue) {
    (LockLane { wanted: wanted.keys(), strict: true }, LowerLaneDue { wanted })
}

#[derive(Default)]
struct Lanes {
    /// Their tasks may be inserted already leased. Rate limits raise the holds.
    free: HashMap<LaneKey, Timestamp>,
    /// The lane row is already marked as waiting.
    waiting: HashSet<LaneKey>,
}

/// An accepted message, with the rows to write for it.
struct Written {
    environment: EnvironmentId,
    message: Arc<Message>,
    tasks: Vec<PlannedTask>,
    /// The polled endpoints, each with the time from which readers see the message.
    polled: Vec<(EndpointId, Timestamp)>,
}

/// The decision about one message of the batch.
enum AppendDecision {
    Accepted(Written),
    Decided(Appended),
}

impl PostgresStore {
    pub(crate) async fn append_once(&self, append: &Append) -> Result<Vec<Appended>, Fault> {
        if append.messages.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(appended) = self.append_direct(append).await? {
            return Ok(appended);
        }
        self.append_as(&self.database.tx().await?, append).await
    }

    /// Appends messages within a larger transaction. No delivery is inserted already leased.
    pub(crate) async fn append_within(&self, tx: &Tx<'_>, messages: Vec<NewMessage>) -> Result<Vec<Appended>, Fault> {
        self.append_as(&tx.part(), &Append { fast: None, messages }).await
    }

    async fn append_as(&self, tx: &Tx<'_>, append: &Append) -> Result<Vec<Appended>, Fault> {
        let (sets, now, mut lanes) = self.read_for_plan(tx, append).await?;
        let wanted = append.messages.iter().map(|new| (new.environment, new.keys.as_slice(), new.message.id.0));
        // Every append locks in the same order: dedup keys, once-slots, lanes, each in key order. Two appends that
        // share rows therefore wait for each other and never deadlock.
        let mut owners = Owners::take(tx, dedup::claims(wanted)).await?;

        let mut slots = once::SlotClaims::lock(tx, &append.messages, now).await?;
        if let Some(wanted) = lanes_to_book(&append.messages, &sets, &lanes) {
            lanes = Lanes::new(&tx.run(LockLaneBooked { wanted }).await?, now);
        }
        let Lanes { free, waiting } = lanes;
        let (fast, booked) = (append.fast.as_ref(), BTreeMap::new());
        let mut planner = Planner { store: self, fast, sets: &sets, free, booked, now };
        let decide = |new| planner.decide(new, &mut owners, &mut slots);
        let members: Vec<AppendDecision> = append.messages.iter().map(decide).collect();
        let written: Vec<&Written> = members.iter().filter_map(AppendDecision::written).collect();
        let booked = planner.booked;
        self.speculations.record_waiting(written.iter().flat_map(|written| &written.tasks));
        // The rollback also releases the keys. A part of a larger transaction must not roll back: `correct` releases
        // the keys.
        if tx.is_whole() && written.is_empty() && !slots.has_suppressed() {
            tx.roll_back().await?;
        } else {
            owners.correct(tx).await?;
            slots.write(tx, now).await?;
            write(tx, append.fast.as_ref(), (&written, booked), &waiting, now).await?;
        }
        Ok(members.into_iter().map(AppendDecision::answer).collect())
    }

    /// Begins, and reads endpoints and lanes. The lanes are guessed from the cache, so that one round trip is enough in
    /// the usual case.
    async fn read_for_plan(&self, tx: &Tx<'_>, append: &Append) -> Result<(EndpointSets, Timestamp, Lanes), Fault> {
        let applications: BTreeSet<AppKey> = append.messages.iter().map(app_key).collect();
        let guess = |key: &AppKey| self.cache.peek(key.0, key.1);
        let guessed =
            if append.fast.is_some() { wanted_lanes(&append.messages, guess, |_| true) } else { BTreeSet::new() };
        let applications = Keys::of(applications.into_iter().map(|(environment, id)| (environment, id.0)));
        let find_lane = Keys::of_lanes(guessed.iter().copied()).nonempty().map(|wanted| FindLane { wanted });
        let (found, mut lane_rows) = tx.begin((FindGroupVersion { wanted: applications }, find_lane)).await?;

        // Without any application nothing is planned, and the time is not needed.
        let now = found.first().map_or(Timestamp::default(), |(_, _, _, now)| *now);
        let version = |(environment, id, version, _)| ((environment, id), version);
        let versions: HashMap<AppKey, i64> = found.into_iter().map(version).collect();
        let sets = endpoints::load(tx, &self.cache, &versions).await?;
        if append.fast.is_some() {
            let wanted = wanted_lanes(&append.messages, |key| sets.get(key).cloned(), |_| true);
            let missed: BTreeSet<_> = wanted.difference(&guessed).copied().collect();
            if !missed.is_empty() {
                lane_rows.extend(tx.run(FindLane { wanted: Keys::of_lanes(missed) }).await?);
            }
        }
        Ok((sets, now, Lanes::new(&lane_rows, now)))
    }
}

impl Lanes {
    /// A lane is free if it is open, does not rest, and has no waiting deliveries.
    fn new(rows: &[LaneRow], now: Timestamp) -> Lanes {
        let mut lanes = Lanes::default();
        for row in rows {
            let key = (row.environment, row.id);
            if row.waiting {
                lanes.waiting.insert(key);
            } else if row.state == 0 && row.hold_until <= now {
                lanes.free.insert(key, row.hold_until);
            }
        }
        lanes
    }
}

impl AppendDecision {
    fn written(&self) -> Option<&Written> {
        match self {
            AppendDecision::Accepted(written) => Some(written),
            AppendDecision::Decided(_) => None,
        }
    }

    fn answer(self) -> Appended {
        match self {
            AppendDecision::Accepted(written) => accepted(written.message, written.tasks),
            AppendDecision::Decided(answer) => answer,
        }
    }
}

/// Decides the messages of a batch one after the other.
struct Planner<'a> {
    store: &'a PostgresStore,
    fast: Option<&'a FastPath>,
    sets: &'a EndpointSets,
    free: HashMap<LaneKey, Timestamp>,
    /// Lanes whose permits were taken, with their holds.
    booked: BTreeMap<LaneKey, Timestamp>,
    now: Timestamp,
}

impl Planner<'_> {
    fn decide<'m>(
        &mut self,
        new: &'m NewMessage,
        owners: &mut Owners<'m>,
        slots: &mut once::SlotClaims,
    ) -> AppendDecision {
        if let Some(answer) = judge(&owners.taken(new.environment, &new.keys)) {
            return AppendDecision::Decided(answer);
        }
        let is_same = |set: &&Arc<EndpointSet>| new.version.is_none_or(|found_at| found_at == set.version);
        let Some(set) = self.sets.get(&app_key(new)).filter(is_same) else {
            return AppendDecision::Decided(Appended::NoApplication);
        };
        if let Some(winner) = slots.take(new) {
            owners.claim(new.environment, kept_by_suppressed(&new.keys), winner.0);
            return AppendDecision::Decided(Appended::Suppressed(winner));
        }
        owners.claim(new.environment, new.keys.iter(), new.message.id.0);
        let environment = new.environment;
        let message = Message { created_at: self.now, ..new.message.clone() };
        let (fast, free, booked, now) = (self.fast, &mut self.free, &mut self.booked, self.now);
        let group = GroupId { environment, id: message.application.0 };
        let take_slot = |endpoint: &Endpoint| {
            let lane = endpoint.id.lane();
            let (fast, key, grouped) = (fast?, (environment, lane), GroupedLane { group, lane });
            let hold_until = free.get_mut(&key)?;
            let held_until = *hold_until;
            let slot = fast.reserve(grouped, endpoint, hold_until, now);
            if *hold_until != held_until {
                booked.insert(key, *hold_until);
            }
            if slot.is_none() {
                // A later message must not overtake this one, which now waits.
                free.remove(&key);
            }
            slot
        };
        let tasks = plan(environment, &message, set, &self.store.ids, self.now, new.addressing(), take_slot);
        let polled = plan_polled(&message, set, self.now, new.addressing());
        AppendDecision::Accepted(Written { environment, message: Arc::new(message), tasks, polled })
    }
}

fn app_key(new: &NewMessage) -> AppKey {
    (new.environment, new.message.application)
}

/// Returns the lanes to lock before the append takes permits; none if no free lane has a rate limit.
fn lanes_to_book(messages: &[NewMessage], sets: &EndpointSets, lanes: &Lanes) -> Option<Keys> {
    if lanes.free.is_empty() || !sets.values().any(|set| set.has_rate) {
        return None;
    }
    let limited = wanted_lanes(messages, |key| sets.get(key).cloned(), takes_permits);
    let is_any_free = limited.iter().any(|lane| lanes.free.contains_key(lane));
    is_any_free.then(|| Keys::of_lanes(wanted_lanes(messages, |key| sets.get(key).cloned(), |_| true)))
}

/// Returns the lanes of every such endpoint that wants one of these messages.
fn wanted_lanes(
    messages: &[NewMessage],
    endpoints: impl Fn(&AppKey) -> Option<Arc<EndpointSet>>,
    is_meant: impl Fn(&Endpoint) -> bool,
) -> BTreeSet<LaneKey> {
    let mut lanes = BTreeSet::new();
    let mut seen = HashSet::new();
    for new in messages {
        let message = &new.message;
        // Most messages of a batch are alike. Ten thousand endpoints are not filtered again for each of them.
        if !seen.insert((app_key(new), new.audience, &message.event_type, &message.channels)) {
            continue;
        }
        let Some(set) = endpoints(&app_key(new)) else { continue };
        let may_want = |e: &&Arc<Endpoint>| new.audience.may_include(e, &message.event_type, &message.channels);
        let wanting = set.endpoints.iter().filter(may_want).filter(|endpoint| is_meant(endpoint));
        lanes.extend(wanting.map(|endpoint| (new.environment, endpoint.id.lane())));
    }
    lanes
}

/// Returns the lanes of pending tasks, each with the due time of its first task. They are in key order, so that two
/// batches cannot deadlock.
///
/// A task that is due now marks its lane as waiting. A lane already marked as waiting is not written again: once it is
/// drained, the earlier tasks are gone, and later ones need not queue behind these.
fn due_lanes<'p>(
    pending: impl Iterator<Item = &'p PlannedTask>,
    waiting: &HashSet<LaneKey>,
    now: Timestamp,
) -> DueLanes {
    let lanes = earliest(pending.map(|PlannedTask { task, .. }| ((task.key.environment, task.lane), task.due_at)));
    let due_lane = |((environment, id), due_at)| {
        let waits = due_at <= now && !waiting.contains(&(environment, id));
        DueLane { waits, ..DueLane::new(environment, id, due_at) }
    };
    lanes.into_iter().map(due_lane).collect()
}

/// Writes messages and tasks, lowers the due times of lanes, and commits unless it is a part, in one round trip.
async fn write(
    tx: &Tx<'_>,
    fast: Option<&FastPath>,
    (written, booked): (&[&Written], BTreeMap<LaneKey, Timestamp>),
    waiting: &HashSet<LaneKey>,
    now: Timestamp,
) -> Result<(), Fault> {
    let fresh = written.iter().map(|written| MessageRow::new(written.environment, &written.message)).collect();
    let planned = || written.iter().flat_map(|written| &written.tasks);
    let holder = |planned: &PlannedTask| planned.slot.as_ref().and(fast).map(|fast| fast.session);
    let (ordered, plain): (Vec<&PlannedTask>, Vec<&PlannedTask>) = planned().partition(|task| task.takes_position(now));
    let tasks: Tasks = plain.into_iter().map(|planned| TaskRow::new(&planned.task, holder(planned))).collect();
    let ordered: Vec<_> = ordered.into_iter().map(|planned| (planned.task, planned.place)).collect();
    let lanes = due_lanes(planned().filter(|planned| planned.slot.is_none()), waiting, now);
    // The lock on the lanes lasts until the commit, which makes the tasks visible. Until then no lease can mark the
    // lanes as empty, so none of these tasks is forgotten.
    let (lock_lane, lower_lane_due) = lanes.nonempty().map(lower_lanes_due).unzip();
    let expiring = |written: &&Written| ExpiryRow::new(written.environment, &written.message);
    let expiries: Expiries = written.iter().filter_map(expiring).collect();
    let append_expiry = expiries.nonempty().map(|fresh| AppendPayloadExpiry { fresh });
    let polled: PolledRows = written.iter().flat_map(|written| polled_rows(written)).collect();
    let append_polled = polled.nonempty().map(|fresh| AppendPolled { fresh });
    let append_message = AppendMessage { fresh, created_at: now };
    let append_task = tasks.nonempty().map(|fresh| AppendTask { fresh });
    let append_task = (append_task, append_ordered(&ordered, TakesPosition::Always));
    let append_task = (append_task, BookLane::permits(booked));
    tx.finish((append_message, append_expiry, append_polled, append_task, lock_lane, lower_lane_due)).await.map(drop)
}

fn polled_rows(written: &Written) -> impl Iterator<Item = PolledRow> {
    let (environment, message) = (written.environment, written.message.id);
    written.polled.iter().map(move |(endpoint, due_at)| PolledRow {
        environment,
        endpoint: *endpoint,
        message,
        due_at: *due_at,
    })
}
