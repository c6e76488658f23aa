//! Append in one round trip: planned from this node's caches, checked by the statement that writes.
//!
//! It serves the usual case: cached endpoints, free lanes, free slots on this node, unused keys. Every other batch
//! takes the general path, in `append`. If the guess is wrong, the statement writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EnvironmentId, Id, LaneId, MessageId, SessionId, TaskId};
use everhook_core::message::{Message, Rest};
use everhook_core::policy::RateLimit;
use everhook_core::policy::rate::Booking;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, accepted, plan};
use everhook_store::cache::takes_permits;
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::{columns, fields, statement};

use crate::columns::{Keys, MessageRow, TaskRow};
use crate::dedup::{Claims, NewKeys, new_keys, row_key};
use crate::endpoints::AppKey;
use crate::error::Fault;
use crate::lease::LaneKey;
use crate::store::PostgresStore;

columns! {
    /// Lane groups of applications, at the versions of the plan.
    KnownGroups of KnownGroup { environment: EnvironmentId, id: ApplicationId, version: i64 }

    /// Lanes whose permits are taken.
    LaneBookings of LaneBooking {
        environment: EnvironmentId, id: LaneId, unused_us: i64, before_us: i64, span_us: i64,
    }

    /// New messages without a `rest` column.
    DirectMessages of DirectMessage<'a> {
        environment: EnvironmentId, application: ApplicationId, id: MessageId, event_type: &'a str,
        event_id: Option<&'a str>, channels: Option<String>, tags: Option<String>, payload: Option<&'a [u8]>,
    }

    /// New tasks that are due now.
    DirectTasks of DirectTask {
        environment: EnvironmentId, subject: Id, id: TaskId, lane: LaneId, kind: TaskKind, trigger: Trigger,
        priority: i16, epoch: u32, owner: Option<SessionId>, state: TaskState,
    }
}

fields! {
    /// A batch with the guess that it relies on: versions of lane groups, and free lanes.
    pub(crate) DirectBatch<'a> {
        known: KnownGroups,
        free: Keys,
        wanted: NewKeys<'a>,
        fresh: DirectMessages<'a>,
        begun: DirectTasks,
    }
}

statement! {
    // Both return whether the guess was right, and the time.
    pub(crate) AppendDirect<'a> = ["append_direct", "direct_claim", "direct_rows"] { batch: DirectBatch<'a> }
        -> Option<(bool, Timestamp)>;
    AppendDirectBooked<'a> = ["append_direct_booked", "direct_claim", "direct_rows"] {
        batch: DirectBatch<'a>, booking: LaneBookings,
    } -> Option<(bool, Timestamp)>;
}

/// The number of batches that take the general path after a wrong guess. Its cause, such as a backlog, lasts a while.
const COOLDOWN_BATCHES: usize = 16;
/// For this long, no guess is made for a limited lane after a delivery had to wait in it.
const LANE_COOLDOWN: Duration = Duration::from_millis(100);
/// The limit of remembered lanes. A full memory is emptied: a wrong guess costs time only.
const WAITING_MAX: usize = 10_000;

/// Decides whether a guess is worthwhile.
#[derive(Debug, Default)]
pub(crate) struct Speculations {
    cooldown_batches: AtomicUsize,
    /// Limited lanes in which deliveries wait, with the time until which none is guessed to be free. They must not take
    /// the fast path from other endpoints, which a wrong guess would.
    waiting: Mutex<HashMap<LaneKey, Timestamp>>,
}

impl Speculations {
    fn is_worth_it(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.cooldown_batches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn record_miss(&self) {
        self.cooldown_batches.store(COOLDOWN_BATCHES, Ordering::Relaxed);
    }

    /// Remembers the limited lanes of tasks that wait.
    pub(crate) fn record_waiting<'p>(&self, tasks: impl Iterator<Item = &'p PlannedTask>) {
        for planned in tasks.filter(|planned| planned.slot.is_none() && takes_permits(&planned.endpoint)) {
            let TaskKey { environment, subject, .. } = planned.task.key;
            let mut waiting = self.lock();
            if waiting.len() >= WAITING_MAX {
                waiting.clear();
            }
            waiting.insert((environment, planned.task.lane), subject.timestamp().plus(LANE_COOLDOWN));
        }
    }

    fn is_waiting(&self, lane: LaneKey, now: Timestamp) -> bool {
        self.lock().get(&lane).is_some_and(|until| *until > now)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LaneKey, Timestamp>> {
        self.waiting.lock().expect("nothing panics while it holds this lock")
    }
}

/// A batch as it is written if the guess is right.
#[derive(Default)]
struct Speculation<'a> {
    applications: Vec<(AppKey, i64)>,
    lanes: BTreeSet<LaneKey>,
    /// Lanes with a rate limit, and the number of their tasks.
    limited: BTreeMap<LaneKey, (RateLimit, usize)>,
    claims: Claims<'a>,
    tasks: Vec<Vec<PlannedTask>>,
}

impl PostgresStore {
    /// Appends in one round trip; returns none if this batch must take the general path.
    pub(crate) async fn append_direct(&self, append: &Append) -> Result<Option<Vec<Appended>>, Fault> {
        if !self.speculations.is_worth_it() {
            return Ok(None);
        }
        let Some(speculation) = self.speculation(append) else { return Ok(None) };
        let written = match self.write_speculation(append, &speculation).await {
            // Another request holds one of the keys. The general path decides the answer.
            Err(Fault::Undone) => None,
            written => written?,
        };
        let Some(now) = written else {
            self.speculations.record_miss();
            return Ok(None);
        };
        let answer = |(new, tasks): (&NewMessage, Vec<PlannedTask>)| {
            let message = Message { created_at: now, ..new.message.clone() };
            let tasks = tasks.into_iter().map(|mut planned| {
                planned.task.due_at = now;
                planned
            });
            accepted(Arc::new(message), tasks.collect())
        };
        Ok(Some(append.messages.iter().zip(speculation.tasks).map(answer).collect()))
    }

    fn speculation<'a>(&self, append: &'a Append) -> Option<Speculation<'a>> {
        let mut speculation = Speculation::default();
        for new in &append.messages {
            // A once-slot is decided under its row's lock, and the statement writes no `rest` column.
            if new.once.is_some() || new.message.rest != Rest::default() {
                return None;
            }
            let key = (new.environment, new.message.application);
            let set = self.cache.peek(key.0, key.1)?;
            // The statement writes no rows for polled endpoints.
            if set.has_polled || new.version.is_some_and(|found_at| found_at != set.version) {
                return None;
            }
            match speculation.applications.iter().find(|(known, _)| *known == key) {
                Some((_, version)) if *version != set.version => return None,
                Some(_) => {}
                None => speculation.applications.push((key, set.version)),
            }
            for claim in &new.keys {
                // Of two messages with the same key, the second gets another answer. The statement cannot tell them
                // apart.
                if speculation.claims.insert(row_key(new.environment, claim), (claim, new.message.id.0)).is_some() {
                    return None;
                }
            }
            // The slots are reserved before the write. If the guess is wrong, dropping the speculation releases them.
            let group = GroupId { environment: new.environment, id: new.message.application.0 };
            let (at, limited) = (new.message.id.0.timestamp(), &mut speculation.limited);
            let take_slot = |endpoint: &Endpoint| {
                let grouped = GroupedLane { group, lane: endpoint.id.lane() };
                let (slot, rate) = append.fast.as_ref()?.reserve_unread(grouped, endpoint)?;
                if let Some(rate) = rate {
                    let key = (new.environment, grouped.lane);
                    if self.speculations.is_waiting(key, at) {
                        return None;
                    }
                    limited.entry(key).or_insert((rate, 0)).1 += 1;
                }
                Some(slot)
            };
            let tasks = plan(new.environment, &new.message, &set, &self.ids, at, new.addressing(), take_slot);
            // A pending task must lower the due time of its lane under a lock, which a single statement cannot do
            // safely.
            if tasks.iter().any(|planned| planned.slot.is_none()) {
                return None;
            }
            speculation.lanes.extend(tasks.iter().map(|planned| (new.environment, planned.task.lane)));
            speculation.tasks.push(tasks);
        }
        Some(speculation)
    }

    /// Writes if the guess is right. Returns the store's time, or none if the guess was wrong.
    async fn write_speculation(
        &self,
        append: &Append,
        speculation: &Speculation<'_>,
    ) -> Result<Option<Timestamp>, Fault> {
        let known = |((environment, id), version): &(AppKey, i64)| KnownGroup {
            environment: *environment,
            id: *id,
            version: *version,
        };
        let session = append.fast.as_ref().map(|fast| fast.session);
        let booking = |((environment, id), (rate, count)): (&LaneKey, &(RateLimit, usize))| {
            let Booking { unused_us, before_us, span_us } = rate.booking(*count);
            LaneBooking { environment: *environment, id: *id, unused_us, before_us, span_us }
        };
        let begun = speculation.tasks.iter().flatten().map(|planned| DirectTask::new(&planned.task, session));
        let batch = DirectBatch {
            known: speculation.applications.iter().map(known).collect(),
            free: Keys::of_lanes(speculation.lanes.iter().copied()),
            wanted: new_keys(&speculation.claims),
            fresh: append.messages.iter().map(DirectMessage::new).collect(),
            begun: begun.collect(),
        };
        let booking: LaneBookings = speculation.limited.iter().map(booking).collect();
        let written = match booking.nonempty() {
            None => self.database.write(AppendDirect { batch }).await,
            Some(booking) => self.database.write(AppendDirectBooked { batch, booking }).await,
        };
        let (is_right, now) = written?.ok_or(Fault::Contended("append returned no row"))?;
        Ok(is_right.then_some(now))
    }
}

impl<'a> DirectMessage<'a> {
    fn new(new: &'a NewMessage) -> DirectMessage<'a> {
        let MessageRow { environment, application, id, event_type, event_id, channels, tags, payload, .. } =
            MessageRow::new(new.environment, &new.message);
        DirectMessage { environment, application, id, event_type, event_id, channels, tags, payload }
    }
}

impl DirectTask {
    fn new(task: &Task, session: Option<SessionId>) -> DirectTask {
        let TaskRow { environment, subject, id, lane, kind, trigger, priority, epoch, owner, state, .. } =
            TaskRow::new(task, session);
        DirectTask { environment, subject, id, lane, kind, trigger, priority, epoch, owner, state }
    }
}
