//! Append: messages with their deliveries, many requests in one transaction.
//!
//! The long way, for what `direct` cannot guess. Round trips: begin and read what planning needs; take the keys, if there are
//! any; lock the once-slots, if there are any; write everything and commit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use everhook_core::fanout;
use everhook_core::id::{ApplicationId, EnvironmentId, LaneId};
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, accepted, judge, kept_by_suppressed, plan};
use everhook_store::cache::EndpointSet;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::slots::Slot;
use futures_util::future::{try_join, try_join3};
use tokio_postgres::Row;

use crate::columns::{ExpiryColumns, MessageColumns, TaskColumns};
use crate::endpoints::{self, AppKey, EndpointSets};
use crate::error::Fault;
use crate::keys::{self, Owners};
use crate::once;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Params, Statements, Transaction, within};
use crate::store::PostgresStore;

/// What an append has to know of lanes.
#[derive(Default)]
struct Lanes {
    /// Tasks may be leased from them at once.
    free: HashSet<(EnvironmentId, LaneId)>,
    /// New deliveries wait in them, and the lane says so.
    waiting: HashSet<(EnvironmentId, LaneId)>,
}

/// A member of the batch that is accepted, with what is to be written for it.
struct Written {
    environment: EnvironmentId,
    message: Arc<Message>,
    tasks: Vec<PlannedTask>,
}

/// How much of its transaction an append is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Span {
    /// It begins it and commits it.
    Whole,
    /// Someone else does.
    Part,
}

/// What became of a member.
enum Member {
    Accepted(Written),
    Told(Appended),
}

impl PostgresStore {
    pub(crate) async fn append_once(&self, append: &Append) -> Result<Vec<Appended>, Fault> {
        if append.messages.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(appended) = self.append_direct(append).await? {
            return Ok(appended);
        }
        let transaction = self.database.transaction().await?;
        self.append_as(&transaction, append, Span::Whole).await
    }

    /// Appends messages within a transaction that does other things, too; nobody takes their deliveries at once.
    pub(crate) async fn append_within(
        &self,
        transaction: &Transaction,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Appended>, Fault> {
        self.append_as(transaction, &Append { fast: None, messages }, Span::Part).await
    }

    async fn append_as(&self, transaction: &Transaction, append: &Append, span: Span) -> Result<Vec<Appended>, Fault> {
        let (sets, now, Lanes { free, waiting }) = self.read_for_plan(transaction, append, span).await?;
        let wanted = append.messages.iter().map(|new| (new.environment, new.keys.as_slice(), new.message.id.0));
        let mut owners = Owners::take(transaction, keys::claims(wanted)).await?;

        let mut planner = Planner { store: self, fast: append.fast.as_ref(), sets: &sets, free, now };
        let mut slots = once::Claims::lock(transaction, &append.messages, now).await?;
        let decide = |new| planner.decide(new, &mut owners, &mut slots);
        let members: Vec<Member> = append.messages.iter().map(decide).collect();
        let written: Vec<&Written> = members.iter().filter_map(Member::written).collect();
        if span == Span::Whole && written.is_empty() && !slots.has_suppressed() {
            transaction.roll_back().await?;
        } else {
            owners.correct(transaction).await?;
            slots.write(transaction, now).await?;
            write(transaction, append.fast.as_ref(), &written, &waiting, now, span).await?;
        }
        Ok(members.into_iter().map(Member::answer).collect())
    }

    /// Begins, and reads endpoints and lanes. Lanes are guessed from the cache, so that one round trip does.
    async fn read_for_plan(
        &self,
        transaction: &Transaction,
        append: &Append,
        span: Span,
    ) -> Result<(EndpointSets, Timestamp, Lanes), Fault> {
        let applications: BTreeSet<AppKey> = append.messages.iter().map(app_key).collect();
        let guess = |key: &AppKey| self.cache.peek(key.0, key.1);
        let guessed = if append.fast.is_some() { wanted_lanes(&append.messages, guess) } else { BTreeSet::new() };
        let (find_revision, find_lane) =
            (transaction.prepare(&sql::FIND_APPLICATION_REVISION).await?, transaction.prepare(&sql::FIND_LANE).await?);
        let (environments, ids) = endpoints::columns(&applications);
        let (lane_environments, lanes) = lane_columns(&guessed);
        let revision_params: Params<'_> = &[&environments, &ids];
        let reads = try_join(transaction.query(&find_revision, revision_params), async {
            if lanes.is_empty() {
                return Ok(Vec::new());
            }
            transaction.query(&find_lane, &[&lane_environments, &lanes]).await
        });
        let (revisions, mut lane_rows) = match span {
            Span::Whole => transaction.begin_with(reads).await?,
            Span::Part => within(reads).await?,
        };

        let (revisions, now) = read_revisions(&revisions)?;
        let sets = endpoints::load(transaction, &self.cache, &revisions).await?;
        if append.fast.is_some() {
            let wanted = wanted_lanes(&append.messages, |key| sets.get(key).cloned());
            let missed: BTreeSet<_> = wanted.difference(&guessed).copied().collect();
            if !missed.is_empty() {
                let (environments, lanes) = lane_columns(&missed);
                lane_rows.extend(transaction.rows(&sql::FIND_LANE, &[&environments, &lanes]).await?);
            }
        }
        let lanes = read_lanes(&lane_rows, now)?;
        Ok((sets, now, lanes))
    }
}

impl Member {
    fn written(&self) -> Option<&Written> {
        match self {
            Member::Accepted(written) => Some(written),
            Member::Told(_) => None,
        }
    }

    fn answer(self) -> Appended {
        match self {
            Member::Accepted(written) => accepted(written.message, written.tasks),
            Member::Told(answer) => answer,
        }
    }
}

/// Decides one member after the other.
struct Planner<'a> {
    store: &'a PostgresStore,
    fast: Option<&'a FastPath>,
    sets: &'a EndpointSets,
    free: HashSet<(EnvironmentId, LaneId)>,
    now: Timestamp,
}

impl Planner<'_> {
    fn decide<'m>(&mut self, new: &'m NewMessage, owners: &mut Owners<'m>, slots: &mut once::Claims) -> Member {
        if let Some(answer) = judge(&owners.taken(new.environment, &new.keys)) {
            return Member::Told(answer);
        }
        let is_same = |set: &&Arc<EndpointSet>| new.revision.is_none_or(|found_at| found_at == set.revision);
        let Some(set) = self.sets.get(&app_key(new)).filter(is_same) else {
            return Member::Told(Appended::NoApplication);
        };
        if let Some(winner) = slots.take(new) {
            owners.claim(new.environment, kept_by_suppressed(&new.keys), winner.0);
            return Member::Told(Appended::Suppressed(winner));
        }
        owners.claim(new.environment, new.keys.iter(), new.message.id.0);
        let environment = new.environment;
        let message = Message { created_at: self.now, ..new.message.clone() };
        let (fast, free) = (self.fast, &mut self.free);
        let take_slot = |lane| {
            let fast = fast?;
            let slot = free.contains(&(environment, lane)).then(|| Slot::reserve(&fast.slots, lane)).flatten();
            if slot.is_none() {
                // A later message must not overtake the one that waits now.
                free.remove(&(environment, lane));
            }
            slot
        };
        let tasks = plan(environment, &message, set, &self.store.ids, self.now, new.deliver_at, take_slot);
        Member::Accepted(Written { environment, message: Arc::new(message), tasks })
    }
}

fn app_key(new: &NewMessage) -> AppKey {
    (new.environment, new.message.application)
}

/// The lanes of every endpoint that wants one of these messages.
fn wanted_lanes(
    messages: &[NewMessage],
    endpoints: impl Fn(&AppKey) -> Option<Arc<EndpointSet>>,
) -> BTreeSet<(EnvironmentId, LaneId)> {
    let mut lanes = BTreeSet::new();
    let mut seen = HashSet::new();
    for new in messages {
        let message = &new.message;
        // Most of a batch is alike; ten thousand endpoints are not to be asked again for each message.
        if !seen.insert((app_key(new), &message.event_type, &message.channels)) {
            continue;
        }
        let Some(set) = endpoints(&app_key(new)) else { continue };
        let wanting = set.endpoints.iter().filter(|e| fanout::wants(e, &message.event_type, &message.channels));
        lanes.extend(wanting.map(|endpoint| (new.environment, endpoint.id.lane())));
    }
    lanes
}

pub(crate) fn lane_columns(lanes: &BTreeSet<(EnvironmentId, LaneId)>) -> (Vec<i32>, Vec<&[u8]>) {
    lanes.iter().map(|(environment, lane)| (environment.0, lane.as_bytes().as_slice())).unzip()
}

fn read_revisions(rows: &[Row]) -> Result<(HashMap<AppKey, i64>, Timestamp), Fault> {
    // Without any application nothing is planned, and no time is needed.
    let (mut revisions, mut now) = (HashMap::with_capacity(rows.len()), Timestamp::default());
    for row in rows {
        let mut row = Reader::new(row, "application");
        let key = (EnvironmentId(row.get("environment")?), ApplicationId(row.id("id")?));
        revisions.insert(key, row.get("revision")?);
        now = row.time("now")?;
    }
    Ok((revisions, now))
}

/// Lanes that are open, do not rest, and in which nothing new waits are free.
fn read_lanes(rows: &[Row], now: Timestamp) -> Result<Lanes, Fault> {
    let mut lanes = Lanes::default();
    for row in rows {
        let mut row = Reader::new(row, "lane");
        let lane = LaneId(row.id("id")?);
        let (state, waiting, hold_until): (i16, _, _) =
            (row.get("state")?, row.get("waiting")?, row.time("hold_until")?);
        let key = (EnvironmentId(row.get("environment")?), lane);
        if waiting {
            lanes.waiting.insert(key);
        } else if state == 0 && hold_until <= now {
            lanes.free.insert(key);
        }
    }
    Ok(lanes)
}

/// Lanes to touch, in key order, so that two batches cannot deadlock.
#[derive(Default)]
struct TouchColumns<'p> {
    environments: Vec<i32>,
    ids: Vec<&'p [u8]>,
    due: Vec<i64>,
    waits: Vec<bool>,
}

impl<'p> TouchColumns<'p> {
    /// The lanes of pending tasks, each with the time when its first one is due. New ones wait if they are due now; in a lane that was
    /// waiting already that is not said again: once it is drained, those before them are gone, and later ones need not wait.
    fn new(
        pending: impl Iterator<Item = &'p PlannedTask>,
        waiting: &HashSet<(EnvironmentId, LaneId)>,
        now: Timestamp,
    ) -> TouchColumns<'p> {
        let mut lanes: BTreeMap<(EnvironmentId, &LaneId), Timestamp> = BTreeMap::new();
        for PlannedTask { task, .. } in pending {
            let due = lanes.entry((task.key.environment, &task.lane)).or_insert(task.due_at);
            *due = task.due_at.min(*due);
        }
        let mut columns = TouchColumns::default();
        for ((environment, lane), due) in lanes {
            columns.environments.push(environment.0);
            columns.ids.push(lane.as_bytes().as_slice());
            columns.due.push(due.as_micros());
            columns.waits.push(due <= now && !waiting.contains(&(environment, *lane)));
        }
        columns
    }
}

/// Writes messages and tasks, touches the lanes of those that wait, and commits if that is all, in one round trip.
async fn write(
    transaction: &Transaction,
    fast: Option<&FastPath>,
    written: &[&Written],
    waiting: &HashSet<(EnvironmentId, LaneId)>,
    now: Timestamp,
    span: Span,
) -> Result<(), Fault> {
    let rows: Vec<_> = written.iter().map(|written| (written.environment, &*written.message)).collect();
    let messages = MessageColumns::new(&rows);
    let planned = || written.iter().flat_map(|written| &written.tasks);
    let mut tasks = TaskColumns::default();
    for planned in planned() {
        tasks.push(&planned.task, planned.slot.as_ref().and(fast).map(|fast| &fast.session));
    }
    let lanes = TouchColumns::new(planned().filter(|planned| planned.slot.is_none()), waiting, now);
    let expiries = ExpiryColumns::new(&rows);
    if !expiries.is_empty() {
        transaction.change(&sql::APPEND_PAYLOAD_EXPIRY, &expiries.params()).await?;
    }
    let (append_message, append_task, touch_lane) = (
        transaction.prepare(&sql::APPEND_MESSAGE).await?,
        transaction.prepare(&sql::APPEND_TASK).await?,
        transaction.prepare_touch(&sql::TOUCH_LANE).await?,
    );
    let now = now.as_micros();
    let mut message_params = messages.params().to_vec();
    message_params.extend([&now as _, messages.rests()]);
    let task_params = tasks.params();
    let writes = try_join3(
        transaction.execute(&append_message, &message_params),
        async {
            if tasks.is_empty() {
                return Ok(0);
            }
            transaction.execute(&append_task, &task_params).await
        },
        async {
            if lanes.ids.is_empty() {
                return Ok(0);
            }
            let params: Params<'_> = &[&lanes.environments, &lanes.ids, &lanes.due, &lanes.waits];
            transaction.touch(&touch_lane, params).await
        },
    );
    if span == Span::Part {
        return within(writes).await.map(drop);
    }
    transaction.commit_with(writes).await.map(drop)
}
