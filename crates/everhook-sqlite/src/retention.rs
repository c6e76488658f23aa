//! Retention: prunes old rows in slices.
//!
//! A reader selects the rows, however many it must scan. The writer deletes a bounded number of rows, each only if it
//! can still be pruned. The scan over rows that stay therefore never blocks the writer.

use std::collections::HashSet;

use everhook_core::id::{EnvironmentId, Id, JobId, LaneId, MessageId};
use everhook_core::job;
use everhook_core::name::Name;
use everhook_core::retention::next_cut;
use everhook_core::time::Timestamp;
use everhook_core::traffic::Span;
use everhook_store::catalog::Order;
use everhook_store::error::StoreError;
use everhook_store::retention::Prunable;
use everhook_store::schedule::RUNS_KEPT;
use everhook_store::sql::statement::Statement;
use everhook_store::statement;
use everhook_store::store::Op;
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use crate::DIALECT;
use crate::SqliteStore;
use crate::connection::Connection;
use crate::error::Fault;
use crate::job::enqueue::CreateLaneQueue;
use crate::job::steer::{DeleteJobAttempt, DeleteJobOutput};
use crate::sql::{run, stream};
use crate::token;
use crate::writer::{Tx, WriteAsk, WriteClass};

/// The number of young rows in sequence after which no old row is expected: tables are read in the order of writing.
const YOUNG_MAX: usize = 1000;

/// Free pages that stay in the file, beside a share of all pages.
const FREE_PAGES_MIN: i64 = 256;
/// Returns at most this number of pages in one transaction.
const RETURN_PAGES: &str = "pragma incremental_vacuum(512)";

/// The statements that prune one kind of rows.
struct Rule {
    /// Lists keys, each with a verdict.
    list: &'static str,
    /// The other parameters of the list.
    ages: Vec<Value>,
    /// Deletes the row of a key, if it can still be pruned.
    remove: &'static str,
    /// Whether the deletion also takes the parameters of the list, to check the age again.
    is_asked_again: bool,
    /// Delete the rows that belong to it.
    belongings: Vec<&'static str>,
}

/// Whether a row can be pruned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Forget,
    Keep,
    Young,
}

const UNKNOWN_VERDICT: Fault = Fault::Corrupt { table: "retention", column: "verdict" };

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../queries/", $name, ".sql"))
    };
}

/// The text of a declared statement, which includes a part, or whose parameters are the columns of the key.
fn text<S: Statement>() -> &'static str {
    S::text(DIALECT).sql(Order::Ascending)
}

impl Rule {
    fn of(what: Prunable, before: Timestamp, now: Timestamp) -> Rule {
        let age = vec![Value::Integer(before.as_micros())];
        let plain = |list, remove| Rule { list, ages: age.clone(), remove, is_asked_again: false, belongings: vec![] };
        let traffic = |shortest: Span, longest: Span| Rule {
            ages: [before.as_secs(), shortest.secs(), longest.secs()].map(Value::Integer).to_vec(),
            ..plain(query!("list_expired_traffic"), query!("prune_traffic"))
        };
        match what {
            Prunable::Messages => Rule {
                ages: vec![Value::Blob(Id::floor(before).as_bytes().to_vec())],
                belongings: vec![query!("prune_attempt")],
                ..plain(query!("list_expired_message"), query!("prune_message"))
            },
            Prunable::DeadDeliveries => plain(query!("list_expired_task_dead"), query!("prune_task_dead")),
            Prunable::Payloads => Rule {
                ages: vec![Value::Integer(now.as_micros())],
                belongings: vec![query!("erase_payload")],
                ..plain(query!("list_expired_payload"), query!("prune_payload"))
            },
            Prunable::Keys => Rule {
                ages: vec![Value::Integer(now.as_micros())],
                is_asked_again: true,
                ..plain(query!("list_expired_dedup"), query!("prune_dedup"))
            },
            Prunable::Answers => Rule {
                ages: vec![Value::Integer(now.as_micros())],
                is_asked_again: true,
                ..plain(query!("list_expired_request"), query!("prune_request"))
            },
            Prunable::Polled => plain(query!("list_expired_polled"), query!("prune_polled")),
            Prunable::PollConsumers => Rule {
                is_asked_again: true,
                ..plain(query!("list_expired_poll_consumer"), query!("prune_poll_consumer"))
            },
            Prunable::Jobs => Rule {
                belongings: vec![text::<DeleteJobAttempt>(), text::<DeleteJobOutput>()],
                ..plain(text::<ListExpiredJob>(), query!("prune_job"))
            },
            Prunable::OnceSlots => Rule {
                is_asked_again: true,
                belongings: vec![query!("prune_once_suppression")],
                ..plain(query!("list_expired_once"), query!("prune_once"))
            },
            Prunable::Sessions => Rule {
                belongings: vec![query!("prune_worker")],
                ..plain(query!("list_expired_session"), query!("prune_session"))
            },
            Prunable::Batches => plain(query!("list_expired_batch"), query!("prune_batch")),
            Prunable::Runs => Rule {
                ages: vec![Value::Integer(before.as_micros()), Value::Integer(RUNS_KEPT as i64)],
                ..plain(query!("list_expired_schedule_run"), query!("prune_schedule_run"))
            },
            Prunable::Tokens => Rule {
                ages: vec![Value::Integer(now.as_micros())],
                is_asked_again: true,
                ..plain(query!("list_expired_token_end"), query!("prune_token_end"))
            },
            Prunable::TrafficMinutes => traffic(Span::Minute, Span::Quarter),
            Prunable::TrafficHours => traffic(Span::Hour, Span::Hour),
        }
    }

    /// Selects up to `most` keys of rows that can be pruned.
    fn choose(&self, conn: &Connection, most: usize) -> Result<Vec<Vec<Value>>, Fault> {
        let mut list = conn.prepare_cached(self.list)?;
        let verdict_at = list.column_count() - 1;
        let mut rows = list.query(params_from_iter(&self.ages))?;
        let (mut chosen, mut young) = (Vec::new(), 0);
        while chosen.len() < most
            && young < YOUNG_MAX
            && let Some(row) = rows.next()?
        {
            match Verdict::from_db(row.get(verdict_at)?).ok_or(UNKNOWN_VERDICT)? {
                Verdict::Forget => chosen.push((0..verdict_at).map(|index| row.get(index)).collect::<Result<_, _>>()?),
                Verdict::Keep => young = 0,
                Verdict::Young => young += 1,
            }
        }
        Ok(chosen)
    }

    /// Deletes the selected rows; returns how many still could be pruned.
    fn remove(&self, tx: &Tx<'_>, chosen: &[Vec<Value>]) -> Result<usize, Fault> {
        let mut removed = 0;
        for key in chosen {
            let again = if self.is_asked_again { self.ages.as_slice() } else { &[] };
            let is_removed =
                tx.conn.prepare_cached(self.remove)?.execute(params_from_iter(key.iter().chain(again)))? > 0;
            removed += usize::from(is_removed);
            for belonging in self.belongings.iter().filter(|_| is_removed) {
                tx.conn.prepare_cached(belonging)?.execute(params_from_iter(key))?;
            }
        }
        Ok(removed)
    }
}

impl Verdict {
    const fn from_db(number: i16) -> Option<Verdict> {
        match number {
            0 => Some(Verdict::Forget),
            1 => Some(Verdict::Keep),
            2 => Some(Verdict::Young),
            _ => None,
        }
    }
}

statement! {
    FindSize = "find_size" {} -> Option<(i64, Option<MessageId>, Option<MessageId>)>;
    ListExpiredJob = ["list_expired_job", "last_attempt"] { before: Timestamp } -> Vec<(EnvironmentId, JobId, i16)>;
    ListExpiredLane = "list_expired_lane" {} -> Vec<(EnvironmentId, LaneId, Name)>;
    // No index finds the leased tasks of one lane, but there are few leased tasks in total.
    ListLaneLeased = (
        "list_lane_leased",
        "select environment, lane from task indexed by task_owner where state = 1"
    ) {} -> Vec<(EnvironmentId, LaneId)>;
    PruneLane = "prune_lane" { environment: EnvironmentId, id: LaneId };
}

/// Returns the next cut, as long as the store is too large. Deleted rows free their pages at once.
pub(crate) fn find_size_cut(conn: &Connection, bytes_max: u64) -> Result<Option<Timestamp>, Fault> {
    let (bytes, oldest, newest) = run(conn, FindSize {})?.unwrap_or_default();
    let (Some(oldest), Some(newest)) = (oldest.filter(|_| bytes.unsigned_abs() > bytes_max), newest) else {
        return Ok(None);
    };
    Ok(Some(next_cut(oldest.0.timestamp(), newest.0.timestamp())))
}

/// Returns free pages to the file system, a few at a time. Some stay for the next rows.
fn return_pages(tx: &Tx<'_>) -> Result<(), Fault> {
    let count = |pragma: &str| tx.conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let (pages, free) = (count("pragma page_count")?, count("pragma freelist_count")?);
    if free > FREE_PAGES_MIN + pages / 16 {
        let mut vacuum = tx.conn.prepare_cached(RETURN_PAGES)?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(())
}

impl SqliteStore {
    pub(crate) async fn prune_rows(
        &self,
        what: Prunable,
        before: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let choose = move |conn: &Connection| {
            let rule = Rule::of(what, before, now);
            let chosen = rule.choose(conn, limit)?;
            Ok((rule, chosen))
        };
        let (rule, chosen) = self.read(Op::Prune, choose).await?;
        let ask = WriteAsk { op: Op::Prune, class: WriteClass::Maintenance, rows: chosen.len() };
        let remove = move |tx: &Tx<'_>| {
            let removed = rule.remove(tx, &chosen)?;
            return_pages(tx)?;
            Ok(removed)
        };
        let removed = self.write(ask, remove).await?;
        match what {
            Prunable::Sessions => Ok(removed + self.prune_lanes(limit).await?),
            Prunable::Tokens => {
                self.change(Op::Prune, move |tx| token::prune_keys(tx, before)).await?;
                Ok(removed)
            }
            _ => Ok(removed),
        }
    }

    /// Prunes lanes of concurrency keys without a job. The queue's own lane stays, and is created if it is missing: a
    /// queue without configuration is known only by its lanes.
    async fn prune_lanes(&self, limit: usize) -> Result<usize, StoreError> {
        let lanes = self.read(Op::Prune, move |conn| empty_lanes(conn, limit)).await?;
        let ask = WriteAsk { op: Op::Prune, class: WriteClass::Maintenance, rows: lanes.len() };
        self.write(ask, move |tx| prune_lanes(tx, &lanes)).await
    }
}

/// A lane of a concurrency key without a job.
struct EmptyLane {
    environment: EnvironmentId,
    lane: LaneId,
    queue: Name,
}

fn empty_lanes(conn: &Connection, most: usize) -> Result<Vec<EmptyLane>, Fault> {
    stream(conn, ListExpiredLane {}, |rows| {
        let lanes = rows.map(|row| row.map(|(environment, lane, queue)| EmptyLane { environment, lane, queue }));
        let is_own = |lane: &EmptyLane| lane.lane == job::lane(lane.environment, &lane.queue, None);
        lanes.filter(|lane| !lane.as_ref().is_ok_and(is_own)).take(most).collect()
    })
}

fn prune_lanes(tx: &Tx<'_>, lanes: &[EmptyLane]) -> Result<usize, Fault> {
    let leased: HashSet<(EnvironmentId, LaneId)> = run(tx.conn, ListLaneLeased {})?.into_iter().collect();
    let mut pruned = 0;
    for EmptyLane { environment, lane, queue } in lanes {
        let environment = *environment;
        if leased.contains(&(environment, *lane)) {
            continue;
        }
        pruned += run(tx.conn, PruneLane { environment, id: *lane })?;
        let own = job::lane(environment, queue, None);
        run(tx.conn, CreateLaneQueue { environment, id: own, queue, feed: own.0 })?;
    }
    Ok(usize::try_from(pruned).unwrap_or(usize::MAX))
}
