//! Settle: the ends of attempts, many in one transaction, each fenced by task, epoch and session.
//!
//! A batch in which every task leaves is one statement that commits by itself. What was not matched was settled before, or
//! is someone else's by now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use everhook_core::id::{EnvironmentId, LaneId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::task::{TaskKey, TaskState};
use everhook_core::time::{Timestamp, micros};
use everhook_store::lease::{Settled, Settlement};
use futures_util::future::{try_join, try_join3};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::Fault;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Transaction, within};
use crate::store::PostgresStore;

/// Longest span that is added to the clock, so that a sum cannot overflow: about a hundred years.
const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// When settlements that were matched are due again; none for those whose task left or is dead.
type Matched = HashMap<usize, Option<Timestamp>>;

impl PostgresStore {
    pub(crate) async fn settle_once(&self, batch: &[Settlement]) -> Result<Vec<Settled>, Fault> {
        let matched = if batch.iter().all(leaves_quietly) {
            self.settle_gone(batch).await?
        } else {
            self.settle_mixed(batch).await?
        };
        self.answer(batch, &matched).await
    }

    async fn settle_gone(&self, batch: &[Settlement]) -> Result<Matched, Fault> {
        if batch.is_empty() {
            return Ok(Matched::new());
        }
        let (places, members): (Vec<usize>, Vec<&Settlement>) = batch.iter().enumerate().unzip();
        let columns = Columns::new(&members);
        let rows = self.database.write(&sql::SETTLE_TASK_GONE, &columns.params()).await?;
        read_matched(&rows, &places, Reading::Gone)
    }

    async fn settle_mixed(&self, batch: &[Settlement]) -> Result<Matched, Fault> {
        // Of two ends of one tenure the first counts, whichever statement it is in.
        let mut tenures = HashSet::with_capacity(batch.len());
        let firsts = batch.iter().enumerate().filter(|(_, member)| tenures.insert(tenure(member)));
        let (gone, kept): (Vec<_>, Vec<_>) = firsts.partition(|(_, member)| member.row == NextRow::Gone);
        let (gone_places, gone): (Vec<usize>, Vec<&Settlement>) = gone.into_iter().unzip();
        let (kept_places, kept): (Vec<usize>, Vec<&Settlement>) = kept.into_iter().unzip();
        let transaction = self.database.transaction().await?;
        let settle_gone = transaction.prepare(&sql::SETTLE_TASK_GONE).await?;
        let settle_kept = transaction.prepare(&sql::SETTLE_TASK_PENDING).await?;
        transaction.begin().await?;
        let (gone_columns, kept_columns, kept_state) =
            (Columns::new(&gone), Columns::new(&kept), KeptColumns::new(&kept));
        let (gone_params, mut kept_params) = (gone_columns.params(), kept_columns.params());
        kept_params.extend(kept_state.params());
        let (gone_rows, kept_rows) = within(try_join(
            async {
                if gone.is_empty() {
                    return Ok(Vec::new());
                }
                transaction.query(&settle_gone, &gone_params).await
            },
            async {
                if kept.is_empty() {
                    return Ok(Vec::new());
                }
                transaction.query(&settle_kept, &kept_params).await
            },
        ))
        .await?;
        let mut matched = read_matched(&gone_rows, &gone_places, Reading::Gone)?;
        matched.extend(read_matched(&kept_rows, &kept_places, Reading::Kept)?);
        follow_up(&transaction, batch, &matched).await?;
        Ok(matched)
    }

    /// Tells repeated settlements from lost ones.
    async fn answer(&self, batch: &[Settlement], matched: &Matched) -> Result<Vec<Settled>, Fault> {
        let mut answers: Vec<Settled> =
            (0..batch.len()).map(|n| if matched.contains_key(&n) { Settled::Done } else { Settled::Lost }).collect();
        let unmatched = || batch.iter().enumerate().filter(|(n, _)| !matched.contains_key(n));
        let (places, logged): (Vec<usize>, Vec<_>) =
            unmatched().filter_map(|(n, member)| Some((n, (member, member.attempt.as_ref()?)))).unzip();
        if places.is_empty() {
            return Ok(answers);
        }
        let each = || logged.iter().map(|(member, _)| member);
        let environments: Vec<i32> = each().map(|member| member.key.environment.0).collect();
        let subjects: Vec<&[u8]> = each().map(|member| member.key.subject.as_bytes().as_slice()).collect();
        let tasks: Vec<&[u8]> = each().map(|member| member.key.id.as_bytes().as_slice()).collect();
        let epochs: Vec<i32> = each().map(|member| int(member.epoch)).collect();
        let ids: Vec<&[u8]> = logged.iter().map(|(_, attempt)| attempt.id.as_bytes().as_slice()).collect();
        let params: &[&(dyn ToSql + Sync)] = &[&environments, &subjects, &tasks, &epochs, &ids];
        for row in self.database.read(&sql::FIND_ATTEMPT_SETTLED, params).await? {
            answers[place(&mut Reader::new(&row, "attempt"), &places)?] = Settled::Done;
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
    settlement.row == NextRow::Gone && settlement.hold_lane.is_none() && !settlement.stop_lane
}

/// What matched settlements mean for lanes and endpoints; and the commit.
async fn follow_up(transaction: &Transaction, batch: &[Settlement], matched: &Matched) -> Result<(), Fault> {
    let mut lanes: BTreeMap<(EnvironmentId, LaneId), (Timestamp, Duration)> = BTreeMap::new();
    let mut gone: Vec<(EnvironmentId, LaneId)> = Vec::new();
    for (n, settlement) in batch.iter().enumerate() {
        let Some(due) = matched.get(&n) else { continue };
        let lane = (settlement.key.environment, settlement.lane);
        if due.is_some() || settlement.hold_lane.is_some() {
            let (earliest, longest) = lanes.entry(lane).or_insert((Timestamp::NEVER, Duration::ZERO));
            *earliest = due.map_or(*earliest, |due| due.min(*earliest));
            *longest = settlement.hold_lane.map_or(*longest, |hold| hold.max(*longest));
        }
        if settlement.stop_lane {
            gone.push(lane);
        }
    }
    gone.sort_unstable();
    gone.dedup();
    let hold_lane = transaction.prepare(&sql::HOLD_LANE).await?;
    let disable_endpoint = transaction.prepare(&sql::DISABLE_ENDPOINT).await?;
    let (environments, ids): (Vec<i32>, Vec<&[u8]>) = lanes.keys().map(lane_column).unzip();
    let (due, hold): (Vec<i64>, Vec<i64>) = lanes.values().map(|(due, hold)| (due.as_micros(), span(*hold))).unzip();
    let (gone_environments, gone_ids): (Vec<i32>, Vec<&[u8]>) = gone.iter().map(lane_column).unzip();
    transaction
        .commit_with(try_join3(
            async {
                if ids.is_empty() {
                    return Ok(0);
                }
                transaction.execute(&hold_lane, &[&environments, &ids, &due, &hold]).await
            },
            async {
                if gone_ids.is_empty() {
                    return Ok(0);
                }
                transaction.execute(&disable_endpoint, &[&gone_environments, &gone_ids]).await
            },
            async { Ok(()) },
        ))
        .await
        .map(drop)
}

fn lane_column((environment, lane): &(EnvironmentId, LaneId)) -> (i32, &[u8]) {
    (environment.0, lane.as_bytes().as_slice())
}

/// Which statement's answer is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Gone,
    Kept,
}

/// `places` are where the members of the statement stand in the batch.
fn read_matched(rows: &[Row], places: &[usize], reading: Reading) -> Result<Matched, Fault> {
    let mut matched = Matched::with_capacity(rows.len());
    for row in rows {
        let mut row = Reader::new(row, "task");
        let n = place(&mut row, places)?;
        let due = match reading {
            Reading::Gone => None,
            Reading::Kept => row.get::<Option<i64>>("due_at")?.map(Timestamp::from_micros),
        };
        matched.insert(n, due);
    }
    Ok(matched)
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

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.environments,
            &self.subjects,
            &self.tasks,
            &self.owners,
            &self.epochs,
            &self.attempts,
            &self.endpoints,
            &self.classes,
            &self.ends,
            &self.triggers,
            &self.urls,
            &self.statuses,
            &self.replies,
            &self.started,
            &self.durations,
        ]
    }
}

/// What becomes of tasks that stay.
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
