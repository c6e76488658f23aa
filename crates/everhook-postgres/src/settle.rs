//! Settle: the ends of attempts, many in one transaction, each fenced by task, epoch and session.
//!
//! A batch in which every task leaves is one statement that commits by itself. What was not matched was settled before, or
//! is someone else's by now.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use everhook_core::batch::Change;
use everhook_core::id::{EnvironmentId, LaneId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::task::{TaskKey, TaskKind, TaskState};
use everhook_core::time::{Timestamp, micros};
use everhook_store::batch::ended;
use everhook_store::lease::{Settled, Settlement};
use everhook_store::made::{Made, WithMade};
use futures_util::future::{try_join_all, try_join4};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::Fault;
use crate::job::batch::{self, Changes};
use crate::job::output::Results;
use crate::job::rows::now;
use crate::lease::send_unless;
use crate::rows::Reader;
use crate::sql::{self, Sql};
use crate::statement::{Params, Statements, Transaction, within};
use crate::store::PostgresStore;

/// Longest span that is added to the clock, so that a sum cannot overflow: about a hundred years.
const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// When settlements that were matched are due again; none for those whose task left or is dead.
type Matched = HashMap<usize, Option<Timestamp>>;

impl PostgresStore {
    pub(crate) async fn settle_once(&self, batch: &[Settlement]) -> Result<WithMade<Vec<Settled>>, Fault> {
        let Some(first) = batch.first() else { return Ok(WithMade::default()) };
        let kind = first.kind;
        // Of several ends of one tenure the first counts; a statement would take any of them.
        let mut tenures = HashSet::with_capacity(batch.len());
        let firsts: Vec<(usize, &Settlement)> =
            batch.iter().enumerate().filter(|(_, member)| tenures.insert(tenure(member))).collect();
        let WithMade { answer: matched, made } =
            if batch.iter().all(|member| member.kind == kind && leaves_quietly(member)) {
                Made::default().with(self.settle_gone(kind, firsts).await?)
            } else {
                self.settle_mixed(batch, &firsts).await?
            };
        Ok(made.with(self.answer(batch, &matched).await?))
    }

    async fn settle_gone(&self, kind: TaskKind, firsts: Vec<(usize, &Settlement)>) -> Result<Matched, Fault> {
        let (places, members): (Vec<usize>, Vec<&Settlement>) = firsts.into_iter().unzip();
        let group = Group::new(kind, Stays::Gone, places, &members);
        let rows = self.database.write(group.sql, &group.params()).await?;
        let mut matched = Matched::with_capacity(rows.len());
        group.read(&rows, &mut matched)?;
        Ok(matched)
    }

    async fn settle_mixed(
        &self,
        batch: &[Settlement],
        firsts: &[(usize, &Settlement)],
    ) -> Result<WithMade<Matched>, Fault> {
        let mut groups = Vec::new();
        for (kind, stays) in [
            (TaskKind::Delivery, Stays::Gone),
            (TaskKind::Delivery, Stays::Kept),
            (TaskKind::Job, Stays::Gone),
            (TaskKind::Job, Stays::Kept),
        ] {
            let is_of = |member: &Settlement| member.kind == kind && Stays::of(member) == stays;
            let (places, members): (Vec<usize>, Vec<&Settlement>) =
                firsts.iter().copied().filter(|(_, member)| is_of(member)).unzip();
            if !members.is_empty() {
                groups.push(Group::new(kind, stays, places, &members));
            }
        }
        let transaction = self.database.transaction().await?;
        let mut prepared = Vec::with_capacity(groups.len());
        for group in &groups {
            prepared.push((transaction.prepare(group.sql).await?, group.params()));
        }
        transaction.begin().await?;
        let sent = prepared.iter().map(|(statement, params)| transaction.query(statement, params));
        let answers = within(try_join_all(sent)).await?;
        let mut matched = Matched::with_capacity(batch.len());
        for (group, rows) in groups.iter().zip(&answers) {
            group.read(rows, &mut matched)?;
        }
        let made = self.follow_up(&transaction, batch, &matched).await?;
        Ok(made.with(matched))
    }

    /// What matched settlements mean for lanes, endpoints, queues, results and batches; and the commit.
    async fn follow_up(
        &self,
        transaction: &Transaction,
        batch: &[Settlement],
        matched: &Matched,
    ) -> Result<Made, Fault> {
        let lanes = LaneEnds::new(batch, matched);
        let counted = || batch.iter().enumerate().filter(|(n, _)| matched.contains_key(n)).map(|(_, member)| member);
        let results = Results::new(counted());
        let mut changes = Changes::new();
        for member in counted().filter(|member| member.kind == TaskKind::Job) {
            let ended = member.attempt.as_ref().and_then(|attempt| ended(attempt.end));
            if let (Some(id), Some(ended)) = (member.batch, ended) {
                batch::add(&mut changes, (member.key.environment, id), Change::Ended(ended));
            }
        }
        let (hold_lane, disable_endpoint, stop_queue, put_result) = (
            transaction.prepare_touch(&sql::HOLD_LANE).await?,
            transaction.prepare(&sql::DISABLE_ENDPOINT).await?,
            transaction.prepare(&sql::STOP_QUEUE).await?,
            transaction.prepare(&sql::PUT_JOB_RESULT).await?,
        );
        let (held_columns, disabled, stopped) =
            (lanes.held(), lanes.stopped(TaskKind::Delivery), lanes.stopped(TaskKind::Job));
        let (held, kept) = (held_columns.params(), results.params());
        let disabled_params: Params<'_> = &[&disabled.0, &disabled.1];
        let stopped_params: Params<'_> = &[&stopped.0, &stopped.1];
        let writes = try_join4(
            async {
                if lanes.held.is_empty() {
                    return Ok(0);
                }
                transaction.touch(&hold_lane, &held).await
            },
            send_unless(disabled.1.is_empty(), transaction, &disable_endpoint, disabled_params),
            send_unless(stopped.1.is_empty(), transaction, &stop_queue, stopped_params),
            send_unless(results.is_empty(), transaction, &put_result, &kept),
        );
        if changes.is_empty() {
            return transaction.commit_with(writes).await.map(|_| Made::default());
        }
        within(writes).await?;
        let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
        let told = self.tell_batches(transaction, &changes, now).await?;
        transaction.commit().await?;
        Ok(told.made)
    }

    /// Tells repeated settlements from lost ones.
    async fn answer(&self, batch: &[Settlement], matched: &Matched) -> Result<Vec<Settled>, Fault> {
        let mut answers: Vec<Settled> =
            (0..batch.len()).map(|n| if matched.contains_key(&n) { Settled::Done } else { Settled::Lost }).collect();
        for (kind, sql) in
            [(TaskKind::Delivery, &sql::FIND_ATTEMPT_SETTLED), (TaskKind::Job, &sql::FIND_JOB_ATTEMPT_SETTLED)]
        {
            let unmatched =
                batch.iter().enumerate().filter(|(n, member)| member.kind == kind && !matched.contains_key(n));
            let (places, logged): (Vec<usize>, Vec<_>) =
                unmatched.filter_map(|(n, member)| Some((n, (member, member.attempt.as_ref()?)))).unzip();
            if places.is_empty() {
                continue;
            }
            let each = || logged.iter().map(|(member, _)| member);
            let environments: Vec<i32> = each().map(|member| member.key.environment.0).collect();
            let subjects: Vec<&[u8]> = each().map(|member| member.key.subject.as_bytes().as_slice()).collect();
            let tasks: Vec<&[u8]> = each().map(|member| member.key.id.as_bytes().as_slice()).collect();
            let epochs: Vec<i32> = each().map(|member| int(member.epoch)).collect();
            let ids: Vec<&[u8]> = logged.iter().map(|(_, attempt)| attempt.id.as_bytes().as_slice()).collect();
            let params: &[&(dyn ToSql + Sync)] = &[&environments, &subjects, &tasks, &epochs, &ids];
            for row in self.database.read(sql, params).await? {
                answers[place(&mut Reader::new(&row, "attempt"), &places)?] = Settled::Done;
            }
        }
        Ok(answers)
    }
}

/// What a settlement is fenced by.
fn tenure(settlement: &Settlement) -> (TaskKey, u32, SessionId) {
    (settlement.key, settlement.epoch, settlement.session)
}

/// Whether the task leaves and nothing else happens.
fn leaves_quietly(settlement: &Settlement) -> bool {
    let Settlement { row, hold_lane, stop_lane, batch, result, .. } = settlement;
    *row == NextRow::Gone && hold_lane.is_none() && !stop_lane && batch.is_none() && result.is_none()
}

/// Whether a task stays in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Gone,
    Kept,
}

impl Stays {
    fn of(settlement: &Settlement) -> Stays {
        if settlement.row == NextRow::Gone { Stays::Gone } else { Stays::Kept }
    }
}

/// Settlements that one statement ends.
struct Group<'a> {
    sql: &'static Sql,
    kind: TaskKind,
    stays: Stays,
    /// Where they stand in the batch.
    places: Vec<usize>,
    columns: Columns<'a>,
    kept: KeptColumns,
}

impl<'a> Group<'a> {
    fn new(kind: TaskKind, stays: Stays, places: Vec<usize>, members: &[&'a Settlement]) -> Group<'a> {
        let sql = match (kind, stays) {
            (TaskKind::Delivery, Stays::Gone) => &sql::SETTLE_TASK_GONE,
            (TaskKind::Delivery, Stays::Kept) => &sql::SETTLE_TASK_PENDING,
            (TaskKind::Job, Stays::Gone) => &sql::SETTLE_JOB_GONE,
            (TaskKind::Job, Stays::Kept) => &sql::SETTLE_JOB_PENDING,
        };
        let kept = if stays == Stays::Kept { KeptColumns::new(members) } else { KeptColumns::default() };
        Group { sql, kind, stays, places, columns: Columns::new(members), kept }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.columns.params(self.kind);
        if self.stays == Stays::Kept {
            params.extend(self.kept.params());
        }
        params
    }

    fn read(&self, rows: &[Row], matched: &mut Matched) -> Result<(), Fault> {
        for row in rows {
            let mut row = Reader::new(row, "task");
            let n = place(&mut row, &self.places)?;
            let due = match self.stays {
                Stays::Gone => None,
                Stays::Kept => row.get::<Option<i64>>("due_at")?.map(Timestamp::from_micros),
            };
            matched.insert(n, due);
        }
        Ok(())
    }
}

/// What settlements mean for lanes.
#[derive(Default)]
struct LaneEnds {
    /// When their next task is due, and how long they are to rest.
    held: BTreeMap<(EnvironmentId, LaneId), (Timestamp, Duration)>,
    /// Those that are to give no more.
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
            if settlement.stop_lane {
                match settlement.kind {
                    TaskKind::Delivery => ends.stopped.insert(lane),
                    TaskKind::Job => ends.stopped_queues.insert(lane),
                };
            }
        }
        ends
    }

    fn held(&self) -> HeldColumns<'_> {
        let (environments, ids) = self.held.keys().map(lane_column).unzip();
        let (due, hold) = self.held.values().map(|(due, hold)| (due.as_micros(), span(*hold))).unzip();
        HeldColumns { environments, ids, due, hold }
    }

    fn stopped(&self, kind: TaskKind) -> (Vec<i32>, Vec<&[u8]>) {
        let lanes = match kind {
            TaskKind::Delivery => &self.stopped,
            TaskKind::Job => &self.stopped_queues,
        };
        lanes.iter().map(lane_column).unzip()
    }
}

struct HeldColumns<'a> {
    environments: Vec<i32>,
    ids: Vec<&'a [u8]>,
    due: Vec<i64>,
    hold: Vec<i64>,
}

impl HeldColumns<'_> {
    fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.environments, &self.ids, &self.due, &self.hold]
    }
}

fn lane_column((environment, lane): &(EnvironmentId, LaneId)) -> (i32, &[u8]) {
    (environment.0, lane.as_bytes().as_slice())
}

fn place(row: &mut Reader<'_>, places: &[usize]) -> Result<usize, Fault> {
    let n: i64 = row.get("n")?;
    let at = usize::try_from(n).ok().and_then(|n| n.checked_sub(1)).and_then(|n| places.get(n));
    at.copied().ok_or(Fault::Corrupt { table: "task", column: "n" })
}

fn span(span: Duration) -> i64 {
    micros(span.min(SPAN_MAX))
}

fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Settlements as columns: whom they are for, and what is logged.
struct Columns<'a> {
    environments: Vec<i32>,
    subjects: Vec<&'a [u8]>,
    tasks: Vec<&'a [u8]>,
    owners: Vec<&'a [u8]>,
    epochs: Vec<i32>,
    attempts: Vec<Option<&'a [u8]>>,
    /// Who held the tasks.
    holders: Vec<&'a [u8]>,
    endpoints: Vec<&'a [u8]>,
    classes: Vec<Option<i16>>,
    ends: Vec<Option<i16>>,
    triggers: Vec<Option<i16>>,
    urls: Vec<Option<&'a str>>,
    statuses: Vec<Option<i32>>,
    replies: Vec<Option<&'a [u8]>>,
    started: Vec<Option<i64>>,
    durations: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn new(batch: &[&'a Settlement]) -> Columns<'a> {
        let each = || batch.iter().copied();
        let logged = || each().map(|member| member.attempt.as_ref());
        Columns {
            environments: each().map(|member| member.key.environment.0).collect(),
            subjects: each().map(|member| member.key.subject.as_bytes().as_slice()).collect(),
            tasks: each().map(|member| member.key.id.as_bytes().as_slice()).collect(),
            owners: each().map(|member| member.session.as_bytes().as_slice()).collect(),
            epochs: each().map(|member| int(member.epoch)).collect(),
            attempts: logged().map(|attempt| attempt.map(|attempt| attempt.id.as_bytes().as_slice())).collect(),
            holders: each().map(holder).collect(),
            endpoints: each().map(|member| member.lane.as_bytes().as_slice()).collect(),
            classes: logged().map(|attempt| attempt.map(|attempt| attempt.class.to_db())).collect(),
            ends: logged().map(|attempt| attempt.map(|attempt| attempt.end.to_db())).collect(),
            triggers: logged().map(|attempt| attempt.map(|attempt| attempt.trigger.to_db())).collect(),
            urls: logged().map(|attempt| attempt.map(|attempt| attempt.url.as_str())).collect(),
            statuses: logged().map(|attempt| attempt.map(|attempt| i32::from(attempt.status))).collect(),
            replies: logged().map(|attempt| attempt.map(|attempt| &*attempt.reply)).collect(),
            started: logged().map(|attempt| attempt.map(|attempt| attempt.started_at.as_micros())).collect(),
            durations: logged().map(|attempt| attempt.map(|attempt| micros(attempt.duration))).collect(),
        }
    }

    /// As the statements of this kind take them: an attempt of a job says less of where it went.
    fn params(&self, kind: TaskKind) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&self.environments, &self.subjects, &self.tasks, &self.owners, &self.epochs, &self.attempts];
        match kind {
            TaskKind::Delivery => {
                params.extend([&self.endpoints as &(dyn ToSql + Sync), &self.classes, &self.ends]);
                params.extend([&self.triggers as &(dyn ToSql + Sync), &self.urls]);
            }
            TaskKind::Job => params.extend([&self.holders as &(dyn ToSql + Sync), &self.classes, &self.ends]),
        }
        params.extend([&self.statuses as &(dyn ToSql + Sync), &self.replies, &self.started, &self.durations]);
        params
    }
}

fn holder(settlement: &Settlement) -> &[u8] {
    let holder = settlement.attempt.as_ref().and_then(|attempt| attempt.holder.as_ref());
    holder.unwrap_or(&settlement.session).as_bytes()
}

/// What becomes of tasks that stay.
#[derive(Default)]
struct KeptColumns {
    states: Vec<i16>,
    tries: Vec<i32>,
    crashes: Vec<i32>,
    due_in: Vec<Option<i64>>,
}

impl KeptColumns {
    fn new(batch: &[&Settlement]) -> KeptColumns {
        let due_in = |member: &&Settlement| match member.row {
            NextRow::Pending { due_in } => Some(span(due_in)),
            NextRow::Dead | NextRow::Gone => None,
        };
        let state = |due_in: &Option<i64>| if due_in.is_some() { TaskState::Pending } else { TaskState::Dead }.to_db();
        let due_in: Vec<_> = batch.iter().map(due_in).collect();
        KeptColumns {
            states: due_in.iter().map(state).collect(),
            tries: batch.iter().map(|member| int(member.tries)).collect(),
            crashes: batch.iter().map(|member| int(member.crashes)).collect(),
            due_in,
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.states, &self.tries, &self.crashes, &self.due_in]
    }
}
