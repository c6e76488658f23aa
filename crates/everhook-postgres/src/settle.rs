//! Settle: the ends of attempts, many in one transaction, each fenced by task, epoch and session.
//!
//! A batch in which every task leaves is one statement that commits by itself. A settlement without a matching task was
//! settled earlier, or another session holds the task now.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use everhook_core::batch::BatchChange;
use everhook_core::id::{ApplicationId, AttemptId, EnvironmentId, Id, LaneId, SessionId, TaskId};
use everhook_core::job::report::KeptResult;
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::outcome::Class;
use everhook_core::policy::breaker::{Breaker, BreakerChange};
use everhook_core::policy::limit::RetryPlace;
use everhook_core::task::{TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::batch::ended;
use everhook_store::lease::{NewAttempt, Settled, Settlement};
use everhook_store::made::{Made, WithMade};
use everhook_store::operational::AttemptEvent;
use everhook_store::{columns, statement};

use crate::append::lower_lanes_due;
use crate::batch::{self, Changes};
use crate::columns::{DueLane, DueLanes, Keys};
use crate::error::Fault;
use crate::order::promote;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    /// Attempts whose tasks leave the table.
    GoneTasks of GoneTask<'a> {
        environment: EnvironmentId, subject: Id, task: TaskId, owner: SessionId, epoch: u32,
        attempt: Option<AttemptId>, session: Option<SessionId>, endpoint: Option<LaneId>, class: Option<Class>,
        end_state: Option<EndState>, trigger: Option<Trigger>, url: Option<&'a str>, status: Option<u16>,
        reply: Option<&'a [u8]>, started_at: Option<Timestamp>, duration_us: Option<Duration>, exchange: Option<&'a str>,
    }

    /// Attempts whose tasks stay.
    KeptTasks of KeptTask<'a> {
        environment: EnvironmentId, subject: Id, task: TaskId, owner: SessionId, epoch: u32,
        attempt: Option<AttemptId>, session: Option<SessionId>, endpoint: Option<LaneId>, class: Option<Class>,
        end_state: Option<EndState>, trigger: Option<Trigger>, url: Option<&'a str>, status: Option<u16>,
        reply: Option<&'a [u8]>, started_at: Option<Timestamp>, duration_us: Option<Duration>, exchange: Option<&'a str>,
        state: TaskState, tries: u32, crashes: u32, due_in: Option<Duration>, in_place: bool,
    }

    /// Lanes whose holds end if they are of these kinds. An ordered lane then waits for the retry of its first task.
    pub(crate) FreedLanes of FreedLane {
        environment: EnvironmentId, id: LaneId, first_kind: i16, last_kind: i16, retry_us: Duration,
    }

    /// Lanes whose breakers change from one state to the next, with the time for which they open.
    ChangedBreakers of ChangedBreaker {
        environment: EnvironmentId, id: LaneId, seen: Breaker, next: Breaker, open_us: Duration,
    }

    /// Results, or the sizes of results that were too large.
    JobResults of JobResult<'a> {
        environment: EnvironmentId,
        job: Id,
        result: Option<&'a [u8]>,
        result_bytes: Option<u32>,
    }

    /// Attempts that may have been logged earlier.
    LoggedAttempts of LoggedAttempt {
        kind: TaskKind, environment: EnvironmentId, subject: Id, task: TaskId, epoch: u32, id: AttemptId,
    }
}

statement! {
    pub(crate) SettleGone<'a> = ["settle_gone", "log_attempt"] { batch: GoneTasks<'a> } -> Vec<usize>;
    pub(crate) SettleKept<'a> = ["settle_kept", "log_attempt"] { batch: KeptTasks<'a> }
        -> Vec<(usize, Option<Timestamp>)>;
    FindSettled = "find_settled" { batch: LoggedAttempts } -> Vec<usize>;
    // Returns the endpoints that were enabled.
    DisableEndpoint = "disable_endpoint" { wanted: Keys } -> Vec<(EnvironmentId, ApplicationId, Id)>;
    pub(crate) FreeLane = ["free_lane", "locked_lane"] { wanted: FreedLanes };
    ChangeBreaker = "change_breaker" { changed: ChangedBreakers };
    StopQueue = ["stop_queue", "queue_by_name"] { wanted: Keys };
    PutJobResult<'a> = "put_job_result" { fresh: JobResults<'a> };
}

/// The longest time that is added to the clock, about a hundred years, so that the sum cannot overflow.
const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// The due times of matched settlements; none if the task left the table or is dead.
type Matched = HashMap<usize, Option<Timestamp>>;

impl PostgresStore {
    pub(crate) async fn settle_once(&self, batch: &[Settlement]) -> Result<WithMade<Vec<Settled>>, Fault> {
        // Only the first of several ends of one lease counts. An update with several matching rows would use any of
        // them.
        let mut leases = HashSet::with_capacity(batch.len());
        let firsts = batch.iter().enumerate().filter(|(_, member)| leases.insert(lease_of(member)));
        let (gone, kept): (Vec<_>, Vec<_>) = firsts.partition(|(_, member)| member.row == NextRow::Gone);
        let (gone, kept) = (Group::new(gone), Group::new(kept));
        // The usual batch of successful deliveries changes no lane, endpoint or batch, and needs no transaction of
        // several round trips.
        let WithMade { answer: matched, made } = if batch.iter().all(leaves_quietly) {
            Made::default().with(self.settle_gone(&gone).await?)
        } else {
            self.settle_mixed(batch, &gone, &kept).await?
        };
        Ok(made.with(self.answer(batch, &matched).await?))
    }

    async fn settle_gone(&self, gone: &Group<'_>) -> Result<Matched, Fault> {
        let mut matched = Matched::with_capacity(gone.members.len());
        if let Some(batch) = gone.rows::<GoneTasks<'_>, _>(GoneTask::new).nonempty() {
            gone.add_gone(&self.database.write(SettleGone { batch }).await?, &mut matched)?;
        }
        Ok(matched)
    }

    async fn settle_mixed(
        &self,
        batch: &[Settlement],
        gone: &Group<'_>,
        kept: &Group<'_>,
    ) -> Result<WithMade<Matched>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        // Lock order: tasks, lanes, endpoints and queues, batches. An enqueue also locks lanes before batches, or the
        // two could deadlock.
        let settled = tx.run((
            gone.rows::<GoneTasks<'_>, _>(GoneTask::new).nonempty().map(|batch| SettleGone { batch }),
            kept.rows::<KeptTasks<'_>, _>(KeptTask::new).nonempty().map(|batch| SettleKept { batch }),
        ));
        let settled = settled.await?;
        let mut matched = Matched::with_capacity(batch.len());
        gone.add_gone(&settled.0, &mut matched)?;
        kept.add_kept(&settled.1, &mut matched)?;
        let made = self.follow_up(&tx, batch, &matched).await?;
        Ok(made.with(matched))
    }

    /// Applies matched settlements to lanes, endpoints, queues, results and batches, and commits.
    async fn follow_up(&self, tx: &Tx<'_>, batch: &[Settlement], matched: &Matched) -> Result<Made, Fault> {
        let lanes = LaneEnds::new(batch, matched);
        let counted = || batch.iter().enumerate().filter(|(n, _)| matched.contains_key(n)).map(|(_, member)| member);
        let fresh: JobResults<'_> = results(counted());
        let mut changes = Changes::new();
        for member in counted() {
            let ended = member.attempt.as_ref().and_then(|attempt| ended(attempt.end));
            if let (Some(id), Some(ended)) = (member.batch, ended) {
                batch::add(&mut changes, (member.key.environment, id), BatchChange::Ended(ended));
            }
        }
        let disabled = Keys::of_lanes(lanes.stopped.iter().copied());
        let stopped = Keys::of_lanes(lanes.stopped_queues.iter().copied());
        let (lock_lane, lower_lane_due) = lanes.due().nonempty().map(lower_lanes_due).unzip();
        let free_lane = lanes.freed().nonempty().map(|wanted| FreeLane { wanted });
        let change_breaker = lanes.breakers().nonempty().map(|changed| ChangeBreaker { changed });
        let promote = promote(counted().filter_map(Settlement::ended_key));
        let writes = (
            // First end the old holds, then set those of this batch: in the other order, a new hold would end at once.
            // `free_lane` also takes the locks that `change_breaker` and `promote` rely on.
            (free_lane, change_breaker, lock_lane),
            (promote, lower_lane_due),
            disabled.nonempty().map(|wanted| DisableEndpoint { wanted }),
            stopped.nonempty().map(|wanted| StopQueue { wanted }),
            fresh.nonempty().map(|fresh| PutJobResult { fresh }),
        );
        let events: Vec<AttemptEvent> = counted().filter_map(AttemptEvent::of).collect();
        if changes.is_empty() && events.is_empty() && lanes.stopped.is_empty() {
            return tx.finish(writes).await.map(|_| Made::default());
        }
        let (_, _, disabled, _, _) = tx.run(writes).await?;
        let mut made = Made::default();
        if !changes.is_empty() {
            let now = tx.now().await?;
            made += self.tell_batches(tx, &changes, now).await?.made;
        }
        made += self.tell_settled(tx, &events, &disabled).await?;
        tx.commit().await?;
        Ok(made)
    }

    /// Distinguishes repeated settlements from lost ones. A repeated one finds its own attempt in the log.
    async fn answer(&self, batch: &[Settlement], matched: &Matched) -> Result<Vec<Settled>, Fault> {
        let mut answers: Vec<Settled> =
            (0..batch.len()).map(|n| if matched.contains_key(&n) { Settled::Done } else { Settled::Lost }).collect();
        let unmatched = batch.iter().enumerate().filter(|(n, _)| !matched.contains_key(n));
        let group = Group::new(unmatched.filter(|(_, member)| member.attempt.is_some()).collect());
        let logged = |member: &&Settlement| {
            let (kind, key, attempt) = (member.kind, member.key, member.attempt.as_ref()?);
            let (environment, subject, task) = (key.environment, key.subject, key.id);
            Some(LoggedAttempt { kind, environment, subject, task, epoch: member.epoch, id: attempt.id })
        };
        let logged: LoggedAttempts = group.members.iter().filter_map(logged).collect();
        if let Some(batch) = logged.nonempty() {
            for n in self.database.read(FindSettled { batch }).await? {
                answers[group.place(n)?] = Settled::Done;
            }
        }
        Ok(answers)
    }
}

/// Returns the values that fence a settlement.
fn lease_of(settlement: &Settlement) -> (TaskKey, u32, SessionId) {
    (settlement.key, settlement.epoch, settlement.session)
}

/// Whether the task leaves the table without any other effect.
fn leaves_quietly(settlement: &Settlement) -> bool {
    let Settlement { row, hold_lane, limits, order_key, stop_lane, batch, result, .. } = settlement;
    let is_noticed = limits.is_freed || limits.breaker.is_some() || order_key.is_some();
    let has_effect = hold_lane.is_some() || is_noticed || *stop_lane || batch.is_some() || result.is_some();
    *row == NextRow::Gone && !has_effect && AttemptEvent::of(settlement).is_none()
}

/// The settlements of one statement, with their indexes in the batch.
struct Group<'a> {
    places: Vec<usize>,
    members: Vec<&'a Settlement>,
}

impl<'a> Group<'a> {
    fn new(members: Vec<(usize, &'a Settlement)>) -> Group<'a> {
        let (places, members) = members.into_iter().unzip();
        Group { places, members }
    }

    fn rows<C: FromIterator<R>, R>(&self, row: fn(&'a Settlement) -> R) -> C {
        self.members.iter().map(|member| row(member)).collect()
    }

    /// Converts the `n`th row of a statement to an index in the batch.
    fn place(&self, n: usize) -> Result<usize, Fault> {
        let at = n.checked_sub(1).and_then(|n| self.places.get(n));
        at.copied().ok_or(Fault::Corrupt { table: "task", column: "n" })
    }

    fn add_gone(&self, gone: &[usize], matched: &mut Matched) -> Result<(), Fault> {
        for n in gone {
            matched.insert(self.place(*n)?, None);
        }
        Ok(())
    }

    fn add_kept(&self, kept: &[(usize, Option<Timestamp>)], matched: &mut Matched) -> Result<(), Fault> {
        for (n, due) in kept {
            matched.insert(self.place(*n)?, *due);
        }
        Ok(())
    }
}

/// The effects of settlements on lanes.
#[derive(Default)]
struct LaneEnds {
    /// The due time of the next task, and the time to hold the lane back.
    held: BTreeMap<(EnvironmentId, LaneId), (Timestamp, Duration)>,
    /// Lanes at their limit of which deliveries have ended, and ordered lanes with the time until a retry. Lanes whose
    /// breakers change, and lanes in which a delivery with a key has ended, are only locked.
    freed: BTreeMap<(EnvironmentId, LaneId), (bool, Duration)>,
    /// The first change of a breaker from each of its states.
    breakers: BTreeMap<(EnvironmentId, LaneId, Breaker), BreakerChange>,
    /// Lanes of endpoints to disable.
    stopped: BTreeSet<(EnvironmentId, LaneId)>,
    stopped_queues: BTreeSet<(EnvironmentId, LaneId)>,
}

impl LaneEnds {
    fn new(batch: &[Settlement], matched: &Matched) -> LaneEnds {
        let mut ends = LaneEnds::default();
        for (n, settlement) in batch.iter().enumerate() {
            let Some(due) = matched.get(&n) else { continue };
            let lane = (settlement.key.environment, settlement.lane);
            if due.is_some() || settlement.hold_lane.is_some() {
                let (earliest, longest) = ends.held.entry(lane).or_insert((Timestamp::NEVER, Duration::ZERO));
                *earliest = due.map_or(*earliest, |due| due.min(*earliest));
                *longest = settlement.hold_lane.map_or(*longest, |hold| hold.max(*longest));
            }
            let (is_freed, retry) = (settlement.limits.is_freed, settlement.retry_hold());
            if let Some(change) = settlement.limits.breaker {
                ends.breakers.entry((lane.0, lane.1, change.from)).or_insert(change);
            }
            // These lanes need no change of their hold, but their lock: a lease or an append must not read them in
            // between.
            let is_locked = settlement.limits.breaker.is_some() || settlement.ended_key().is_some();
            if is_freed || !retry.is_zero() || is_locked {
                let known = ends.freed.entry(lane).or_default();
                *known = (known.0 || is_freed, known.1.max(retry));
            }
            if settlement.stop_lane {
                match settlement.kind {
                    TaskKind::Delivery => ends.stopped.insert(lane),
                    TaskKind::Job => ends.stopped_queues.insert(lane),
                };
            }
        }
        ends
    }

    /// Returns the lanes to free. All lanes that this transaction writes are locked with them, in key order, so that
    /// two transactions cannot deadlock.
    fn freed(&self) -> FreedLanes {
        if self.freed.is_empty() {
            return FreedLanes::default();
        }
        let all: BTreeSet<&(EnvironmentId, LaneId)> = self.freed.keys().chain(self.held.keys()).collect();
        let freed = |lane: &(EnvironmentId, LaneId)| {
            let (is_freed, retry) = self.freed.get(lane).copied().unwrap_or_default();
            let freed = FreedLane::new(lane.0, lane.1, HoldKind::Concurrency..=HoldKind::Order);
            FreedLane { retry_us: span(retry), ..if is_freed { freed } else { FreedLane::locked(lane.0, lane.1) } }
        };
        all.into_iter().map(freed).collect()
    }

    fn breakers(&self) -> ChangedBreakers {
        let changed = |((environment, id, seen), change): (&(EnvironmentId, LaneId, Breaker), &BreakerChange)| {
            let open_us = span(change.open_for.unwrap_or_default());
            ChangedBreaker { environment: *environment, id: *id, seen: *seen, next: change.to, open_us }
        };
        self.breakers.iter().map(changed).collect()
    }

    /// Returns the lanes with a new due time or hold.
    fn due(&self) -> DueLanes {
        let due = |((environment, id), (due_at, hold)): (&(EnvironmentId, LaneId), &(Timestamp, Duration))| DueLane {
            hold_us: span(*hold),
            ..DueLane::new(*environment, *id, *due_at)
        };
        self.held.iter().map(due).collect()
    }
}

impl FreedLane {
    /// A lane whose hold ends if it is of one of these kinds.
    pub(crate) fn new(environment: EnvironmentId, id: LaneId, kinds: RangeInclusive<HoldKind>) -> FreedLane {
        let (first_kind, last_kind) = (kinds.start().to_db(), kinds.end().to_db());
        FreedLane { environment, id, first_kind, last_kind, retry_us: Duration::ZERO }
    }

    /// A lane that is only locked: no kind is in the range.
    pub(crate) fn locked(environment: EnvironmentId, id: LaneId) -> FreedLane {
        FreedLane { environment, id, first_kind: 1, last_kind: 0, retry_us: Duration::ZERO }
    }
}

fn span(span: Duration) -> Duration {
    span.min(SPAN_MAX)
}

/// Builds a row from a settlement: the fence, the log entry, and further fields.
macro_rules! settlement_row {
    ($row:ident, |$member:ident| { $($field:ident: $value:expr),* $(,)? }) => {
        impl<'a> $row<'a> {
            fn new($member: &'a Settlement) -> $row<'a> {
                let attempt: Option<&'a NewAttempt> = $member.attempt.as_ref();
                $row {
                    environment: $member.key.environment,
                    subject: $member.key.subject,
                    task: $member.key.id,
                    owner: $member.session,
                    epoch: $member.epoch,
                    attempt: attempt.map(|attempt| attempt.id),
                    session: $member.logged_session(),
                    endpoint: $member.logged_endpoint(),
                    class: attempt.map(|attempt| attempt.class),
                    end_state: attempt.map(|attempt| attempt.end),
                    trigger: attempt.map(|attempt| attempt.trigger),
                    url: attempt.map(|attempt| attempt.url.as_str()),
                    status: attempt.map(|attempt| attempt.status),
                    reply: attempt.map(|attempt| &*attempt.reply),
                    started_at: attempt.map(|attempt| attempt.started_at),
                    duration_us: attempt.map(|attempt| attempt.duration),
                    exchange: attempt.and_then(NewAttempt::exchange_text),
                    $($field: $value,)*
                }
            }
        }
    };
}

settlement_row!(GoneTask, |member| {});

settlement_row!(KeptTask, |member| {
    state: state(member),
    tries: member.tries,
    crashes: member.crashes,
    due_in: due_in(member),
    in_place: member.limits.place != RetryPlace::Moves,
});

fn due_in(settlement: &Settlement) -> Option<Duration> {
    match settlement.row {
        NextRow::Pending { due_in } => Some(span(due_in)),
        NextRow::Dead | NextRow::Gone => None,
    }
}

fn state(settlement: &Settlement) -> TaskState {
    if due_in(settlement).is_some() { TaskState::Pending } else { TaskState::Dead }
}

/// Returns the results of settlements. Each job has at most one, because a task is settled once.
fn results<'a>(settlements: impl Iterator<Item = &'a Settlement>) -> JobResults<'a> {
    let result = |settlement: &'a Settlement| {
        let (result, result_bytes) = match settlement.result.as_ref()? {
            KeptResult::Whole(whole) => (Some(&**whole), None),
            KeptResult::TooLarge { bytes } => (None, Some(u32::try_from(*bytes).unwrap_or(u32::MAX))),
        };
        Some(JobResult { environment: settlement.key.environment, job: settlement.key.subject, result, result_bytes })
    };
    settlements.filter_map(result).collect()
}
